"""What a GPU, a slice of it, and one job's share of it, can be asked.

DCGM's new names (4.6 and later) are beside the old ones. Some of them also have another unit; those
have a field id of their own.
"""

from __future__ import annotations

from steward.model.metric import COUNTER, KIB, MIB, Alias, Metric, counted, dcgm, nvml, otel, slurm

__all__ = ["GPU_METRICS"]

MHZ = 1e6
MILLI = 0.001
NANO = 1e-9
PERCENT = 0.01


def _gauge(name: str, unit: str, meaning: str, *aliases: Alias) -> Metric:
    return Metric(name=name, unit=unit, of="gpu", meaning=meaning, aliases=aliases)


def _share(name: str, meaning: str, *aliases: Alias) -> Metric:
    return _gauge(name, "1", meaning, *aliases)


def _counter(name: str, rate: str, meaning: str, *aliases: Alias) -> Metric:
    unit = {"joules": "J", "seconds": "s"}.get(name.rpartition("_")[2], "1")
    return Metric(
        name=name, unit=unit, of="gpu", meaning=meaning, kind=COUNTER, rate=rate, aliases=aliases
    )


_USE = (
    _share(
        "gpu.busy_share",
        "part of the last sampling period in which any kernel ran",
        *dcgm(203, "DEV_GPU_UTIL", scale=PERCENT),
        *dcgm(1613, "DEV_GPU_UTIL_RATIO"),
        nvml("utilization.gpu", PERCENT),
        otel("hw.gpu.utilization"),
        slurm("gres/gpuutil", PERCENT),
    ),
    _share(
        "gpu.copy.busy_share",
        "part of the period in which device memory was read or written",
        *dcgm(204, "DEV_MEM_COPY_UTIL", scale=PERCENT),
        *dcgm(1614, "DEV_MEM_COPY_UTIL_RATIO", "DEV_MEMORY_UTIL_RATIO"),
        nvml("utilization.memory", PERCENT),
    ),
    _share(
        "gpu.encoder.busy_share",
        "part of the period in which the video encoder worked",
        *dcgm(206, "DEV_ENC_UTIL", scale=PERCENT),
        *dcgm(1615, "DEV_ENC_UTIL_RATIO"),
        nvml("utilization.encoder", PERCENT),
    ),
    _share(
        "gpu.decoder.busy_share",
        "part of the period in which the video decoder worked",
        *dcgm(207, "DEV_DEC_UTIL", scale=PERCENT),
        *dcgm(1616, "DEV_DEC_UTIL_RATIO"),
        nvml("utilization.decoder", PERCENT),
    ),
    _share("gpu.processes_count", "processes with a context on the GPU", nvml("processes.count")),
)

_MEMORY = (
    _gauge(
        "gpu.memory.used_bytes",
        "By",
        "device memory in use by all processes",
        *dcgm(252, "DEV_FB_USED", scale=MIB),
        *dcgm(1627, "DEV_FB_USED_BYTES"),
        nvml("memory.used"),
        otel("hw.gpu.memory.usage"),
        slurm("gres/gpumem"),
    ),
    _gauge(
        "gpu.memory.free_bytes",
        "By",
        "device memory that nobody uses",
        *dcgm(251, "DEV_FB_FREE", scale=MIB),
        *dcgm(1626, "DEV_FB_FREE_BYTES"),
        nvml("memory.free"),
    ),
    _gauge(
        "gpu.memory.reserved_bytes",
        "By",
        "device memory that the driver keeps for itself",
        *dcgm(253, "DEV_FB_RESERVED", scale=MIB),
        *dcgm(1628, "DEV_FB_RESERVED_BYTES"),
        nvml("memory.reserved"),
    ),
    _gauge(
        "gpu.memory.limit_bytes",
        "By",
        "device memory in all",
        *dcgm(250, "DEV_FB_TOTAL", scale=MIB),
        *dcgm(1625, "DEV_FB_CAPACITY_BYTES"),
        nvml("memory.total"),
        otel("hw.gpu.memory.limit"),
    ),
    _gauge(
        "gpu.memory.temperature_celsius",
        "Cel",
        "temperature of the device memory",
        *dcgm(140, "DEV_MEMORY_TEMP", "DEV_MEMORY_TEMP_CELSIUS"),
        nvml("temperature.memory"),
    ),
)

_POWER = (
    _gauge(
        "gpu.power_watts",
        "W",
        "power drawn now",
        *dcgm(155, "DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS"),
        nvml("power.usage", MILLI),
        otel("hw.power"),
    ),
    _gauge(
        "gpu.power.instant_watts",
        "W",
        "power drawn now, where the plain reading is a mean over a second",
        *dcgm(157, "DEV_POWER_USAGE_INSTANT", "DEV_BOARD_POWER_RAW_WATTS"),
        nvml("power.instant", MILLI),
    ),
    _gauge(
        "gpu.power.limit_watts",
        "W",
        "power that the driver holds the GPU to",
        *dcgm(164, "DEV_ENFORCED_POWER_LIMIT", "DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS"),
        nvml("power.limit", MILLI),
    ),
    _counter(
        "gpu.energy_joules",
        "gpu.energy.mean_watts",
        "energy since the driver was loaded",
        *dcgm(156, "DEV_TOTAL_ENERGY_CONSUMPTION", scale=MILLI),
        *dcgm(1611, "DEV_GPU_ENERGY_JOULES_TOTAL"),
        otel("hw.energy"),
    ),
    _gauge(
        "gpu.energy.mean_watts",
        "W",
        "mean power between two readings of the energy counter",
        nvml("energy.mean", MILLI),
    ),
    _gauge(
        "gpu.temperature_celsius",
        "Cel",
        "temperature of the die",
        *dcgm(150, "DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS"),
        nvml("temperature.gpu"),
        otel("hw.temperature"),
    ),
    _share(
        "gpu.fan.speed_share",
        "speed of the fans, of the fastest",
        *dcgm(191, "DEV_FAN_SPEED", scale=PERCENT),
        *dcgm(1612, "DEV_FAN_SPEED_RATIO"),
        nvml("fan.speed", PERCENT),
    ),
)

_CLOCKS = (
    _gauge(
        "gpu.clock.sm_hz",
        "Hz",
        "clock of the streaming multiprocessors",
        *dcgm(100, "DEV_SM_CLOCK", scale=MHZ),
        *dcgm(1603, "DEV_SM_CLOCK_HERTZ"),
        nvml("clock.sm", MHZ),
    ),
    _gauge(
        "gpu.clock.memory_hz",
        "Hz",
        "clock of the device memory",
        *dcgm(101, "DEV_MEM_CLOCK", scale=MHZ),
        *dcgm(1604, "DEV_MEMORY_CLOCK_HERTZ"),
        nvml("clock.memory", MHZ),
    ),
    _share(
        "gpu.performance_state_code",
        "performance state, 0 (fastest) to 15",
        *dcgm(190, "DEV_PSTATE", "DEV_GPU_PSTATE"),
        nvml("performance_state"),
    ),
    _share(
        "gpu.throttle_bits",
        "NVML's bit mask of why clocks are held down",
        *dcgm(112, "DEV_CLOCK_THROTTLE_REASONS", "DEV_CLOCKS_EVENT_REASONS"),
        nvml("clocks.event_reasons"),
    ),
    _counter(
        "gpu.throttle.power_seconds",
        "gpu.throttle.power_share",
        "time in which clocks were held down to stay within the power limit",
        *dcgm(240, "DEV_POWER_VIOLATION", scale=NANO),
        *dcgm(1617, "DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL"),
    ),
    _share(
        "gpu.throttle.power_share",
        "part of the time in which clocks were held down to stay within the power limit",
        nvml("throttle.power"),
    ),
    _counter(
        "gpu.throttle.thermal_seconds",
        "gpu.throttle.thermal_share",
        "time in which clocks were held down because of heat",
        *dcgm(241, "DEV_THERMAL_VIOLATION", scale=NANO),
        *dcgm(1618, "DEV_GPU_THERMAL_THROTTLE_SECONDS_TOTAL"),
    ),
    _share(
        "gpu.throttle.thermal_share",
        "part of the time in which clocks were held down because of heat",
        nvml("throttle.thermal"),
    ),
)

_PIPES = (
    _share(
        "gpu.graphics.active_share",
        "mean share of cycles in which any engine for graphics or computing worked",
        *dcgm(1001, "PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO"),
        nvml("gpm.graphics_util", PERCENT),
    ),
    _share(
        "gpu.sm.active_share",
        "mean share of multiprocessors with at least one warp",
        *dcgm(1002, "PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO"),
        nvml("gpm.sm_util", PERCENT),
    ),
    _share(
        "gpu.sm.occupancy_share",
        "mean share of resident warps of those that could be",
        *dcgm(1003, "PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO"),
        nvml("gpm.sm_occupancy", PERCENT),
    ),
    _share(
        "gpu.tensor.active_share",
        "mean share of cycles in which the tensor cores worked",
        *dcgm(1004, "PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO"),
        nvml("gpm.any_tensor_util", PERCENT),
    ),
    _share(
        "gpu.tensor.imma_active_share",
        "mean share of cycles in which the tensor cores worked on integers",
        *dcgm(1013, "PROF_PIPE_TENSOR_IMMA_ACTIVE"),
        nvml("gpm.imma_tensor_util", PERCENT),
    ),
    _share(
        "gpu.tensor.hmma_active_share",
        "mean share of cycles in which the tensor cores worked on 16-bit numbers",
        *dcgm(1014, "PROF_PIPE_TENSOR_HMMA_ACTIVE"),
        nvml("gpm.hmma_tensor_util", PERCENT),
    ),
    _share(
        "gpu.tensor.dfma_active_share",
        "mean share of cycles in which the tensor cores worked on 64-bit numbers",
        *dcgm(1015, "PROF_PIPE_TENSOR_DFMA_ACTIVE"),
        nvml("gpm.dfma_tensor_util", PERCENT),
    ),
    _share(
        "gpu.dram.active_share",
        "mean share of cycles in which device memory moved data",
        *dcgm(1005, "PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO"),
        nvml("gpm.dram_bw_util", PERCENT),
    ),
    _share(
        "gpu.fp64.active_share",
        "mean share of cycles in which the FP64 pipe worked",
        *dcgm(1006, "PROF_PIPE_FP64_ACTIVE", "PROF_FP64_UTIL_RATIO"),
        nvml("gpm.fp64_util", PERCENT),
    ),
    _share(
        "gpu.fp32.active_share",
        "mean share of cycles in which the FP32 pipe worked",
        *dcgm(1007, "PROF_PIPE_FP32_ACTIVE", "PROF_FP32_UTIL_RATIO"),
        nvml("gpm.fp32_util", PERCENT),
    ),
    _share(
        "gpu.fp16.active_share",
        "mean share of cycles in which the FP16 pipe worked",
        *dcgm(1008, "PROF_PIPE_FP16_ACTIVE", "PROF_FP16_UTIL_RATIO"),
        nvml("gpm.fp16_util", PERCENT),
    ),
    _share(
        "gpu.integer.active_share",
        "mean share of cycles in which the integer pipe worked",
        *dcgm(1016, "PROF_PIPE_INT_ACTIVE"),
        nvml("gpm.integer_util", PERCENT),
    ),
)

_LINKS = (
    _gauge(
        "gpu.pcie.transmit_bytes_per_s",
        "By/s",
        "bytes that the GPU sends over PCIe",
        *dcgm(1009, "PROF_PCIE_TX_BYTES"),
        nvml("gpm.pcie_tx_per_sec", MIB),
        nvml("pcie.tx"),
    ),
    _gauge(
        "gpu.pcie.receive_bytes_per_s",
        "By/s",
        "bytes that the GPU receives over PCIe",
        *dcgm(1010, "PROF_PCIE_RX_BYTES"),
        nvml("gpm.pcie_rx_per_sec", MIB),
        nvml("pcie.rx"),
    ),
    *counted(
        "gpu.pcie.replays_count",
        "gpu.pcie.replays_per_s",
        of="gpu",
        meaning="packets that had to be sent again over PCIe",
        aliases=(
            *dcgm(202, "DEV_PCIE_REPLAY_COUNTER", "DEV_PCIE_REPLAY_TOTAL"),
            nvml("pcie.replays"),
        ),
    ),
    _share(
        "gpu.pcie.generation_code",
        "generation that the PCIe link runs at now; an idle GPU lowers it",
        *dcgm(237, "DEV_PCIE_LINK_GEN"),
        nvml("pcie.generation"),
    ),
    _share(
        "gpu.pcie.lanes_count",
        "lanes that the PCIe link has now",
        *dcgm(238, "DEV_PCIE_LINK_WIDTH"),
        nvml("pcie.width"),
    ),
    _gauge(
        "gpu.nvlink.transmit_bytes_per_s",
        "By/s",
        "bytes that the GPU sends over all its NVLinks",
        *dcgm(1011, "PROF_NVLINK_TX_BYTES"),
        nvml("gpm.nvlink_total_tx_per_sec", MIB),
        nvml("nvlink.tx", KIB),
    ),
    _gauge(
        "gpu.nvlink.receive_bytes_per_s",
        "By/s",
        "bytes that the GPU receives over all its NVLinks",
        *dcgm(1012, "PROF_NVLINK_RX_BYTES"),
        nvml("gpm.nvlink_total_rx_per_sec", MIB),
        nvml("nvlink.rx", KIB),
    ),
    _gauge(
        "gpu.nvlink.total_bytes_per_s",
        "By/s",
        "bytes over all NVLinks of the GPU, both ways, where only their sum is known",
        *dcgm(449, "DEV_NVLINK_BANDWIDTH_TOTAL", "DEV_NVLINK_THROUGHPUT_TOTAL", scale=1000 * KIB),
        *dcgm(1648, "DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND"),
    ),
    *counted(
        "gpu.nvlink.crc_errors_count",
        "gpu.nvlink.crc_errors_per_s",
        of="gpu",
        meaning="checksum errors of all NVLinks of the GPU",
        aliases=(
            *dcgm(419, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_DATA_ERROR_TOTAL"),
            *dcgm(497, "DEV_NVLINK_CRC_ERROR_TOTAL"),
            nvml("nvlink.crc_errors"),
        ),
    ),
    *counted(
        "gpu.nvlink.replays_count",
        "gpu.nvlink.replays_per_s",
        of="gpu",
        meaning="packets that had to be sent again over NVLink",
        aliases=(
            *dcgm(429, "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DEV_NVLINK_REPLAY_ERROR_TOTAL"),
            nvml("nvlink.replays"),
        ),
    ),
    *counted(
        "gpu.nvlink.recoveries_count",
        "gpu.nvlink.recoveries_per_s",
        of="gpu",
        meaning="times that an NVLink of the GPU went down and came back",
        aliases=(
            *dcgm(439, "DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DEV_NVLINK_RECOVERY_ERROR_TOTAL"),
            nvml("nvlink.recoveries"),
        ),
    ),
)

# Levels, not rates: what matters of a damage is how much of it there is.
_DAMAGE = (
    _share(
        "gpu.ecc.corrected_count",
        "memory errors that were corrected since the driver was loaded",
        *dcgm(310, "DEV_ECC_SBE_VOL_TOTAL"),
        nvml("ecc.corrected"),
    ),
    _share(
        "gpu.ecc.uncorrected_count",
        "memory errors that could not be corrected since the driver was loaded",
        *dcgm(311, "DEV_ECC_DBE_VOL_TOTAL"),
        nvml("ecc.uncorrected"),
    ),
    _share(
        "gpu.rows.remapped_correctable_count",
        "rows of memory replaced because of errors that could be corrected",
        *dcgm(394, "DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_CORRECTABLE_TOTAL"),
        nvml("rows.remapped_correctable"),
    ),
    _share(
        "gpu.rows.remapped_uncorrectable_count",
        "rows of memory replaced because of errors that could not be corrected",
        *dcgm(393, "DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"),
        nvml("rows.remapped_uncorrectable"),
    ),
    _share(
        "gpu.rows.remap_pending_code",
        "1 while a row waits for a reset to be replaced",
        *dcgm(396, "DEV_ROW_REMAP_PENDING"),
        nvml("rows.remap_pending"),
    ),
    _share(
        "gpu.rows.remap_failed_code",
        "1 when a row could not be replaced: the GPU has to go",
        *dcgm(395, "DEV_ROW_REMAP_FAILURE", "DEV_ROW_REMAP_FAILED"),
        nvml("rows.remap_failed"),
    ),
    _share(
        "gpu.recovery_code",
        "what the driver asks for: 0 nothing, 1 reset, 2 reboot, 3 drain, 4 drain and reset",
        nvml("recovery.action"),
    ),
    _share(
        "gpu.xid_code",
        "the last XID error, 0 for none",
        *dcgm(230, "DEV_XID_ERRORS", "DEV_XID_ERROR"),
    ),
)

_SHARES = (
    Metric(
        name="share.busy_share",
        unit="1",
        of="share",
        meaning="part of the period in which this job's kernels ran on this GPU",
        aliases=(nvml("process.sm_util", PERCENT),),
    ),
    Metric(
        name="share.memory.used_bytes",
        unit="By",
        of="share",
        meaning="device memory that this job holds on this GPU",
        aliases=(nvml("process.used_memory"),),
    ),
)

GPU_METRICS: tuple[Metric, ...] = (
    *_USE,
    *_MEMORY,
    *_POWER,
    *_CLOCKS,
    *_PIPES,
    *_LINKS,
    *_DAMAGE,
    *_SHARES,
)

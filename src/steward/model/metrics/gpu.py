"""What a GPU, and one job's share of it, can be asked."""

from __future__ import annotations

from steward.model.metric import COUNTER, MIB, Metric, dcgm, nvml, otel, slurm

__all__ = ["GPU_METRICS"]

GPU_METRICS: tuple[Metric, ...] = (
    Metric(
        name="gpu.busy_share",
        unit="1",
        of="gpu",
        meaning="part of the last sampling period in which any kernel ran",
        aliases=(
            *dcgm(203, "DEV_GPU_UTIL", scale=0.01),
            *dcgm(203, "DEV_GPU_UTIL_RATIO"),
            nvml("utilization.gpu", 0.01),
            otel("hw.gpu.utilization"),
            slurm("gres/gpuutil", 0.01),
        ),
    ),
    Metric(
        name="gpu.copy.busy_share",
        unit="1",
        of="gpu",
        meaning="part of the period in which device memory was read or written",
        aliases=(
            *dcgm(204, "DEV_MEM_COPY_UTIL", scale=0.01),
            *dcgm(204, "DEV_MEM_COPY_UTIL_RATIO"),
            nvml("utilization.memory", 0.01),
        ),
    ),
    Metric(
        name="gpu.memory.used_bytes",
        unit="By",
        of="gpu",
        meaning="device memory in use by all processes",
        aliases=(
            *dcgm(252, "DEV_FB_USED", scale=MIB),
            nvml("memory.used"),
            otel("hw.gpu.memory.usage"),
            slurm("gres/gpumem"),
        ),
    ),
    Metric(
        name="gpu.memory.free_bytes",
        unit="By",
        of="gpu",
        meaning="device memory that nobody uses",
        aliases=(*dcgm(251, "DEV_FB_FREE", scale=MIB), nvml("memory.free")),
    ),
    Metric(
        name="gpu.memory.limit_bytes",
        unit="By",
        of="gpu",
        meaning="device memory in all",
        aliases=(
            *dcgm(250, "DEV_FB_TOTAL", scale=MIB),
            nvml("memory.total"),
            otel("hw.gpu.memory.limit"),
        ),
    ),
    Metric(
        name="gpu.power_watts",
        unit="W",
        of="gpu",
        meaning="power drawn now",
        aliases=(
            *dcgm(155, "DEV_POWER_USAGE"),
            nvml("power.usage", 0.001),
            otel("hw.power"),
        ),
    ),
    Metric(
        name="gpu.energy_joules",
        unit="J",
        of="gpu",
        meaning="energy since the driver was loaded",
        kind=COUNTER,
        rate="gpu.energy.mean_watts",
        aliases=(
            *dcgm(156, "DEV_TOTAL_ENERGY_CONSUMPTION", scale=0.001),
            nvml("energy.total", 0.001),
            otel("hw.energy"),
        ),
    ),
    Metric(
        name="gpu.energy.mean_watts",
        unit="W",
        of="gpu",
        meaning="mean power between two readings of the energy counter",
    ),
    Metric(
        name="gpu.temperature_celsius",
        unit="Cel",
        of="gpu",
        meaning="temperature of the die",
        aliases=(
            *dcgm(150, "DEV_GPU_TEMP"),
            nvml("temperature.gpu"),
            otel("hw.temperature"),
        ),
    ),
    Metric(
        name="gpu.clock.sm_hz",
        unit="Hz",
        of="gpu",
        meaning="clock of the streaming multiprocessors",
        aliases=(*dcgm(100, "DEV_SM_CLOCK", scale=1e6), nvml("clock.sm", 1e6)),
    ),
    Metric(
        name="gpu.sm.active_share",
        unit="1",
        of="gpu",
        meaning="mean share of multiprocessors with at least one warp",
        aliases=(
            *dcgm(1002, "PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO"),
            nvml("gpm.sm_util", 0.01),
        ),
    ),
    Metric(
        name="gpu.tensor.active_share",
        unit="1",
        of="gpu",
        meaning="mean share of cycles in which the tensor cores worked",
        aliases=(
            *dcgm(1004, "PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO"),
            nvml("gpm.any_tensor_util", 0.01),
        ),
    ),
    Metric(
        name="gpu.dram.active_share",
        unit="1",
        of="gpu",
        meaning="mean share of cycles in which device memory moved data",
        aliases=(
            *dcgm(1005, "PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO"),
            nvml("gpm.dram_bw_util", 0.01),
        ),
    ),
    Metric(
        name="gpu.clock.memory_hz",
        unit="Hz",
        of="gpu",
        meaning="clock of the device memory",
        aliases=(
            *dcgm(101, "DEV_MEM_CLOCK", scale=1e6),
            nvml("clock.memory", 1e6),
        ),
    ),
    Metric(
        name="gpu.sm.occupancy_share",
        unit="1",
        of="gpu",
        meaning="mean share of resident warps of those that could be",
        aliases=(
            *dcgm(1003, "PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO"),
            nvml("gpm.sm_occupancy", 0.01),
        ),
    ),
    Metric(
        name="gpu.fp64.active_share",
        unit="1",
        of="gpu",
        meaning="mean share of cycles in which the FP64 pipe worked",
        aliases=(
            *dcgm(1006, "PROF_PIPE_FP64_ACTIVE", "PROF_FP64_UTIL_RATIO"),
            nvml("gpm.fp64_util", 0.01),
        ),
    ),
    Metric(
        name="gpu.fp32.active_share",
        unit="1",
        of="gpu",
        meaning="mean share of cycles in which the FP32 pipe worked",
        aliases=(
            *dcgm(1007, "PROF_PIPE_FP32_ACTIVE", "PROF_FP32_UTIL_RATIO"),
            nvml("gpm.fp32_util", 0.01),
        ),
    ),
    Metric(
        name="gpu.fp16.active_share",
        unit="1",
        of="gpu",
        meaning="mean share of cycles in which the FP16 pipe worked",
        aliases=(
            *dcgm(1008, "PROF_PIPE_FP16_ACTIVE", "PROF_FP16_UTIL_RATIO"),
            nvml("gpm.fp16_util", 0.01),
        ),
    ),
    Metric(
        name="gpu.pcie.transmit_bytes_per_s",
        unit="By/s",
        of="gpu",
        meaning="bytes that the GPU sends over PCIe",
        aliases=(
            *dcgm(1009, "PROF_PCIE_TX_BYTES"),
            nvml("gpm.pcie_tx_per_sec", MIB),
        ),
    ),
    Metric(
        name="gpu.pcie.receive_bytes_per_s",
        unit="By/s",
        of="gpu",
        meaning="bytes that the GPU receives over PCIe",
        aliases=(
            *dcgm(1010, "PROF_PCIE_RX_BYTES"),
            nvml("gpm.pcie_rx_per_sec", MIB),
        ),
    ),
    Metric(
        name="gpu.performance_state_code",
        unit="1",
        of="gpu",
        meaning="performance state, 0 (fastest) to 15",
        aliases=(
            *dcgm(190, "DEV_PSTATE"),
            nvml("performance_state"),
        ),
    ),
    Metric(
        name="gpu.processes_count",
        unit="1",
        of="gpu",
        meaning="processes with a context on the GPU",
        aliases=(nvml("processes.count"),),
    ),
    Metric(
        name="gpu.throttle_bits",
        unit="1",
        of="gpu",
        meaning="NVML's bit mask of why clocks are held down",
        aliases=(*dcgm(112, "DEV_CLOCK_THROTTLE_REASONS"), nvml("clocks.event_reasons")),
    ),
    Metric(
        name="gpu.xid_code",
        unit="1",
        of="gpu",
        meaning="the last XID error, 0 for none",
        aliases=dcgm(230, "DEV_XID_ERRORS"),
    ),
    Metric(
        name="share.busy_share",
        unit="1",
        of="share",
        meaning="part of the period in which this job's kernels ran on this GPU",
        aliases=(nvml("process.sm_util", 0.01),),
    ),
    Metric(
        name="share.memory.used_bytes",
        unit="By",
        of="share",
        meaning="device memory that this job holds on this GPU",
        aliases=(nvml("process.used_memory"),),
    ),
)

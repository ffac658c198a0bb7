"""What columns of recorded files are called: `h200` (our own recorder's CSV), nvidia-smi's CSV.

Reveal's files have no vocabulary of their own here: no public sample of them was to be had.
"""

from __future__ import annotations

from collections.abc import Mapping

from steward.model.metric import KIB, MIB

__all__ = ["FILE_NAMES"]

_PERCENT, _MHZ, _TICK = 0.01, 1e6, 0.01  # /proc counts hundredths of a second

# vocabulary: (their name, our name, scale)
FILE_NAMES: Mapping[str, tuple[tuple[str, str, float], ...]] = {
    "h200": (
        ("gpu_util", "gpu.busy_share", _PERCENT),
        ("mem_copy_util", "gpu.copy.busy_share", _PERCENT),
        ("fb_used_mib", "gpu.memory.used_bytes", MIB),
        ("power_w", "gpu.power_watts", 1.0),
        ("temp_c", "gpu.temperature_celsius", 1.0),
        ("sm_clock_mhz", "gpu.clock.sm_hz", _MHZ),
        ("mem_clock_mhz", "gpu.clock.memory_hz", _MHZ),
        ("energy_mj", "gpu.energy_joules", 0.001),
        ("throttle_reasons", "gpu.throttle_bits", 1.0),
        ("pstate", "gpu.performance_state_code", 1.0),
        ("compute_procs", "gpu.processes_count", 1.0),
        ("sm_active", "gpu.sm.active_share", _PERCENT),
        ("sm_occupancy", "gpu.sm.occupancy_share", _PERCENT),
        ("tensor_active", "gpu.tensor.active_share", _PERCENT),
        ("dram_active", "gpu.dram.active_share", _PERCENT),
        ("fp64_active", "gpu.fp64.active_share", _PERCENT),
        ("fp32_active", "gpu.fp32.active_share", _PERCENT),
        ("fp16_active", "gpu.fp16.active_share", _PERCENT),
        ("gpm_pcie_tx_mib_s", "gpu.pcie.transmit_bytes_per_s", MIB),
        ("gpm_pcie_rx_mib_s", "gpu.pcie.receive_bytes_per_s", MIB),
        ("cpu_user_ticks", "host.cpu.user_seconds", _TICK),
        ("cpu_system_ticks", "host.cpu.system_seconds", _TICK),
        ("cpu_idle_ticks", "host.cpu.idle_seconds", _TICK),
        ("cpu_iowait_ticks", "host.cpu.iowait_seconds", _TICK),
        ("ctxt_total", "host.context_switches_count", 1.0),
        ("procs_running", "host.processes.running_count", 1.0),
        ("procs_blocked", "host.processes.blocked_count", 1.0),
        ("mem_total_kib", "host.memory.limit_bytes", KIB),
        ("mem_available_kib", "host.memory.available_bytes", KIB),
        ("page_cache_kib", "host.memory.cached_bytes", KIB),
        ("pgfault_total", "host.page_faults_count", 1.0),
        ("pgmajfault_total", "host.page_faults.major_count", 1.0),
        ("disk_read_bytes_total", "host.disk.read_bytes", 1.0),
        ("disk_write_bytes_total", "host.disk.write_bytes", 1.0),
        ("net_rx_bytes_total", "host.network.receive_bytes", 1.0),
        ("net_tx_bytes_total", "host.network.transmit_bytes", 1.0),
        ("load1", "host.load_1m", 1.0),
    ),
    "nvidia_smi": (
        ("utilization.gpu [%]", "gpu.busy_share", _PERCENT),
        ("utilization.memory [%]", "gpu.copy.busy_share", _PERCENT),
        ("memory.used [MiB]", "gpu.memory.used_bytes", MIB),
        ("memory.free [MiB]", "gpu.memory.free_bytes", MIB),
        ("memory.total [MiB]", "gpu.memory.limit_bytes", MIB),
        ("power.draw [W]", "gpu.power_watts", 1.0),
        ("temperature.gpu", "gpu.temperature_celsius", 1.0),
        ("clocks.current.sm [MHz]", "gpu.clock.sm_hz", _MHZ),
        ("clocks.sm [MHz]", "gpu.clock.sm_hz", _MHZ),
        ("clocks.current.memory [MHz]", "gpu.clock.memory_hz", _MHZ),
        ("clocks.mem [MHz]", "gpu.clock.memory_hz", _MHZ),
    ),
}

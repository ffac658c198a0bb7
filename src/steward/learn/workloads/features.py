"""Features of a window of telemetry that tell kinds of work apart, whatever model they run.

The ideas, from the mechanics of the work and not from its labels:

- **Backward passes show on the host.** A framework's autograd engine runs in its own thread, so a
  training step costs about four context switches that inference never makes. Above the host's own
  rate, `backward_rate` counts steps a second; other amounts divided by it are per step.
- **Launches show on PCIe.** With data on the GPU, what the host sends is the stream of commands.
- **The mix of what runs** (tensor, fp32, occupancy, memory traffic per active SM) belongs to the
  kernels and not to how often they run; it is also taken over the busy samples alone.
- **Waits**: how long the GPU is quiet, and what the host does meanwhile: nothing (a straggler, an
  idle job), much (input), disk writes (a checkpoint); full utilisation at little activity is a
  spinning collective.

All functions take `values[window, signal, sample]` and are vectorised over windows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.learn.workloads.signals import SIGNALS, RunSignals

__all__ = ["FEATURES", "SWITCHES_PER_STEP", "features_of", "host_switches", "windows_of"]

Floats = NDArray[np.float64]

SWITCHES_PER_STEP = 4.1  # context switches of a training step: hand-overs to the autograd thread
DEFAULT_SWITCHES = 200.0  # of a host whose jobs do not train, per second, with its recorder
IDLE_POWER = 0.17  # of the card's limit
LEAST_SAMPLES = 3
_PLACE = {name: place for place, name in enumerate(SIGNALS)}

FEATURES: dict[str, str] = {
    "backward_rate": "backward passes per second, log2(1 + rate)",
    "has_backward": "the same, up to 6 a second, as a share of that",
    "switches": "context switches above the host's own, log2",
    "util": "mean GPU utilisation",
    "sm": "mean share of active SMs",
    "sm_log": "the same, log2",
    "sm_top": "95 % quantile of active SMs",
    "power": "mean power as a share of 700 W",
    "sm_per_step": "active SM time per backward pass, log2",
    "rx_per_step": "MiB that the GPU receives per backward pass, log2",
    "tensor_per_step": "tensor time per backward pass, log2",
    "dram_per_step": "memory traffic per backward pass, log2",
    "tensor_sm": "tensor share of active SM time, log2",
    "fp32_sm": "fp32 share of active SM time, log2",
    "occupancy_sm": "occupancy of active SMs, log2",
    "dram_sm": "memory traffic per active SM time, log2",
    "fp16_sm": "fp16 share of active SM time, log2",
    "tensor_dram": "tensor against memory traffic, log2",
    "tensor_fp32": "tensor against fp32, log2",
    "dram_occupancy": "memory traffic against occupancy, log2",
    "sm_util": "active SMs against utilisation, log2: small kernels",
    "power_sm": "power above idle per active SM",
    "busy_tensor": "tensor share while busy, log2",
    "busy_occupancy": "occupancy while busy, log2",
    "busy_dram": "memory traffic while busy, log2",
    "busy_fp32": "fp32 share while busy, log2",
    "memory": "GPU memory used in MiB, log2",
    "clock": "10 % quantile of the SM clock against its maximum: throttled by power",
    "rx": "MiB/s received, log2",
    "tx": "MiB/s sent, log2",
    "rx_tx": "received against sent, log2",
    "rx_util": "received per utilisation, log2",
    "user": "cores in user mode, log2",
    "system": "cores in the kernel",
    "host_free": "share of samples with the host below half a core",
    "host_over": "cores beyond one busy loop, log2",
    "faults": "page faults per second, log2",
    "written": "MB/s written to disk, log2",
    "iowait": "cores that wait for storage, log2",
    "blocked": "processes blocked, log2",
    "quiet": "share of samples with almost no SM active, against its own top",
    "gone": "share of samples with under 2 % of SMs active",
    "duty": "share of samples above half of the top",
    "flips": "changes between busy and quiet per sample",
    "between": "share of samples in between",
    "spread": "standard deviation of active SMs against their mean",
    "spread_top": "standard deviation of active SMs against their top",
    "quiet_host_idle": "share of samples: GPU quiet and host idle",
    "quiet_host_busy": "share of samples: GPU quiet and host busy",
    "spin": "share of samples: full utilisation at little activity",
    "stall": "share of samples: GPU slow and host idle, or spinning",
    "rx_spread": "spread of what is received, log2",
    "switch_spread": "spread of context switches, log2",
    "user_spread": "standard deviation of cores in user mode",
    "longest_quiet": "longest quiet stretch in seconds, log2",
    "repeat_1": "autocorrelation of active SMs at one sample",
    "repeat_3": "the same at three samples",
    "waiting": "share of time the GPU is not utilised",
    "starved": "how far the host shows that steps wait for input, log2",
}


def windows_of(run: RunSignals, *, window_s: float, step_s: float) -> tuple[Floats, Floats]:
    """Return windows of a run, `values[window, signal, sample]`, and the time each begins at.

    A run shorter than a window is one window; the last window ends with the run.
    """
    samples = max(LEAST_SAMPLES, round(window_s / run.step_s))
    if len(run) <= samples:
        return run.values[None, :, :], run.t_s[:1]
    stride = max(1, round(step_s / run.step_s))
    starts = np.arange(0, len(run) - samples + 1, stride)
    values = np.stack([run.values[:, at : at + samples] for at in starts])
    return values, run.t_s[starts]


def host_switches(runs: list[RunSignals]) -> float:
    """Return the context switches a second of a host beside training: of its calmest runs."""
    rates = [_middle(run.signal("switches")[None, :], 0.1, 0.7)[0] for run in runs if len(run) > 1]
    known = [rate for rate in rates if np.isfinite(rate)]
    return float(np.quantile(known, 0.1)) if known else DEFAULT_SWITCHES


def features_of(values: Floats, *, step_s: float, switches_base: float) -> Floats:
    """Return `features[window, feature]`; NaN where a metric was not measured at all."""
    with np.errstate(invalid="ignore", divide="ignore"):
        x = {name: _filled(values[:, place]) for name, place in _PLACE.items()}
        found: dict[str, Floats] = {}
        _rates(x, found, switches_base)
        _mix(x, found)
        _host(x, found)
        _waits(x, found, step_s)
        _shape(x, found)
    return np.stack([found[name] for name in FEATURES], axis=1)


def _log(value: Floats, least: float) -> Floats:
    found: Floats = np.log2(np.maximum(value, 0.0) + least)
    return found


def _filled(signal: Floats) -> Floats:
    """Return a signal with the window's median where samples are missing; NaN where all are."""
    missing = np.isnan(signal)
    some = missing.any(axis=1) & ~missing.all(axis=1)
    if not some.any():
        return signal
    filled = signal.copy()
    filled[some] = np.where(
        missing[some], np.nanmedian(signal[some], axis=1, keepdims=True), signal[some]
    )
    return filled


def _middle(signal: Floats, low: float, high: float) -> Floats:
    """Return the mean of the values between two quantiles: bursts leave it alone."""
    ordered = np.sort(signal, axis=1)
    count = ordered.shape[1]
    begin = int(count * low)
    found: Floats = ordered[:, begin : max(int(count * high), begin + 1)].mean(axis=1)
    return found


def _share(hits: NDArray[np.bool_], known: Floats) -> Floats:
    return np.where(np.isnan(known).all(axis=1), np.nan, hits.mean(axis=1))


def _rates(x: dict[str, Floats], found: dict[str, Floats], base: float) -> None:
    rate = np.maximum(_middle(x["switches"], 0.1, 0.7) - base, 0.0) / SWITCHES_PER_STEP
    rx = np.maximum(_middle(x["rx"], 0.1, 0.9) - 0.7, 0.0)
    tx = np.maximum(_middle(x["tx"], 0.1, 0.9) - 1.0, 0.0)
    sm, util = x["sm"].mean(axis=1), x["util"].mean(axis=1)
    found["backward_rate"] = _log(rate, 1.0)
    found["has_backward"] = np.minimum(rate, 6.0) / 6.0
    found["switches"] = _log(x["switches"].mean(axis=1) - base, 20.0)
    found["util"], found["sm"], found["sm_log"] = util, sm, _log(sm, 0.01)
    found["power"] = x["power"].mean(axis=1)
    per_step = rate + 2.0
    found["sm_per_step"] = _log(sm / per_step, 5e-4)
    found["rx_per_step"] = _log(rx / per_step, 0.1)
    found["tensor_per_step"] = _log(x["tensor"].mean(axis=1) / per_step, 1e-4)
    found["dram_per_step"] = _log(x["dram"].mean(axis=1) / per_step, 1e-4)
    found["rx"], found["tx"] = _log(rx, 1.0), _log(tx, 1.0)
    found["rx_tx"] = _log(rx, 2.0) - _log(tx, 2.0)
    found["rx_util"] = _log(rx, 0.5) - _log(util, 0.03)
    found["memory"] = _log(x["memory"].mean(axis=1), 1.0)
    found["clock"] = np.quantile(x["clock"], 0.1, axis=1)
    found["waiting"] = 1.0 - util


def _mix(x: dict[str, Floats], found: dict[str, Floats]) -> None:
    mean = {name: x[name].mean(axis=1) for name in ("sm", "tensor", "fp32", "occupancy", "dram")}
    least = {"tensor": 2e-4, "fp32": 2e-4, "occupancy": 5e-4, "dram": 5e-4}
    top = np.maximum(np.quantile(x["sm"], 0.95, axis=1), 0.005)
    busy = x["sm"] >= 0.5 * top[:, None]
    count = np.maximum(busy.sum(axis=1), 1)
    busy_sm = _log((x["sm"] * busy).sum(axis=1) / count, 2e-3)
    for name, floor in least.items():
        found[f"{name}_sm"] = _log(mean[name], floor) - _log(mean["sm"], 2e-3)
        held = (x[name] * busy).sum(axis=1) / count
        found[f"busy_{name}"] = _log(held, 2e-4) - busy_sm
    found["fp16_sm"] = _log(x["fp16"].mean(axis=1), 1e-3) - _log(mean["sm"], 1e-2)
    found["tensor_dram"] = _log(mean["tensor"], 1e-3) - _log(mean["dram"], 1e-3)
    found["tensor_fp32"] = _log(mean["tensor"], 5e-4) - _log(mean["fp32"], 5e-4)
    found["dram_occupancy"] = _log(mean["dram"], 2e-3) - _log(mean["occupancy"], 2e-3)
    found["sm_util"] = _log(mean["sm"], 0.003) - _log(found["util"], 0.01)
    found["power_sm"] = np.clip((found["power"] - IDLE_POWER) / (mean["sm"] + 0.05), 0.0, 1.5)
    found["sm_top"] = top


def _host(x: dict[str, Floats], found: dict[str, Floats]) -> None:
    user = _middle(x["user"], 0.2, 0.8)
    system = x["system"].mean(axis=1)
    host = x["user"] + x["system"]
    found["user"], found["system"] = _log(user, 0.1), system
    found["host_free"] = _share(host < 0.55, host)
    found["host_over"] = _log(user + system - 1.05, 0.1)
    found["faults"] = _log(_middle(x["faults"], 0.1, 0.9), 100.0)
    found["written"] = _log(x["written"].mean(axis=1), 1.0)
    found["iowait"] = _log(x["iowait"].mean(axis=1), 0.03)
    found["blocked"] = _log(x["blocked"].mean(axis=1), 0.03)
    rate = np.exp2(found["backward_rate"]) - 1.0
    idle_per_step = (1.0 - found["util"]) / np.maximum(rate, 0.3)
    found["starved"] = np.fmax(
        np.fmax(found["host_over"] - np.log2(0.1) - 0.6, found["faults"] - np.log2(100.0) - 2.0),
        _log(idle_per_step, 1e-3) - np.log2(0.023),
    )


def _waits(x: dict[str, Floats], found: dict[str, Floats], step_s: float) -> None:
    sm, top = x["sm"], found["sm_top"][:, None]
    busy, quiet = sm >= 0.5 * top, sm < 0.15 * top
    host = x["user"] + x["system"]
    found["quiet"], found["duty"] = _share(quiet, sm), _share(busy, sm)
    found["gone"] = _share(sm < 0.02, sm)
    found["flips"] = _share(busy[:, 1:] != busy[:, :-1], sm)
    found["between"] = _share((sm > 0.2 * top) & (sm < 0.8 * top), sm)
    found["quiet_host_idle"] = _share(quiet & (x["user"] < 0.4), sm + x["user"])
    found["quiet_host_busy"] = _share(quiet & (x["user"] > 0.6), sm + x["user"])
    found["spin"] = _share((x["util"] > 0.9) & (sm < 0.3 * top), sm + x["util"])
    slow = _share((host < 0.55) & (sm < 0.5 * top), sm + host)
    found["stall"] = np.fmax(slow, found["spin"])
    found["longest_quiet"] = _log(_longest(quiet) * step_s, 0.1)


def _longest(hits: NDArray[np.bool_]) -> Floats:
    """Return the longest stretch of hits in each row."""
    length = np.zeros(len(hits))
    longest = np.zeros(len(hits))
    for column in hits.T:
        length = np.where(column, length + 1.0, 0.0)
        longest = np.maximum(longest, length)
    return longest


def _shape(x: dict[str, Floats], found: dict[str, Floats]) -> None:
    sm = x["sm"]
    mean, deviation = sm.mean(axis=1), sm.std(axis=1)
    found["spread"] = deviation / (mean + 0.02)
    found["spread_top"] = deviation / found["sm_top"]
    found["rx_spread"] = np.log2(x["rx"].std(axis=1) / (x["rx"].mean(axis=1) + 1.0) + 0.05)
    switches = x["switches"]
    found["switch_spread"] = np.log2(switches.std(axis=1) / (switches.mean(axis=1) + 1.0) + 0.02)
    found["user_spread"] = x["user"].std(axis=1)
    centred = sm - mean[:, None]
    for lag in (1, 3):
        if sm.shape[1] > lag:
            product = (centred[:, :-lag] * centred[:, lag:]).mean(axis=1)
        else:
            product = np.zeros(len(sm))
        found[f"repeat_{lag}"] = product / (deviation**2 + 1e-4)

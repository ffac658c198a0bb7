"""Runs the checks of a diagnosis, and says what each has found."""

from __future__ import annotations

import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from steward.errors import StewardError
from steward.health.diagnosis.devices import Device, NumpyDevice, torch_devices
from steward.health.diagnosis.report import CheckResult, Diagnosis
from steward.health.diagnosis.sums import ring_sum, torch_sum

__all__ = ["Plan", "diagnose"]

NVIDIA = Path("/proc/driver/nvidia/gpus")
GIB = 2**30
SLOW_SHARE = 0.5  # of what the median device, or pair, does


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is tested. `gpus` is how many there should be; 0 is as many as the driver knows."""

    gpus: int = 0
    host_only: bool = False
    size: int = 4096  # of matrices
    rounds: int = 20
    memory_share: float = 0.9
    most_memory_bytes: int = 1 << 62
    copy_bytes: int = 256 << 20
    sum_words: int = 16 << 20

    @classmethod
    def small(cls, *, host_only: bool = False, gpus: int = 0) -> Plan:
        """Return a plan that takes seconds: it finds what is broken, not what is rare."""
        return cls(
            gpus=gpus,
            host_only=host_only,
            size=1024,
            rounds=4,
            memory_share=0.25,
            most_memory_bytes=GIB // 4 if host_only else GIB,
            copy_bytes=32 << 20,
            sum_words=1 << 20,
        )


def diagnose(plan: Plan, *, node: str, t_s: float, devices: Sequence[Device] = ()) -> Diagnosis:
    """Test a node. Raise where it cannot be tested: that is neither well nor bad."""
    began_s = time.perf_counter()
    torch = _torch()
    gpus = not plan.host_only and not devices
    known = list(devices) or _devices(plan, torch, gpus=gpus)
    checks = [*_counted(plan, known)] if gpus else []
    checks += _products(known, plan)
    checks += _memories(known, plan)
    checks += _copies(known, plan)
    checks += _sums(known, plan, torch if not devices else None)
    return Diagnosis(
        node=node,
        t_s=t_s,
        took_s=time.perf_counter() - began_s,
        backend=f"torch {torch.__version__}" if torch is not None else "numpy",
        devices=tuple(each.name for each in known),
        checks=tuple(checks),
        tests_gpus=gpus,
    )


def _torch() -> Any:  # noqa: ANN401 - torch is optional
    if importlib.util.find_spec("torch") is None:
        return None
    return importlib.import_module("torch")


def _devices(plan: Plan, torch: Any, *, gpus: bool) -> list[Device]:  # noqa: ANN401 - as above
    if not gpus:
        return [NumpyDevice()] if torch is None else list(torch_devices(torch, gpus=False))
    if torch is None:
        raise StewardError(
            "GPUs cannot be tested: torch is not installed here",
            where="this Python",
            hint="pip install 'steward[torch]', or --host tests processor and memory alone",
        )
    found = list(torch_devices(torch, gpus=True))
    if not found and not (plan.gpus or _driver_gpus()):
        raise StewardError(
            "there is no GPU here that could be tested",
            where="this machine",
            hint="--host tests processor and memory alone; --gpus N says how many there should be",
        )
    return list(found)


def _driver_gpus() -> int:
    return sum(1 for _ in NVIDIA.iterdir()) if NVIDIA.is_dir() else 0


def _counted(plan: Plan, known: Sequence[Device]) -> Iterator[CheckResult]:
    """Check that no GPU is missing: one that is off the bus fails no test, as it takes none."""
    wanted = plan.gpus or _driver_gpus() or len(known)
    ok = len(known) == wanted
    yield CheckResult(
        check="devices",
        device="all",
        ok=ok,
        why="" if ok else f"{len(known)} GPUs answer, and {wanted} should",
        measured={"answer": float(len(known)), "wanted": float(wanted)},
    )


def _products(known: Sequence[Device], plan: Plan) -> list[CheckResult]:
    found = [_tried("product", each.name, partial(_product, each, plan)) for each in known]
    return _with_slow(found, "operations_per_s")


def _product(device: Device, plan: Plan) -> CheckResult:
    wrong, speed = device.product(plan.size, plan.rounds)
    why = f"{wrong:,} values of products are wrong" if wrong else ""
    measured = {"wrong": float(wrong), "operations_per_s": speed}
    return _result("product", device.name, why, measured)


def _memories(known: Sequence[Device], plan: Plan) -> list[CheckResult]:
    return [_tried("memory", each.name, partial(_memory, each, plan)) for each in known]


def _memory(device: Device, plan: Plan) -> CheckResult:
    wrong, tested, speed = device.memory(plan.memory_share, plan.most_memory_bytes)
    why = f"{wrong:,} words of {tested / GIB:.1f} GiB do not keep what was written" if wrong else ""
    measured = {"wrong": float(wrong), "tested_bytes": tested, "bytes_per_s": speed}
    return _result("memory", device.name, why, measured)


def _copies(known: Sequence[Device], plan: Plan) -> list[CheckResult]:
    pairs = [(a, b) for a in known for b in known if a is not b] or [(a, a) for a in known]
    found = [_tried("copy", f"{a.name} to {b.name}", partial(_copy, a, b, plan)) for a, b in pairs]
    return _with_slow(found, "bytes_per_s")


def _copy(source: Device, target: Device, plan: Plan) -> CheckResult:
    wrong, speed = source.copy_to(target, plan.copy_bytes)
    why = f"{wrong:,} words differ after a copy" if wrong else ""
    name = f"{source.name} to {target.name}"
    return _result("copy", name, why, {"wrong": float(wrong), "bytes_per_s": speed})


def _sums(known: Sequence[Device], plan: Plan, torch: Any) -> list[CheckResult]:  # noqa: ANN401 - as above
    names = [each.name for each in known]
    if not names:
        return []

    def check() -> CheckResult:
        members = names if len(names) > 1 else names * 2 if not _is_gpu(names[0]) else names
        if torch is None:
            wrong, speed = ring_sum(max(2, len(names)), plan.sum_words)
        else:
            wrong, speed = torch_sum(members, plan.sum_words)
        why = f"{wrong:,} values of a sum over all are wrong, or did not come" if wrong else ""
        return _result("sum", "all", why, {"wrong": float(wrong), "bytes_per_s": speed})

    return [_tried("sum", "all", check)]


def _is_gpu(name: str) -> bool:
    return name.startswith("cuda")


def _result(check: str, device: str, why: str, measured: dict[str, float]) -> CheckResult:
    return CheckResult(check=check, device=device, ok=not why, why=why, measured=measured)


def _tried(check: str, device: str, do: Callable[[], CheckResult]) -> CheckResult:
    """Return what a check found; a driver that raises has failed it."""
    try:
        return do()
    except (RuntimeError, MemoryError, OSError) as fault:
        why = f"{type(fault).__name__}: {str(fault).splitlines()[0] if str(fault) else ''}"
        return CheckResult(check=check, device=device, ok=False, why=why[:300])


def _with_slow(found: list[CheckResult], key: str) -> list[CheckResult]:
    """Fail what is much slower than its like: a throttled GPU, a link on fewer lanes."""
    speeds = [each.measured[key] for each in found if key in each.measured]
    if len(speeds) < 3:
        return found
    usual = statistics.median(speeds)
    return [
        CheckResult(
            check=each.check,
            device=each.device,
            ok=False,
            why=f"{each.measured[key]:.3g} {key}, where {usual:.3g} is usual",
            measured=each.measured,
        )
        if each.ok and each.measured[key] < SLOW_SHARE * usual
        else each
        for each in found
    ]

"""What a diagnosis found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from steward.health.live_faults import DIAGNOSIS

__all__ = ["CheckResult", "Diagnosis", "kernel_line"]

_LONGEST = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One check of one device, or of a pair of them."""

    check: str  # devices, product, memory, copy, sum
    device: str
    ok: bool
    why: str = ""  # where it is not
    measured: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All checks of a node."""

    node: str
    t_s: float
    took_s: float
    backend: str
    devices: tuple[str, ...]
    checks: tuple[CheckResult, ...]
    tests_gpus: bool  # else the host alone: that proves nothing about a GPU

    @property
    def well(self) -> bool:
        """Return whether every check has passed."""
        return bool(self.checks) and all(each.ok for each in self.checks)

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """Return what has not passed."""
        return tuple(each for each in self.checks if not each.ok)


def kernel_line(found: Diagnosis) -> str:
    """Return the line by which the loop learns of it: root alone can write it into that log."""
    verdict = "well" if found.well else "bad"
    text = f"{DIAGNOSIS} {verdict} node={found.node} devices={len(found.devices)}"
    wrong = "; ".join(f"{each.check} on {each.device}: {each.why}" for each in found.failed)
    return f"{text} {wrong}"[:_LONGEST].rstrip().replace("\n", " ")

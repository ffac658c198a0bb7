"""How a job gives up its GPUs for a while: what is promised about it, and what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Measured", "Yielding", "promise_s", "quantile", "suspension_s"]

KNOWN = 10  # call-backs after which a job's own times make the promise
MARGIN = 1.5  # on their 95th percentile
SLACK_S = 5.0  # before that, on what saving and one step should take
STATED_BYTES_PER_S = 200e6  # of a save whose rate nobody has measured
GIB = 2**30
SUSPEND_S_PER_GIB = 1.05  # one and a half times what an H200 with driver 580 needed
RESUME_S_PER_GIB = 0.45
FIXED_S = 1.0  # of either, however little is on the GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """How long a job took once: to give GPUs back, to be suspended, or to be resumed."""

    kind: str  # call-back, suspend, resume
    seconds: float
    t_s: float
    size_bytes: int = 0
    promised_s: float | None = None  # of a call-back: what was promised before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Yielding:
    """What a loan can count on. `promised_s`: from the call-back until the GPUs are free.

    `endable`: its user allows that it is ended and run again. `suspendable`: the driver can move
    what it has on its GPU to host memory; `refused` says why not.
    """

    promised_s: float | None = None  # None: nothing can be promised
    p50_s: float | None = None
    p95_s: float | None = None
    measured: int = 0
    endable: bool = False
    stoppable: bool = False  # its engine can save and stop it for the time of a loan
    suspendable: bool = False
    refused: str = ""
    suspend_s: float = 0.0
    resume_s: float = 0.0
    saved_s: float | None = None  # when its newest verified checkpoint was made

    @property
    def text(self) -> str:
        """Say what is promised, and on what it rests."""
        if self.promised_s is None:
            return "nothing is promised about giving back"
        if self.p50_s is None or self.p95_s is None:
            return f"given back within {self.promised_s:.1f} s, by its size"
        return (
            f"given back within {self.promised_s:.1f} s (p50 {self.p50_s:.1f} s, "
            f"p95 {self.p95_s:.1f} s of {self.measured})"
        )


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of all are not above.

    >>> quantile([3.0, 1.0, 2.0], 0.5), quantile([3.0, 1.0, 2.0], 0.95)
    (2.0, 3.0)
    """
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def promise_s(
    times: Sequence[float], *, size_bytes: int, save_s: float, step_s: float, end_s: float
) -> float:
    """Return within how long a job gives its GPUs back.

    From ten call-backs on its own 95th percentile and half as much again. Before that, size over
    rate, its longest step and five seconds, never less than half as much again as the longest
    time so far. `end_s` is what ending it by force may take on top, 0 where that is not allowed.
    """
    if len(times) >= KNOWN:
        return MARGIN * quantile(times, 0.95)
    by_size = max(save_s, size_bytes / STATED_BYTES_PER_S) + step_s + SLACK_S + end_s
    return max([by_size, *(MARGIN * each for each in times)])


def suspension_s(measured: Sequence[Measured], kind: str, size_bytes: int) -> float:
    """Return what suspending or resuming so much takes, by what was measured of such, or before."""
    known = [each for each in measured if each.kind == kind and each.size_bytes > 0]
    if known:
        rate = max(each.seconds / (each.size_bytes / GIB) for each in known)
        return max(rate * size_bytes / GIB, min(each.seconds for each in known))
    per_gib = SUSPEND_S_PER_GIB if kind == "suspend" else RESUME_S_PER_GIB
    return FIXED_S + per_gib * size_bytes / GIB

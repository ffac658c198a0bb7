"""GPUs of a real Slurm are lent and called back: how long until their owner runs?

A Slurm with four nodes of eight GPUs is started, as `steward slurm setup --called-back-by steward`
prints it; one account is guaranteed all of them by its limit in accounting. Jobs of another hold
all nodes through the pool. When the owner's jobs come, `steward up` decides, asks borrowers to
save, requeues them when the time that they asked for is over, and lets them go on afterwards.

`callback_p95_s`: from steward's decision until the owner's job runs, so GPUs are free before that.
`restart_p95_s`: from the end of the owner's job until the borrower runs again. Slurm alone makes a
requeued job wait for 121 s. A borrower goes on from exactly the count that it saved.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from report import bar, finish, progress, quick
from steward.model.decision import DecisionState

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the bed that real tests use

from beds.slurm_pool import Pool, pool
from patience import until

__all__ = ["NODES", "RESTART_S", "measure_call_backs"]

NODES = 4
RUN_S = 3.0  # of an owner's job
RESTART_S = 15.0  # seconds, not 121


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallBack:
    waited_s: float  # of the owner, from its submission
    callback_s: float
    restart_s: float
    unrestored: int  # counts that the borrower had saved and did not go on from


def measure_call_backs(made: Pool, *, call_backs: int, save_s: int = 2) -> dict[str, Any]:
    """Return how long call-backs and restarts took in a pool whose steward is not up yet."""
    borrowers = {
        made.borrow(f"borrower{node}", save_s=save_s): f"borrower{node}" for node in range(NODES)
    }
    for name in borrowers.values():
        made.wrote(name, "begin")
    made.up()
    taken: list[_CallBack] = []
    _one_round(made, borrowers, 0)  # in which steward compiles its kernels
    rounds = 1
    while len(taken) < call_backs:
        taken += _one_round(made, borrowers, rounds)
        rounds += 1
        progress(f"{len(taken)} of {call_backs} call-backs")
    results = {name: _spread([getattr(each, name) for each in taken]) for name in _TIMES}
    return {
        "call_backs": len(taken),
        "save_s": save_s,
        "callback_p95_s": results["callback_s"]["p95"],
        "restart_p95_s": results["restart_s"]["p95"],
        "unrestored_steps": sum(each.unrestored for each in taken),
        "ran_twice": sum(
            each.what == "twice" for name in borrowers.values() for each in made.lines(name)
        ),
        **results,
    }


_OPEN = (
    DecisionState.WAITING,
    DecisionState.APPROVED,
    DecisionState.UNDER_WAY,
    DecisionState.HELD,
)
_TIMES = ("waited_s", "callback_s", "restart_s")


def _one_round(made: Pool, borrowers: dict[str, str], number: int) -> list[_CallBack]:
    """Let as many owners come as there are nodes, and wait until all is as it was."""
    owners = [f"owner{number}-{node}" for node in range(NODES)]
    before = {name: _count(made, name, "begin") for name in borrowers.values()}
    submitted: dict[str, float] = {}
    for name in owners:
        submitted[name] = time.time()
        made.own(name, run_s=RUN_S)
    began = {made.wrote(name, "begin").t_s: name for name in owners}
    ended = sorted(made.wrote(name, "end").t_s for name in owners)
    again = sorted((made.wrote(name, "begin", times=before[name] + 1).t_s, name) for name in before)
    stops = {
        each.decision.id: each.decision.t_s
        for each in made.stories()
        if each.decision.action.type == "preempt"
    }
    asked = sorted(stops.values())[-NODES:]
    until(lambda: _is_quiet(made), why="the end of open decisions")
    return [
        _CallBack(
            waited_s=start_s - submitted[began[start_s]],
            callback_s=start_s - asked_s,
            restart_s=again_s - end_s,
            unrestored=_unrestored(made, name),
        )
        for start_s, asked_s, end_s, (again_s, name) in zip(
            sorted(began), asked, ended, again, strict=True
        )
    ]


def _count(made: Pool, name: str, what: str) -> int:
    return sum(each.what == what for each in made.lines(name))


def _unrestored(made: Pool, name: str) -> int:
    """Return how far behind its last save a borrower began again."""
    lines = made.lines(name)
    last = max(i for i, each in enumerate(lines) if each.what == "begin")
    saved = [each.count for each in lines[:last] if each.what == "saved"]
    return int((saved[-1] if saved else 0) - lines[last].count)


def _is_quiet(made: Pool) -> bool:
    """Return whether nothing is under way: a job is left alone until its restart has settled."""
    return not any(each.state in _OPEN for each in made.stories())


def _spread(values: list[float]) -> dict[str, float]:
    p50, p95 = np.percentile(values, (50, 95))
    return {"p50": round(float(p50), 2), "p95": round(float(p95), 2), "max": round(max(values), 2)}


def main() -> None:
    call_backs = 4 if quick() else 24
    with pool(guaranteed=8 * NODES) as made:
        results = measure_call_backs(made, call_backs=call_backs)
    bars = [
        bar(
            "call-back p95 within the time to save and 2 s",
            results["callback_p95_s"],
            "<=",
            results["save_s"] + 2.0,
        ),
        bar("restart p95", results["restart_p95_s"], "<=", RESTART_S),
        bar("steps that were saved and not restored", results["unrestored_steps"], "==", 0),
        bar("ran twice", results["ran_twice"], "==", 0),
    ]
    finish("slurm_callback", results, bars)


if __name__ == "__main__":
    main()

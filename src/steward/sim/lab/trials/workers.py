"""Runs many trials: here, on all cores, or on a Dask cluster; the answers do not differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from steward.batch import Workers, map_parts
from steward.sim.lab.trials.cache import Cache, base_digest
from steward.sim.lab.trials.trial import Failed, Judged, StudyInput, Trial, run_trial

__all__ = ["OnDone", "run_trials"]

Result = Judged | Failed
OnDone = Callable[[int, Trial], None]


def run_trials(
    base: StudyInput,
    trials: Sequence[Trial],
    *,
    workers: int = 1,
    scheduler: str = "",
    cache: Cache | None = None,
    done: OnDone = lambda _i, _trial: None,
) -> tuple[Result, ...]:
    """Run trials and return what came out of each, in their order.

    `workers` are processes; `scheduler` is the address of a Dask scheduler, or "slurm" to start
    workers as Slurm jobs. `done` is told the place of each trial when it is finished.
    """
    plain = [trial.plain() for trial in trials]
    found: dict[int, Result] = {}
    keys = _keys(base, plain, cache)
    for i, key in enumerate(keys):
        known = cache.look_up(key) if cache is not None else None
        if known is not None:
            found[i] = known
            done(i, trials[i])
    left = [i for i in range(len(plain)) if i not in found]
    places = Workers(processes=workers, scheduler=scheduler)
    for at, result in map_parts(run_trial, base, [plain[i] for i in left], workers=places):
        i = left[at]
        found[i] = result
        if cache is not None and isinstance(result, Judged):
            cache.keep(keys[i], result)
        done(i, trials[i])
    return tuple(found[i] for i in range(len(plain)))


def _keys(base: StudyInput, trials: Sequence[Trial], cache: Cache | None) -> list[str]:
    if cache is None:
        return []
    shared = base_digest(base)
    return [cache.key(shared, trial) for trial in trials]

"""Runs many trials: here, on all cores, or on a Dask cluster; the answers do not differ."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from steward.errors import StewardError
from steward.sim.lab.trials.cache import Cache, base_digest
from steward.sim.lab.trials.trial import Failed, Judged, StudyInput, Trial, run_trial

__all__ = ["cores", "run_trials"]

Result = Judged | Failed
OnDone = Callable[[int, Trial], None]

ANSWERS_WITHIN_S = 20.0  # a Dask scheduler that is there; one may be starting at this moment
_base: StudyInput | None = None  # in a worker process: sent once, not with every trial


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
    for i, result in _run(base, plain, left, workers, scheduler):
        found[i] = result
        if cache is not None and isinstance(result, Judged):
            cache.keep(keys[i], result)
        done(i, trials[i])
    return tuple(found[i] for i in range(len(plain)))


def cores() -> int:
    """Return how many processes this one may keep busy."""
    return len(os.sched_getaffinity(0))


def _keys(base: StudyInput, trials: Sequence[Trial], cache: Cache | None) -> list[str]:
    if cache is None:
        return []
    shared = base_digest(base)
    return [cache.key(shared, trial) for trial in trials]


def _run(
    base: StudyInput, trials: Sequence[Trial], left: Sequence[int], workers: int, scheduler: str
) -> Iterator[tuple[int, Result]]:
    if scheduler:
        yield from _on_dask(base, trials, left, workers, scheduler)
    elif workers > 1 and len(left) > 1:
        yield from _on_cores(base, trials, left, workers)
    else:
        for i in left:
            yield i, run_trial(base, trials[i])


# -- all cores ---------------------------------------------------------------------------------


def _on_cores(
    base: StudyInput, trials: Sequence[Trial], left: Sequence[int], workers: int
) -> Iterator[tuple[int, Result]]:
    pool = ProcessPoolExecutor(
        max_workers=min(workers, len(left)),
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(base,),
    )
    try:
        waiting = {pool.submit(_next, trials[i]): i for i in left}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(base: StudyInput) -> None:
    global _base  # noqa: PLW0603 - a worker process belongs to one study
    _base = base


def _next(trial: Trial) -> Result:
    assert _base is not None  # noqa: S101 - `_begin` ran first
    return run_trial(_base, trial)


# -- Dask --------------------------------------------------------------------------------------


def _on_dask(
    base: StudyInput, trials: Sequence[Trial], left: Sequence[int], workers: int, scheduler: str
) -> Iterator[tuple[int, Result]]:
    with _client(scheduler, workers) as (client, as_they_come):
        shared = client.scatter(base, broadcast=True)
        waiting = {client.submit(run_trial, shared, trials[i], pure=False): i for i in left}
        for future in as_they_come(waiting):
            yield waiting[future], future.result()


@contextmanager
def _client(scheduler: str, workers: int) -> Iterator[tuple[Any, Any]]:
    try:
        from dask import distributed  # noqa: PLC0415
    except ImportError as fault:
        raise _not_installed("dask") from fault
    if scheduler == "slurm":
        with _slurm(workers) as cluster, distributed.Client(cluster) as client:
            yield client, distributed.as_completed
        return
    try:
        client = distributed.Client(scheduler, timeout=ANSWERS_WITHIN_S)
    except (OSError, TimeoutError, ValueError) as fault:
        raise StewardError(
            f"no Dask scheduler answers at '{scheduler}'",
            where="--scheduler",
            hint="start one with `dask scheduler`, or use --scheduler slurm",
        ) from fault
    with client:
        yield client, distributed.as_completed


@contextmanager
def _slurm(workers: int) -> Iterator[Any]:
    """Start workers as Slurm jobs; what they ask for is in dask-jobqueue's own configuration."""
    try:
        from dask_jobqueue import SLURMCluster  # noqa: PLC0415
    except ImportError as fault:
        raise _not_installed("dask-jobqueue") from fault
    try:
        cluster = SLURMCluster()
    except (ValueError, OSError) as fault:
        raise StewardError(
            f"Slurm workers cannot be described: {str(fault).splitlines()[0]}",
            where="--scheduler slurm",
            hint="set jobqueue.slurm.cores and .memory in ~/.config/dask/jobqueue.yaml",
        ) from fault
    with cluster:
        cluster.scale(jobs=max(1, workers))
        yield cluster


def _not_installed(package: str) -> StewardError:
    return StewardError(
        f"{package} is not installed",
        where="--scheduler",
        hint="install it with `pip install 'steward[scale]'`, or leave --scheduler out",
    )

"""Batch work as partial results that merge: partition, map, merge, finish.

The answer is the same on one core, on all cores, and on a Dask cluster: parts do not depend on
where they run, and partial results are merged in the order of the parts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from multiprocessing import get_context
from typing import Any, Generic, TypeVar

from steward.errors import StewardError

__all__ = ["Batch", "Workers", "cores", "map_parts", "run_batch"]

I = TypeVar("I")  # noqa: E741 - the input
P = TypeVar("P")  # a part of it
R = TypeVar("R")  # a partial result
A = TypeVar("A")  # the answer

_context: list[Any] = []  # in a worker process: work and input, sent once and not with every part


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Where parts run: in so many processes, or on a Dask cluster.

    `scheduler` is the address of a Dask scheduler, or "slurm" to start workers as Slurm jobs.
    """

    processes: int = 1
    scheduler: str = ""
    answers_within_s: float = 20.0  # a scheduler that is there; one may be starting at this moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Generic[I, P, R, A]):
    """One piece of batch work. All four are functions of a module, so that they can be sent."""

    partition: Callable[[I], Sequence[P]]
    map: Callable[[I, P], R]
    merge: Callable[[R, R], R]
    finish: Callable[[R], A]


def run_batch(batch: Batch[I, P, R, A], given: I, workers: Workers | None = None) -> A:
    """Return the answer. There must be at least one part."""
    parts = batch.partition(given)
    found = dict(map_parts(batch.map, given, parts, workers=workers))
    return batch.finish(reduce(batch.merge, (found[i] for i in range(len(parts)))))


def cores() -> int:
    """Return how many processes this one may keep busy."""
    return len(os.sched_getaffinity(0))


def map_parts(
    work: Callable[[I, P], R], given: I, parts: Sequence[P], *, workers: Workers | None = None
) -> Iterator[tuple[int, R]]:
    """Yield the place and the result of every part, as they are done."""
    workers = workers or Workers()
    if workers.scheduler:
        yield from _on_dask(work, given, parts, workers)
    elif workers.processes > 1 and len(parts) > 1:
        yield from _on_cores(work, given, parts, workers.processes)
    else:
        for i, part in enumerate(parts):
            yield i, work(given, part)


# -- all cores ---------------------------------------------------------------------------------


def _on_cores(
    work: Callable[[I, P], R], given: I, parts: Sequence[P], processes: int
) -> Iterator[tuple[int, R]]:
    pool = ProcessPoolExecutor(
        max_workers=min(processes, len(parts)),
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(work, given),
    )
    try:
        waiting = {pool.submit(_next, part): i for i, part in enumerate(parts)}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(work: Callable[..., Any], given: object) -> None:
    _context[:] = [work, given]


def _next(part: object) -> Any:  # noqa: ANN401 - whatever the work returns
    work, given = _context
    return work(given, part)


# -- Dask --------------------------------------------------------------------------------------


def _on_dask(
    work: Callable[[I, P], R], given: I, parts: Sequence[P], workers: Workers
) -> Iterator[tuple[int, R]]:
    with _client(workers) as (client, as_they_come):
        shared = client.scatter(given, broadcast=True)
        waiting = {client.submit(work, shared, part, pure=False): i for i, part in enumerate(parts)}
        for future in as_they_come(waiting):
            yield waiting[future], future.result()


@contextmanager
def _client(workers: Workers) -> Iterator[tuple[Any, Any]]:
    try:
        from dask import distributed  # noqa: PLC0415
    except ImportError as fault:
        raise _not_installed("dask") from fault
    if workers.scheduler == "slurm":
        with _slurm(workers.processes) as cluster, distributed.Client(cluster) as client:
            yield client, distributed.as_completed
        return
    try:
        client = distributed.Client(workers.scheduler, timeout=workers.answers_within_s)
    except (OSError, TimeoutError, ValueError) as fault:
        raise StewardError(
            f"no Dask scheduler answers at '{workers.scheduler}'",
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

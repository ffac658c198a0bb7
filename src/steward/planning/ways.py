"""Ways to run a job: by hand, from the estimate of a model, or from jobs like it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from math import ceil

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.answers import ModelEstimate, estimate_model
from steward.learn.estimators.model_graphs.gpu_types import gpu_type
from steward.learn.estimators.model_graphs.pool import TraceWorker
from steward.learn.estimators.model_graphs.question import ModelQuestion, ParallelPlan
from steward.learn.estimators.model_graphs.sites import Site
from steward.model.forecast import RUN_LEFT_S, Forecast
from steward.model.planning.catalog import Accelerator, Catalog
from steward.model.planning.plan import Range, Way

__all__ = [
    "BY_HAND",
    "GPU_MEMORY_BYTES",
    "ModelWork",
    "gpu_watts",
    "way_by_hand",
    "ways_from_forecasts",
    "ways_of_model",
]

BY_HAND = "given by hand"  # the basis of such a way
GPU_MEMORY_BYTES = "run.gpu_memory_bytes"  # of an application, by its campaign
_RUN_TIMES = (RUN_LEFT_S, "run.time_s")
_NO_WATTS = Range(low=0.0, mid=0.0, high=0.0)
_UNKNOWN_WATTS = Range(low=100.0, mid=300.0, high=700.0)
_AT_WORK = (0.5, 0.75, 1.0)  # of a board's limit
_NAMED = 4
_START_S = (60.0, 120.0, 360.0)  # imports, data, the first steps
_TO_NINE_OF_TEN = 1.6449 / 1.2816  # from a range that holds in four of five cases


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWork:
    """A model that goes through so many items, with each of the batches on each count of GPUs."""

    question: ModelQuestion  # its batch is that of one GPU
    items: float
    batches: tuple[int, ...]
    gpus: tuple[int, ...]
    most_nodes: int | None = 1
    gpu_models: tuple[str, ...] = ()  # any when empty

    def __post_init__(self) -> None:
        numbers = (self.items, *self.batches, *self.gpus)
        if not self.batches or not self.gpus or min(numbers) < 1:
            problem = f"{self.items:g} items, batches {self.batches}, GPUs {self.gpus}"
            raise StewardError(problem, where=self.question.model, hint="each is 1 or more")


def ways_of_model(
    work: ModelWork,
    catalog: Catalog,
    worker: TraceWorker | None,
    *,
    calibrated: Callable[[str], Site | None] = lambda _: None,
) -> tuple[tuple[Way, ...], tuple[str, ...]]:
    """Return a way for each kind of GPU that sites have, each batch and count, and notes.

    `calibrated` knows what was measured on a kind of GPU; copies of the model share the items.
    """
    ways: list[Way] = []
    notes: dict[str, list[str]] = {}
    for name, kind in _kinds(catalog, work.gpu_models):
        site = calibrated(kind)
        for batch, gpus in product(work.batches, work.gpus):
            question = replace(work.question, gpu=kind, batch=batch)
            over = ParallelPlan(data=gpus)
            found = estimate_model(question, worker, find_batch=False, site=site, plan=over)
            for note in found.notes:
                notes.setdefault(note.replace(kind, "it"), []).append(name)
            step_s = found.step_s
            if step_s is not None:
                step = Range(low=step_s.low, mid=step_s.likely, high=step_s.high)
                ways.append(_way_of(found, step, gpu_model=name, batch=batch, work=work))
    return tuple(ways), tuple(f"{_listed(names)}: {note}" for note, names in notes.items())


def _listed(names: Iterable[str]) -> str:
    """Name some GPUs, and count the others."""
    unique = [*dict.fromkeys(names)]
    more = len(unique) - _NAMED
    return ", ".join(unique[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _kinds(catalog: Catalog, wanted: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Return the GPUs of all sites by name, with the estimator's name for them."""
    kinds = {_kind_of((name,)) for name in wanted}
    offered = {queue.gpu_model for site in catalog.sites for queue in site.queues}
    seen = set()
    for model in sorted(offered - {""}):
        known = catalog.accelerator(model)
        kind = _kind_of((known.name, *known.aliases) if known is not None else (model,))
        name = known.name if known is not None else model
        if kind and name not in seen and (kind in kinds or not wanted):
            seen.add(name)
            yield name, kind


def _kind_of(names: Iterable[str]) -> str:
    """Return the estimator's name for a GPU; empty where it knows none of its names."""
    for name in names:
        with suppress(StewardError):
            return gpu_type(name).name
    return ""


def _way_of(
    found: ModelEstimate, step: Range, *, gpu_model: str, batch: int, work: ModelWork
) -> Way:
    """Return the time of all steps, and of the start before them."""
    steps = ceil(work.items / (batch * found.gpus))
    low, mid, high = _START_S
    watts = _UNKNOWN_WATTS
    energy = found.energy_j_per_step
    if energy is not None:
        likely = energy.likely / step.mid / found.gpus
        watts = Range(low=0.7 * likely, mid=likely, high=1.3 * likely)
    return Way(
        gpu_model=gpu_model,
        gpus=found.gpus,
        run_s=Range(
            low=low + steps * step.low, mid=mid + steps * step.mid, high=high + steps * step.high
        ),
        watts=watts,
        batch=batch,
        gpu_memory_bytes=int(found.device_bytes.high),
        most_nodes=work.most_nodes,
        basis=f"{steps:,} steps of {found.model} by {found.tier}",
    )


def ways_from_forecasts(
    forecasts: Sequence[Forecast], *, gpu_model: str, gpus: int, catalog: Catalog
) -> tuple[Way, ...]:
    """Return a way for each forecast of a run time, made wider to hold in nine of ten cases."""
    memory = (each.high for each in forecasts if each.quantity == GPU_MEMORY_BYTES)
    gpu_memory_bytes = int(max(memory, default=0.0)) if gpus else 0
    found = []
    for each in forecasts:
        if each.quantity not in _RUN_TIMES or not each.mid > 0:
            continue
        low = each.mid * (max(each.low, 1.0) / max(each.mid, 1.0)) ** _TO_NINE_OF_TEN
        high = each.mid * (each.high / each.mid) ** _TO_NINE_OF_TEN
        found.append(
            Way(
                gpu_model=gpu_model if gpus else "",
                gpus=gpus,
                run_s=Range(low=min(low, each.mid), mid=each.mid, high=high),
                watts=gpu_watts(catalog.accelerator(gpu_model) if gpus else None, gpus),
                gpu_memory_bytes=gpu_memory_bytes,
                basis=each.basis,
            )
        )
    return tuple(found)


def way_by_hand(
    run_s: Range, *, gpu_model: str, gpus: int, catalog: Catalog, most_nodes: int | None = 1
) -> Way:
    """Return a way whose run time somebody knows."""
    return Way(
        gpu_model=gpu_model,
        gpus=gpus,
        run_s=run_s,
        watts=gpu_watts(catalog.accelerator(gpu_model) if gpu_model else None, gpus),
        most_nodes=most_nodes if gpus else None,
        basis=BY_HAND,
    )


def gpu_watts(known: Accelerator | None, gpus: int) -> Range:
    """Return what one GPU draws at work, by the limit of its board."""
    if not gpus:
        return _NO_WATTS
    if known is None or not known.watts:
        return _UNKNOWN_WATTS
    low, mid, high = (share * known.watts for share in _AT_WORK)
    return Range(low=low, mid=mid, high=high)

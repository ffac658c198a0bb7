"""A plan as somebody asks for it, in words: from the command line or from a form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from steward.errors import StewardError, did_you_mean
from steward.model.planning.catalog import Catalog
from steward.model.planning.outlook import Outlook, place_of
from steward.model.planning.plan import PlanRequest, Way, Weights
from steward.planning.texts import (
    read_bytes,
    read_deadline,
    read_names,
    read_numbers,
    read_range,
    read_run_time,
    read_values,
)
from steward.planning.ways import way_by_hand

__all__ = ["PlanQuestion", "outlook_of", "request_of", "ways_by_hand", "ways_without_queue"]

_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """Texts are as people write them; empty is not given."""

    name: str = "job"
    run_times: tuple[str, ...] = ()  # 4xA100=2h..5h, cpu=9h, or 2h..5h with `gpu` and `gpus`
    gpu: str = ""
    gpus: str = "1"
    across_nodes: bool = False
    cores: int = 1
    memory: str = ""
    deadline: str = ""
    chance: float = 0.9
    budget_usd: float | None = None
    sites: str = ""
    waits: tuple[str, ...] = ()  # SITE/QUEUE=26h
    interrupted: tuple[str, ...] = ()  # SITE/QUEUE=5h
    later: bool = False
    saves: bool = False
    save_time: str = "60s"
    save_every: str = "15m"
    usd_per_h: float = 1.0
    usd_per_kg: float = 0.1
    usd_if_late: float = 20.0


def ways_by_hand(question: PlanQuestion, catalog: Catalog) -> tuple[Way, ...]:
    """Return the ways whose run time is given."""
    return tuple(way for text in question.run_times for way in _ways(text, question, catalog))


def ways_without_queue(ways: Iterable[Way], catalog: Catalog) -> tuple[str, ...]:
    """Say which GPUs of the ways no queue has: what is known of them counts nowhere."""
    offered = {queue.gpu_model for site in catalog.sites for queue in site.queues} - {""}
    return tuple(
        f"no queue has a GPU called {model}, its run time counts nowhere; "
        + (did_you_mean(model, _near(model, offered)) or _listed(_near(model, offered)))
        for model in dict.fromkeys(way.gpu_model for way in ways if way.gpu_model)
        if not any(_is_called(each, model, catalog) for each in offered)
    )


def _near(model: str, offered: Iterable[str]) -> list[str]:
    """Return the GPUs that hold the name, else all."""
    names = sorted(offered)
    return [each for each in names if model.casefold() in each.casefold()] or names


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    known = ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"queues have {known or 'no GPUs'}"


def _is_called(gpu_model: str, name: str, catalog: Catalog) -> bool:
    known = catalog.accelerator(gpu_model)
    if known is not None and known.is_called(name):
        return True
    return gpu_model.casefold() == name.casefold()


def _ways(text: str, question: PlanQuestion, catalog: Catalog) -> Iterator[Way]:
    model, count, run_s = read_run_time(text)
    counts: tuple[int, ...] = () if count is None else (count,)
    if count is None:
        model = question.gpu
        counts = read_numbers(question.gpus, where="--gpus", least=0)
        if any(counts) and not model:
            hint = "write A100=2h..5h, or name the GPU with --gpu; without GPUs: cpu=2h..5h"
            raise StewardError(
                "on which GPU it runs that long is not said", where=f"--run-time {text}", hint=hint
            )
        if len(counts) > 1:
            hint = "give one for each: --run-time 1xA100=4h --run-time 2xA100=2h"
            raise StewardError(
                "one run time cannot hold for several counts of GPUs",
                where=f"--gpus {question.gpus}",
                hint=hint,
            )
    for each in counts:
        yield way_by_hand(
            run_s,
            gpu_model=model if each else "",
            gpus=each,
            catalog=catalog,
            most_nodes=None if question.across_nodes else 1,
        )


def request_of(question: PlanQuestion, ways: tuple[Way, ...], now_s: float) -> PlanRequest:
    """Return what is asked as numbers."""
    deadline = question.deadline
    return PlanRequest(
        name=question.name,
        ways=ways,
        now_s=now_s,
        cores=question.cores,
        memory_bytes=read_bytes(question.memory, where="--memory") if question.memory else 0,
        deadline_s=read_deadline(deadline, now_s) if deadline else None,
        deadline_chance=question.chance,
        budget_usd=question.budget_usd,
        may_start_later=question.later,
        saves=question.saves,
        save_s=read_range(question.save_time, where="--save-time").mid,
        save_every_s=read_range(question.save_every, where="--save-every").mid,
        sites=read_names(question.sites),
        weights=Weights(
            usd_per_h=question.usd_per_h,
            usd_per_kg=question.usd_per_kg,
            usd_if_late=question.usd_if_late,
        ),
    )


def outlook_of(
    question: PlanQuestion, catalog: Catalog, *, known: Outlook | None = None
) -> Outlook:
    """Return what is believed of sites: what is given by hand comes before what is known."""
    known = known or Outlook()
    waits = read_values(question.waits, where="--wait")
    stops = read_values(question.interrupted, where="--interrupted")
    _check_places(waits, catalog, where="--wait")
    _check_places(stops, catalog, where="--interrupted")
    return Outlook(
        waits={**known.waits, **waits},
        grams_by_hour=known.grams_by_hour,
        price_by_hour=known.price_by_hour,
        hours_from_s=known.hours_from_s,
        interrupted_every_s={
            **known.interrupted_every_s,
            **{name: each.mid for name, each in stops.items()},
        },
    )


def _check_places(names: Iterable[str], catalog: Catalog, *, where: str) -> None:
    """Refuse names that are no queue, site or region: what is said of them would count nowhere."""
    known = {*_places(catalog)} - {""}
    for name in names:
        if name not in known:
            raise StewardError(
                f"there is no queue, site or region '{name}' in the catalogue",
                where=f"{where} {name}",
                hint=_near_place(name, catalog)
                or did_you_mean(name, known)
                or "write SITE, or SITE/QUEUE",
            )


def _near_place(name: str, catalog: Catalog) -> str:
    """Return the queues of the site that is meant, where the name holds a site and a queue."""
    wanted, slash, _ = name.partition("/")
    names = [site.name for site in catalog.sites]
    near = wanted if wanted in names else next((each for each in names if wanted in each), "")
    if not (slash and wanted and near):
        return ""
    queues = [queue.name for queue in catalog.site(near).queues]
    return did_you_mean(name, [f"{near}/{each}" for each in queues]) or (
        f"queues of {near}: {', '.join(queues[:_NAMED])}"
        + (f" and {len(queues) - _NAMED} more" if len(queues) > _NAMED else "")
    )


def _places(catalog: Catalog) -> Iterator[str]:
    for site in catalog.sites:
        yield site.name
        yield site.region
        yield from (place_of(site, queue) for queue in site.queues)

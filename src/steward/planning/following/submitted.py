"""What a plan's JSON keeps so that its job can be followed, and reading that back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from steward.decide.planning.candidates import sites_of
from steward.errors import StewardError
from steward.model.planning.calibration import Calibration, calibrated
from steward.model.planning.catalog import Catalog, Engine
from steward.model.planning.followed import FollowedJob, SiteRun
from steward.model.planning.plan import Choice, PlanRequest, Range, Way
from steward.planning.submission import Submission
from steward.store.catalog import catalog_text, parse_catalog

__all__ = ["corrected_ways", "follow_record", "followed_from"]

HOUR_S = 3600.0
_REQUEST = TypeAdapter(PlanRequest)
_CHOICE = TypeAdapter(Choice)
_RANGES = TypeAdapter(dict[str, Range])
_FACTORS = TypeAdapter(dict[str, float])


def follow_record(
    request: PlanRequest,
    catalog: Catalog,
    *,
    waits: Mapping[str, Range],
    corrected: Mapping[str, float],
    application: str,
) -> dict[str, Any]:
    """Return the sites that such a job could be submitted to, and what is known beside them."""
    sites = tuple(each for each in sites_of(request, catalog) if each.engine is not Engine.CLOUD)
    names = {each.name for each in sites}
    return {
        "sites": catalog_text(Catalog(sites=sites)),
        "waits": {
            place: {"low": each.low, "mid": each.mid, "high": each.high}
            for place, each in waits.items()
            if place.partition("/")[0] in names
        },
        "corrected": dict(corrected),
        "application": application,
    }


def followed_from(
    plan: Mapping[str, Any], number: int, made: Submission, *, id_: str, steps: float | None
) -> tuple[FollowedJob, Catalog]:
    """Return a job as it begins, and the sites that it was planned over."""
    try:
        record = plan["follow"]
        request = _REQUEST.validate_python(plan["request"])
        chosen = dict(plan["front"][number - 1])
        chosen.pop("submit", None)
        choice = _CHOICE.validate_python(chosen)
        catalog = parse_catalog(str(record["sites"]), file="the plan")
        job = FollowedJob(
            id=id_,
            name=request.name,
            request=request,
            runs=(_first_run(choice, made, id_, request.now_s),),
            steps=steps,
            campaign=str(record["application"]),
            corrected=_FACTORS.validate_python(record["corrected"]),
            waits=_RANGES.validate_python(record["waits"]),
        )
    except (KeyError, TypeError, ValidationError, IndexError) as fault:
        raise StewardError(
            "it does not say what following its job needs",
            where="the plan",
            hint="make it anew by `steward estimate plan … --json`, or add --no-follow",
        ) from fault
    return job, catalog


def _first_run(choice: Choice, made: Submission, id_: str, now_s: float) -> SiteRun:
    usd_per_h = None
    if choice.usd is not None and choice.run_s.mid > 0:
        usd_per_h = choice.usd.mid / (choice.run_s.mid / HOUR_S)
    return SiteRun(
        site=choice.site,
        queue=choice.queue,
        way=choice.way,
        expected_run_s=choice.way.run_s,
        submitted_s=now_s,
        endpoint=made.site,
        options=dict(made.options),
        token=f"{id_}-0",
        usd_per_h=usd_per_h,
        why="its plan",
    )


def corrected_ways(
    ways: Sequence[Way], name: str, calibrations: Sequence[Calibration]
) -> tuple[tuple[Way, ...], dict[str, float], tuple[str, ...]]:
    """Return ways as jobs of that name really ran, by how much each GPU's changed, and notes."""
    known = {each.gpu_model: each for each in calibrations if each.name == name}
    made, factors, notes = [], {}, []
    for way in ways:
        found = known.get(way.gpu_model)
        made.append(way if found is None else replace(way, run_s=calibrated(way.run_s, found)))
        if found is not None and way.gpu_model not in factors:
            factors[way.gpu_model] = found.factor
            gpu = way.gpu_model or "no GPU"
            notes.append(
                f"run times of {name} with {gpu} are taken {found.factor:.2f} times: "
                f"{len(found.jobs)} jobs took so much of what was planned"
            )
    return tuple(made), factors, tuple(notes)

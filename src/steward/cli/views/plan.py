"""A plan as a table, as lines, and as a record for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from steward.cli.output import plain
from steward.decide.planning.formatting import way_name
from steward.model.planning.catalog import Catalog
from steward.model.planning.plan import Choice, Plan
from steward.planning.rows import nearest, note_lines, rejected_rows
from steward.planning.scripts.job import Script
from steward.planning.submission import submission_record
from steward.planning.ways import BY_HAND

__all__ = ["plan_lines", "plan_record"]


def plan_lines(
    plan: Plan, scripts: Sequence[Script], folder: Path | None, *, most: int
) -> Iterator[str]:
    """Give the notes of the table, why others lost, what to change, and the scripts."""
    if len(plan.front) > most:
        yield f"  and {len(plan.front) - most:,} more; --limit shows more of them"
    yield from (f"  {each}" for each in note_lines(plan))
    if plan.front:
        yield from ("", "recommended", f"  {plan.why}")
    yield from _origins(plan.front[:most])
    if plan.relax:
        yield from ("", "nothing is feasible; any of these would change that")
        yield from (f"  {each}" for each in plan.relax)
    if plan.rejected:
        yield from ("", "why others lost")
        yield from (
            f"  {where} ({way}): {why}" for where, way, why in rejected_rows(plan, most=most)
        )
        if len(plan.rejected) > most:
            yield f"  and {len(plan.rejected) - most:,} more; --limit shows more of them"
    if scripts:
        yield from ("", f"scripts in {folder}")
        yield from (f"  {each.start}" for each in scripts if each.start)


def _origins(front: Sequence[Choice]) -> Iterator[str]:
    """Give what run times are from, but for those that were given by hand."""
    ways = [each.way for each in front if each.way.basis not in ("", BY_HAND)]
    lines = dict.fromkeys(f"  {way_name(each)}: {each.basis}" for each in ways)
    if lines:
        yield from ("", "run times are from", *lines)


def plan_record(
    plan: Plan,
    catalog: Catalog,
    scripts: Sequence[Script],
    notes: Sequence[str],
    *,
    follow: Mapping[str, Any],
    most: int,
) -> dict[str, Any]:
    """Return the plan as JSON shows it; of those that lost, the nearest.

    `submit` of a choice is what `steward jobs submit --plan` does, `follow` what following the job
    needs.
    """
    front = [
        {**_fields(each), "submit": submission_record(each, plan.request, catalog)}
        for each in plan.front
    ]
    rejected = [
        {
            "site": each.site,
            "queue": each.queue,
            "gpu_model": each.gpu_model,
            "gpus": each.gpus,
            "why": each.why,
            "choice": plain(each.choice),
            "beaten_by": (plan.front.index(each.beaten_by) if each.beaten_by is not None else None),
        }
        for each in nearest(plan)[:most]
    ]
    return {
        "feasible": bool(plan.front),
        "request": plain(plan.request),
        "front": front,
        "why": plan.why,
        "rejected": rejected,
        "rejected_count": len(plan.rejected),
        "relax": list(plan.relax),
        "notes": list(notes),
        "follow": dict(follow),
        "scripts": [{"name": each.name, "start": each.start} for each in scripts],
    }


def _fields(choice: Choice) -> dict[str, Any]:
    return {each.name: plain(getattr(choice, each.name)) for each in fields(choice)}

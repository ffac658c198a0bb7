"""Telemetry of any known form as baskets, with a report of what was found and left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from steward.batch import Workers
from steward.errors import StewardError, unknown_name
from steward.learn.patterns.basket_files import is_baskets_file, read_about, read_baskets
from steward.learn.patterns.baskets import Baskets
from steward.learn.patterns.cuts import Cuts
from steward.learn.patterns.discretise import Discretised, discretise, unit_differences
from steward.learn.patterns.file_windows import WindowPlan
from steward.learn.patterns.groups import GROUPS, MetricGroup
from steward.learn.patterns.ingest import Ingested, IngestPlan, Scope, ingest, value_names
from steward.learn.patterns.inputs import Input, find_inputs
from steward.learn.patterns.run_labels import label_notes, labels_by_name, labels_of, read_labels
from steward.learn.patterns.sensitivity import WindowSize, compare_sizes
from steward.learn.patterns.store_windows import node_runs
from steward.learn.patterns.window_statistics import STATISTICS, Statistic

__all__ = ["SCOPES", "BasketRequest", "MadeBaskets", "load_baskets", "make_baskets"]

SCOPES = ("global", "hardware", "cluster", "host")
_LEAST_S, _MOST_S = 0.01, 86_400.0
_NAMED = 50  # of a list in a report; the others are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class BasketRequest:
    """What to read and how to cut it. `sensitivity_s` are further window sizes to compare."""

    paths: tuple[str, ...]
    window_s: float = 5.0
    sensitivity_s: tuple[float, ...] = ()
    groups: tuple[MetricGroup, ...] = GROUPS
    only: tuple[str, ...] = ()  # names of groups
    statistics: tuple[Statistic, ...] = ("median",)
    scope: str = "global"
    hosts: Path | None = None  # YAML: host to its hardware or cluster
    labels: Path | None = None
    label: str = ""  # an expression on the names of runs
    cuts_from: Path | None = None  # baskets whose cuts are used
    keep_constant: bool = False
    newest_hours: int = 0  # of recorded folders, only so many; 0 takes all


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeBaskets:
    """Baskets, and all that a report says about them."""

    baskets: Baskets
    report: Mapping[str, Any]
    sizes: tuple[WindowSize, ...] = ()
    notes: tuple[str, ...] = field(default=())


def load_baskets(paths: Sequence[str | Path], *, window_s: float = 5.0) -> Baskets:
    """Return the baskets of a file that has them, or else make them of raw telemetry."""
    if len(paths) == 1 and is_baskets_file(Path(paths[0])):
        return read_baskets(Path(paths[0]))
    request = BasketRequest(paths=tuple(map(str, paths)), window_s=window_s)
    return make_baskets(request).baskets


def make_baskets(
    request: BasketRequest,
    *,
    workers: Workers | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> MadeBaskets:
    """Read telemetry and cut it into levels. The answer does not depend on `workers`."""
    plan = plan_of(request)
    found = ingest(plan, workers=workers, progress=progress)
    labels = _labels(request, plan, found)
    given = None if request.cuts_from is None else _cuts_of(request.cuts_from)
    made = discretise(found, plan, labels=labels, given=given, keep_constant=request.keep_constant)
    others = [  # with the same cuts: what differs is the windows' doing
        discretise(found, plan, size=size, given=made.cuts).baskets
        for size in range(1, len(plan.windows.windows_s))
        if found.windows[size]
    ]
    notes = _notes(found, plan, made)
    return MadeBaskets(
        baskets=made.baskets,
        report=_report(request, plan, found, made, notes),
        sizes=compare_sizes(made.baskets, others) if others else (),
        notes=notes,
    )


def plan_of(request: BasketRequest) -> IngestPlan:
    """Check a request, and return what is to be read."""
    sizes = tuple(dict.fromkeys((request.window_s, *request.sensitivity_s)))
    wrong = [f"{each:g} s" for each in sizes if not _LEAST_S <= each <= _MOST_S]
    if wrong:
        hint = f"a window is {_LEAST_S:g} to {_MOST_S:g} s"
        raise StewardError(f"windows cannot be {', '.join(wrong)}", where="--window", hint=hint)
    for statistic in request.statistics:
        if statistic not in STATISTICS:
            raise unknown_name("statistic", statistic, STATISTICS, where="--statistic")
    if request.scope not in SCOPES:
        raise unknown_name("scope", request.scope, SCOPES, where="--scope")
    names = [group.name for group in request.groups]
    for name in request.only:
        if name not in names:
            raise unknown_name("group", name, names, where="--only")
    inputs = _newest(find_inputs(request.paths), request.newest_hours)
    stores = dict.fromkeys(each.path for each in inputs if each.hour >= 0)
    return IngestPlan(
        inputs=inputs,
        windows=WindowPlan(
            groups=tuple(g for g in request.groups if not request.only or g.name in request.only),
            windows_s=sizes,
            statistics=request.statistics,
        ),
        scope=Scope(by=request.scope, hosts=_hosts(request.hosts)),
        runs={path: node_runs(Path(path)) for path in stores},
    )


def _newest(inputs: tuple[Input, ...], hours: int) -> tuple[Input, ...]:
    """Return the inputs without the hours of recorded folders that are older than the newest."""
    last = max((each.hour for each in inputs), default=-1)
    if not hours or last < 0:
        return inputs
    return tuple(each for each in inputs if each.hour < 0 or each.hour > last - hours)


def _hosts(path: Path | None) -> dict[str, str]:
    """Read which hardware or cluster each host is of."""
    if path is None:
        return {}
    form = "each line is `host: name of its hardware or cluster`"
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        problem = f"is no YAML: {' '.join(str(fault).split())[:200]}"
        raise StewardError(problem, where=str(path), hint=form) from fault
    if not isinstance(found, dict) or any(isinstance(v, dict | list) for v in found.values()):
        raise StewardError("is no mapping of hosts to names", where=str(path), hint=form)
    return {str(host): str(name) for host, name in found.items()}


def _labels(request: BasketRequest, plan: IngestPlan, found: Ingested) -> dict[str, str]:
    labels = labels_of(plan.inputs, plan.runs)
    if request.labels is not None:
        labels |= read_labels(request.labels)
    if request.label:
        names = {run for chunks in found.windows for chunk in chunks for run in chunk.runs}
        labels |= labels_by_name(request.label, sorted(names))
    return labels


def _cuts_of(path: Path) -> dict[tuple[str, str], Cuts]:
    """Return the cuts that other baskets were made with."""
    entries = read_about(path).get("cuts")
    try:
        return {
            (str(each["scope"]), str(each["group"])): Cuts(
                names=tuple(each["levels"]),
                bounds=tuple(map(float, each["bounds"])),
                shares=tuple(map(float, each["shares"])),
                windows=int(each["windows"]),
                why=str(each["why"]),
            )
            for each in entries or ()
        }
    except (KeyError, TypeError, ValueError) as fault:
        hint = "name a file that `steward learn baskets --out` has written"
        raise StewardError("has no cuts", where=str(path), hint=hint) from fault


def _notes(found: Ingested, plan: IngestPlan, made: Discretised) -> tuple[str, ...]:
    notes = [
        f"{times:,} times: {fault} (first: {found.seen.examples[fault]})"
        for fault, times in sorted(found.seen.faults.items())
    ]
    notes += [f"{runs:,} runs have {why}" for why, runs in sorted(found.empty_runs.items())]
    notes += label_notes(made.baskets.labels)
    if made.empty_windows:
        notes.append(f"{made.empty_windows:,} windows have no value in any group")
    if made.constant:
        notes.append(f"one level everywhere: {', '.join(made.constant)}")
    slow = [period for period in found.periods_s if period > plan.windows.windows_s[0]]
    if slow:
        notes.append(f"samples come every {max(slow):g} s: such windows hold one sample each")
    if len(made.baskets):
        longest = float(np.bincount(made.baskets.run).max() / len(made.baskets))
        if longest > 0.2 and len(made.baskets.runs) > 4:
            notes.append(f"the longest run has {longest:.0%} of all windows")
    units = unit_differences(found, plan)
    more = [f"{len(units) - _NAMED} more hosts differ so"] if len(units) > _NAMED else []
    return (*notes, *units[:_NAMED], *more)


def _report(
    request: BasketRequest,
    plan: IngestPlan,
    found: Ingested,
    made: Discretised,
    notes: Sequence[str],
) -> dict[str, Any]:
    """Return what is kept beside the baskets: nothing of it depends on where parts were read."""
    place = {name: i for i, name in enumerate(value_names(plan))}
    return {
        "inputs": list(request.paths),
        "files": found.files,
        "rows": found.rows,
        "size_bytes": found.size_bytes,
        "window_s": request.window_s,
        "windows": len(made.baskets),
        "runs": len(made.baskets.runs),
        "statistics": list(request.statistics),
        "scope": request.scope,
        "groups": [
            {
                "group": group.name,
                "columns": found.columns[group.name],
                "files": found.files_with[group.name],
                "match": list(group.match),
                "combine": group.combine,
            }
            for group in plan.windows.groups
        ],
        "absent_groups": list(made.absent),
        "constant_groups": list(made.constant),
        "unmapped": {
            "columns": len(found.unmapped),
            "most": dict(sorted(found.unmapped.items(), key=lambda e: (-e[1], e[0]))[:_NAMED]),
        },
        "cuts": [
            {"scope": scope, "group": group, **cuts.as_record()}
            | _figures(found, scope, place.get(group, -1))
            for (scope, group), cuts in sorted(made.cuts.items())
        ],
        "hardware": dict(sorted(found.hardware.items())),
        "sampled_every_s": {f"{k:g}": v for k, v in sorted(found.periods_s.items())},
        "skipped": {
            "files": len(found.skipped),
            "first": dict(sorted(found.skipped.items())[:_NAMED]),
        },
        "notes": list(notes),
    }


def _figures(found: Ingested, scope: str, group: int) -> dict[str, float]:
    sketch = found.sketches.get((0, scope, group))
    return {} if sketch is None else sketch.as_record()

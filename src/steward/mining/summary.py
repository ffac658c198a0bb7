"""All that is mined from baskets for a reader who wants to see it at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steward.errors import StewardError
from steward.learn.patterns.association import AssociationRules, RuleSearch, find_associations
from steward.learn.patterns.baskets import Baskets
from steward.learn.patterns.compared_runs import compared_sides
from steward.learn.patterns.contrasts import Contrasts, ContrastSearch, find_contrasts
from steward.learn.patterns.event_lists import Events, event_lists
from steward.learn.patterns.itemsets import Item, ItemCounts, count_items, frequent_bounded
from steward.learn.patterns.relations import CoOccurrence, co_occurrence, item_frequencies
from steward.learn.patterns.sequences import (
    Sequences,
    SequenceSearch,
    closed_sequences,
    find_bounded,
)
from steward.learn.patterns.significance import FEWEST_RUNS
from steward.learn.patterns.transitions import StateFlow, state_flow
from steward.learn.workloads.files import read_runs
from steward.learn.workloads.phases import PhaseFilter, PhaseSignals
from steward.learn.workloads.signals import RunSignals
from steward.model.forecast import PHASES

__all__ = ["Summary", "Timeline", "spans_of", "summarise"]

Q = 0.05
_SUPPORT, _CONFIDENCE = 0.05, 0.8  # what is rarer would fill no picture, and take long
_SEQUENCE_SHARE, _MOST_SEQUENCES = 0.3, 20_000
_MOST_RUNS = 60
_GIB = float(2**30)
_MIB = float(2**20)
_POWER_WATTS = 700.0  # of one unit of the signal

Span = tuple[float, float, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What runs were doing: `spans[run]` in seconds since its begin, of `kinds`."""

    runs: tuple[str, ...]
    spans: tuple[tuple[Span, ...], ...]
    kinds: tuple[str, ...]
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a report shows."""

    baskets: Baskets
    frequencies: tuple[tuple[Item, int], ...]
    together: CoOccurrence
    rules: AssociationRules  # significant ones
    rules_tested: int
    sequences: Sequences
    flow: StateFlow
    contrasts: tuple[Contrasts, ...]
    timeline: Timeline
    notes: tuple[str, ...]


def summarise(baskets: Baskets, telemetry: Sequence[Path] = ()) -> Summary:
    """Mine baskets. `telemetry` is what they were made of, for the phases of their runs."""
    counts = count_items(baskets)
    every, share = frequent_bounded(baskets, _SUPPORT, counts)
    rules = find_associations(every, baskets, RuleSearch(confidence=_CONFIDENCE))
    search = SequenceSearch(share=_SEQUENCE_SHARE, most=_MOST_SEQUENCES)
    found, used = find_bounded(event_lists(baskets, Events.CHANGES), search)
    notes = []
    if share != _SUPPORT:
        notes.append(f"rules are of itemsets in at least {share:.1%} of the windows: else too many")
    if len(baskets.runs) < FEWEST_RUNS:
        notes.append(
            f"{len(baskets.runs)} runs are too few to test rules by: {FEWEST_RUNS} are needed"
        )
    if used.share != _SEQUENCE_SHARE:
        notes.append(f"sequences are in at least {used.share:.0%} of the runs: else too many")
    contrasts, more = _contrasts(baskets, counts)
    return Summary(
        baskets=baskets,
        frequencies=item_frequencies(baskets),
        together=co_occurrence(baskets),
        rules=rules.taken(rules.q_values <= Q),
        rules_tested=rules.tested,
        sequences=closed_sequences(found),
        flow=state_flow(baskets),
        contrasts=contrasts,
        timeline=_phases(telemetry) or _states(baskets),
        notes=(*notes, *more),
    )


def _contrasts(baskets: Baskets, counts: ItemCounts) -> tuple[tuple[Contrasts, ...], list[str]]:
    if not any(baskets.labels):
        return (), []
    search = ContrastSearch()
    try:
        sides, left_out = compared_sides(baskets, None, None, fewest_runs=search.fewest_runs)
        notes = [f"too few runs of {', '.join(left_out[:5])} to compare"] if left_out else []
        return tuple(find_contrasts(baskets, each, search, counts=counts) for each in sides), notes
    except StewardError as fault:  # too few runs of a label: the rest of the report still stands
        return (), [f"labels are not compared: {fault.problem}"]


# -- timelines -------------------------------------------------------------------------------------


def _phases(telemetry: Sequence[Path]) -> Timeline | None:
    """Return the phases of runs, where the files hold what phases are recognised by."""
    if len(telemetry) != 1 or not telemetry[0].is_file():
        return None
    try:
        runs, _ = read_runs(telemetry[0], None)
    except StewardError:
        return None
    shown = runs[:_MOST_RUNS]
    return Timeline(
        runs=tuple(each.run for each in shown),
        spans=tuple(tuple(_phase_spans(each)) for each in shown),
        kinds=PHASES,
        basis="phases, recognised sample by sample as they are live",
    )


def _phase_spans(run: RunSignals) -> list[Span]:
    begun = PhaseFilter(1)
    places, last_s = [], float(run.t_s[0])
    cores = run.signal("user") + run.signal("system")
    for i, t_s in enumerate(run.t_s.tolist()):
        seen = PhaseSignals(
            busy_share=run.signal("util")[i : i + 1],
            cores=cores[i : i + 1],
            read_bytes_per_s=run.signal("read")[i : i + 1] * 1e6,
            write_bytes_per_s=run.signal("written")[i : i + 1] * 1e6,
            held_bytes=run.signal("memory")[i : i + 1] * _MIB,
            power_watts=run.signal("power")[i : i + 1] * _POWER_WATTS,
        )
        places.append(int(begun.update(seen, t_s - last_s)[0].argmax()))
        last_s = t_s
    return spans_of(run.t_s - run.t_s[0], np.array(places), run.step_s)


def _states(baskets: Baskets) -> Timeline:
    """Return which of the most frequent states each run was in, and when in another one."""
    flow = state_flow(baskets, most=7)
    names = [_state_name(state, baskets) for state in flow.states]
    place = {tuple(_codes(state, baskets)): i for i, state in enumerate(flow.states)}
    runs = range(min(len(baskets.runs), _MOST_RUNS))
    spans = []
    for run in runs:
        rows = np.flatnonzero(baskets.run == run)
        rows = rows[np.argsort(baskets.start_s[rows], kind="stable")]
        kinds = [place.get(tuple(baskets.levels[row].tolist()), len(names)) for row in rows]
        start_s = baskets.start_s[rows] - (baskets.start_s[rows[0]] if len(rows) else 0.0)
        spans.append(tuple(spans_of(start_s, np.array(kinds), baskets.window_s)))
    return Timeline(
        runs=tuple(baskets.runs[run] for run in runs),
        spans=tuple(spans),
        kinds=(*names, "another state"),
        basis="the most frequent states; these files do not hold what phases are recognised by",
    )


def _codes(state: tuple[Item, ...], baskets: Baskets) -> list[int]:
    levels = {item.group: item.level for item in state}
    return [
        names.index(levels[group]) if group in levels else 255
        for group, names in zip(baskets.groups, baskets.level_names, strict=True)
    ]


def _state_name(state: tuple[Item, ...], baskets: Baskets) -> str:
    """Return what is not at its lowest level, in short."""
    lowest = dict(zip(baskets.groups, (names[0] for names in baskets.level_names), strict=True))
    above = [str(item) for item in state if item.level != lowest[item.group]]
    return ", ".join(above[:4]) + (", ..." if len(above) > 4 else "") if above else "all at lowest"


def spans_of(start_s: np.ndarray, kinds: np.ndarray, step_s: float) -> list[Span]:
    """Join what follows directly and is alike; a gap ends a span."""
    if not len(kinds):
        return []
    new = np.flatnonzero((np.diff(kinds) != 0) | (np.diff(start_s) > 3 * step_s)) + 1
    first = np.concatenate([[0], new])
    last = np.concatenate([new - 1, [len(kinds) - 1]])
    return [
        (float(start_s[a]), float(start_s[b]) + step_s, int(kinds[a]))
        for a, b in zip(first, last, strict=True)
    ]

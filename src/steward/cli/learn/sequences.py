"""`steward learn sequences`: what happens after what, in how many runs, and how soon."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.learn.sources import Limit, Paths, Top, Window, item_record, joined, read_source
from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_note, print_table, waiting

if TYPE_CHECKING:
    from steward.learn.patterns.baskets import Baskets
    from steward.learn.patterns.episodes import Episodes
    from steward.learn.patterns.event_lists import EventLists
    from steward.learn.patterns.motifs import Motifs
    from steward.learn.patterns.sequences import Sequences, SequenceSearch
    from steward.learn.patterns.transitions import StateFlow

__all__ = ["sequences"]

_SUPPORT, _FEW, _MOST = 0.2, 20_000, 200_000  # share of the runs; sequences
_WITH_EXAMPLES = 50  # of the best; a rule is suggested of these

Support = Annotated[
    float | None,
    typer.Option(
        "--support",
        metavar="SHARE",
        help="Of the runs, at least; without it 0.2, or more where that finds too many.",
    ),
]
Longest = Annotated[int, typer.Option("--longest", min=1, max=10, help="Steps, at most.")]
MinGap = Annotated[
    float, typer.Option("--min-gap", metavar="S", help="Seconds between two steps, at least.")
]
MaxGap = Annotated[
    float | None, typer.Option("--max-gap", metavar="S", help="Seconds between two steps, at most.")
]
MaxSpan = Annotated[
    float | None, typer.Option("--max-span", metavar="S", help="Seconds from first to last step.")
]
Within = Annotated[
    float, typer.Option("--within", metavar="S", help="Episodes: B begins so soon after A.")
]
EventsOption = Annotated[
    str,
    typer.Option(
        "--events", metavar="E", help="changes: a level begins; levels: one holds, each window."
    ),
]
Every = Annotated[
    bool, typer.Option("--all", help="Also sequences that a longer one in as many runs contains.")
]
MotifWindows = Annotated[
    int, typer.Option("--motif", min=2, max=1_000, help="Windows of a stretch that comes back.")
]
Q = Annotated[
    float, typer.Option("--q", min=0.0, max=1.0, help="The share of false ones that is accepted.")
]


def sequences(  # noqa: PLR0913 - a command's options are its parameters
    paths: Paths,
    *,
    window: Window = 5.0,
    support: Support = None,
    longest: Longest = 4,
    min_gap: MinGap = 0.0,
    max_gap: MaxGap = None,
    max_span: MaxSpan = None,
    within: Within = 10.0,
    events: EventsOption = "changes",
    every: Every = False,
    motif: MotifWindows = 6,
    q: Q = 0.05,
    top: Top = 15,
    limit: Limit = 1_000,
    as_json: Json = False,
) -> None:
    """Find sequences, episodes, transitions and motifs in runs.

    Sequences with other things between their steps, and without, are listed apart. An episode is a
    pair of which the second begins soon after the first, oftener than by chance.
    """
    from steward.cli.learn.choices import chosen
    from steward.learn.patterns.episodes import find_episodes
    from steward.learn.patterns.event_lists import Events, event_lists
    from steward.learn.patterns.motifs import find_motifs
    from steward.learn.patterns.sequences import (
        SequenceSearch,
        closed_sequences,
        find_bounded,
    )
    from steward.learn.patterns.significance import FEWEST_RUNS
    from steward.learn.patterns.transitions import group_transitions, state_flow

    gapped = SequenceSearch(
        share=support or _SUPPORT,
        longest=longest,
        most=_FEW if support is None else _MOST,
        min_gap_s=min_gap,
        max_gap_s=inf if max_gap is None else max_gap,
        max_span_s=inf if max_span is None else max_span,
    )
    contiguous = replace(gapped, contiguous=True, min_gap_s=0.0, max_gap_s=inf, max_span_s=inf)
    kind = chosen(Events, events, "--events")
    source = read_source(paths, window)
    baskets = source.baskets
    with waiting("mining"):
        lists = event_lists(baskets, kind)
        find = find_bounded if support is None else _found
        searched = {"gapped": find(lists, gapped), "contiguous": find(lists, contiguous)}
        found = {
            name: each if every else closed_sequences(each) for name, (each, _) in searched.items()
        }
        episodes = find_episodes(baskets, within, q=q)
        motifs = find_motifs(baskets, motif)
        flow = state_flow(baskets)
    notes = [
        f"{name} sequences are in at least {used.share:.0%} of the runs, of at most {used.longest} "
        "steps: with less there are too many"
        for name, (_, used) in searched.items()
        if used.share != (support or _SUPPORT)
    ]
    if len(baskets.runs) < FEWEST_RUNS:
        notes.append(f"{len(baskets.runs)} runs are too few for episodes: {FEWEST_RUNS} are needed")
    if motifs.windows_left_out:
        notes.append(f"motifs: {motifs.windows_left_out:,} windows were not compared")
    if as_json:
        print_json(
            {
                "source": source.as_record(),
                "events": len(lists),
                "found": {name: len(each) for name, each in found.items()},
                "sequences": {name: _records(each, limit) for name, each in found.items()},
                "episodes_found": len(episodes),
                "episodes": _episode_records(episodes, baskets)[:limit],
                "episodes_tested": episodes.tested,
                "transitions": [
                    {"group": each.group, "levels": list(each.levels),
                     "counts": each.counts.tolist(), "shares": each.shares.tolist(),
                     "stay_s": each.stay_s.tolist()}
                    for each in group_transitions(baskets)
                ],
                "flow": _flow_record(flow),
                "motifs": _motif_records(baskets, motifs),
                "notes": notes,
            }
        )  # fmt: skip
        return
    for name, each in found.items():
        _show_sequences(name, each, top)
    _show_episodes(episodes, top)
    _show_motifs(baskets, motifs)
    for note in notes:
        print_note(f"note: {note}")


def _found(events: EventLists, search: SequenceSearch) -> tuple[Sequences, SequenceSearch]:
    from steward.learn.patterns.sequences import find_sequences

    return find_sequences(events, search), search


def _records(found: Sequences, most: int) -> list[dict[str, Any]]:
    return [
        {
            "steps": [item_record(item) for item in found.of(row)],
            "runs": int(found.counts[row]),
            "support": int(found.counts[row]) / found.runs,
        }
        for row in range(min(len(found), most))
    ]


def _episode_records(found: Episodes, baskets: Baskets) -> list[dict[str, Any]]:
    from steward.learn.patterns.event_lists import event_lists
    from steward.learn.patterns.evidence import sequence_examples

    lift, events = found.lift, event_lists(baskets)
    return [
        {
            "first": item_record(found.items[found.first[row]]),
            "then": item_record(found.items[found.then[row]]),
            "within_s": found.within_s,
            "times": int(found.times[row]),
            "followed": int(found.followed[row]),
            "expected": float(found.expected[row]),
            "lift": float(lift[row]),
            "runs": int(found.runs[row]),
            "p_value": float(found.p_values[row]),
            "q_value": float(found.q_values[row]),
            "examples": sequence_examples(
                baskets, events, (int(found.first[row]), int(found.then[row])), found.within_s
            )
            if row < _WITH_EXAMPLES
            else {},
        }
        for row in range(len(found))
    ]


def _flow_record(flow: StateFlow) -> dict[str, Any]:
    return {
        "states": [[item_record(item) for item in state] for state in flow.states],
        "windows": flow.windows.tolist(),
        "counts": flow.flow.tolist(),
    }


def _motif_records(baskets: Baskets, motifs: Motifs) -> list[dict[str, Any]]:
    def place(window: int) -> dict[str, Any]:
        return {
            "run": baskets.runs[baskets.run[window]],
            "start_s": float(baskets.start_s[window]),
        }

    return [
        {
            "windows": motifs.length,
            "first": place(motif.first),
            "again": [
                {**place(window), "cells_that_differ": distance}
                for window, distance in zip(motif.places, motif.distances, strict=True)
            ],
            "cells": motifs.cells,
        }
        for motif in motifs.found
    ]


def _show_sequences(name: str, found: Sequences, top: int) -> None:
    says = {
        "gapped": "sequences, anything may be between two steps",
        "contiguous": "sequences of directly following moments",
    }
    print_lines([f"{len(found):,} {says[name]}"])
    lengths = found.lengths
    rows = [row for row in range(len(found)) if lengths[row] > 1][:top]
    print_table(
        ["runs", "support", "steps"],
        [
            [f"{found.counts[row]:,}", f"{found.counts[row] / found.runs:.0%}",
             joined(found.of(row), " > ")]
            for row in rows
        ],
        empty="no two things follow each other in that many runs",
    )  # fmt: skip
    print_lines([""])


def _show_episodes(found: Episodes, top: int) -> None:
    print_lines([f"{len(found):,} episodes within {found.within_s:g} s, of {found.tested:,} pairs"])
    lift = found.lift
    print_table(
        ["times", "followed", "by chance", "lift", "q", "runs", "episode"],
        [
            [
                f"{found.times[row]:,}",
                f"{found.followed[row]:,}",
                f"{found.expected[row]:.1f}",
                f"{lift[row]:.1f}",
                f"{found.q_values[row]:.1e}",
                f"{found.runs[row]:,}",
                f"{found.items[found.first[row]]} > {found.items[found.then[row]]}",
            ]
            for row in range(min(top, len(found)))
        ],
        empty="no episode is significant",
    )


def _show_motifs(baskets: Baskets, motifs: Motifs) -> None:
    print_lines(["", f"{len(motifs.found)} motifs of {motifs.length} windows"])
    print_table(
        ["first in", "at", "comes back", "differs in"],
        [
            [
                baskets.runs[baskets.run[motif.first]],
                f"{baskets.start_s[motif.first]:.1f} s",
                f"{len(motif.places):,} times",
                f"{motif.distances[0]} to {motif.distances[-1]} of {motifs.cells} cells",
            ]
            for motif in motifs.found
        ],
        empty="no stretch with a change in it comes back",
    )

"""Why a rule fires on a log or does not: the reason is the demand that stood in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from steward.inspection.explanation import RuleExplanation, describe_rule, duration_text, explain
from steward.inspection.feeds import LogFeed, TelemetryFeed
from steward.model.rules import Mode, Rule, Stream
from steward.store.rules import parse_rules

HEAD = "rules:\n  - cre: {id: TRY-0001, severity: 2}\n    rule:\n"
PAIR = """\
      sequence:
        event: {source: here}
        window: 1m
        order: ['begin job', 'end job']
"""
GUARDED = PAIR + "        negate: ['all is well']\n"
OFTEN = """\
      set:
        event: {source: here}
        window: 1m
        match:
          - value: 'begin job'
            count: 3
"""
JOINED = """\
      sequence:
        event: {source: here}
        window: 1m
        correlations: [gpu]
        order:
          - value: 'begin job'
            extract: [{name: gpu, regex: 'gpu(\\d)'}]
          - value: 'end job'
            extract: [{name: gpu, regex: 'gpu(\\d)'}]
"""
NESTED = """\
      set:
        window: 1m
        match:
          - set:
              event: {source: here, origin: true}
              match: ['begin job']
          - set:
              event: {source: there}
              match: ['end job']
        negate:
          - set:
              event: {source: here}
              match: ['all is well']
            slide: -10s
            window: 20s
            absolute: true
"""


def rule(body: str) -> Rule:
    (only,) = parse_rules(HEAD + body, file="try.yaml")
    return only


def on(tmp_path: Path, body: str, *lines: str, source: str = "here") -> RuleExplanation:
    log = tmp_path / "a.log"
    log.write_text("\n".join(f"2026-01-01 00:{line}" for line in lines) + "\n", encoding="utf-8")
    feed = LogFeed(stream=Stream(name="a.log", source=source), sources=(log,))
    return explain(rule(body), [feed], mode=Mode.STRICT)


def test_a_rule_that_fires_needs_no_reason(tmp_path: Path) -> None:
    told = on(tmp_path, PAIR, "00:00 begin job", "00:10 end job")

    assert (len(told.hits), told.reasons, told.lines) == (1, (), 2)
    assert [(each.label, each.times) for each in told.conditions] == [("1", 1), ("2", 1)]


@pytest.mark.parametrize(
    ("body", "lines", "why"),
    [
        (PAIR, ["00:00 begin job"], "condition 2 never holds"),
        (PAIR, ["00:00 begin job", "00:05 End Job"], "1 lines would fit in other capitals"),
        (PAIR, ["00:00 begin job", "05:00 end job"], "too far apart: the window is 1 min"),
        (PAIR, ["00:00 end job", "00:10 begin job"], "in another order"),
        (GUARDED, ["00:00 begin job", "00:05 all is well", "00:10 end job"], "line 8 of the rule"),
        (OFTEN, ["00:00 begin job", "00:05 begin job"], "asks for 3 times"),
        (JOINED, ["00:00 begin job gpu1", "00:05 end job gpu2"], "same gpu (gpu=1; gpu=2)"),
        (JOINED, ["00:00 begin job gpu1", "05:00 end job gpu2"], "; and "),
    ],
)
def test_the_reason_is_what_stood_in_the_way(
    tmp_path: Path, body: str, lines: list[str], why: str
) -> None:
    told = on(tmp_path, body, *lines)

    assert told.hits == ()
    assert len(told.reasons) == 1
    assert why in told.reasons[0].text


def test_the_near_miss_and_the_line_that_denied_it_are_shown(tmp_path: Path) -> None:
    told = on(
        tmp_path,
        GUARDED,
        "00:00 all is well",
        "00:30 begin job",
        "00:35 all is well",
        "00:40 end job",
    )

    (reason,) = told.reasons
    assert [each.line for each in reason.places] == [2, 4]
    assert [each.line for each in reason.denied_by] == [3]


def test_a_log_of_another_source_is_said_to_be_one(tmp_path: Path) -> None:
    told = on(tmp_path, PAIR, "00:00 begin job", "00:05 end job", source="elsewhere")

    assert "another source" in told.reasons[0].text
    assert [(each.times, each.elsewhere) for each in told.conditions] == [(0, 1), (0, 1)]


def test_a_sequence_says_how_far_it_came(tmp_path: Path) -> None:
    body = PAIR.replace("'end job']", "'end job', 'begin job']")

    told = on(tmp_path, body, "00:00 begin job", "00:05 end job")

    assert "it comes as far as condition 2" in told.reasons[0].text


def test_nested_conditions_have_their_own_labels(tmp_path: Path) -> None:
    told = on(tmp_path, NESTED, "00:00 begin job", "00:05 all is well", "00:06 end job", source="")

    assert [each.label for each in told.conditions] == ["1.1", "2.1", "unless 1.1"]
    assert [each.forbids for each in told.conditions] == [False, False, True]
    assert "must not happen" in told.reasons[0].text
    assert [each.line for each in told.reasons[0].denied_by] == [2]


def test_series_that_were_not_so_for_long_enough_are_said_to_be(tmp_path: Path) -> None:
    body = """\
      set:
        match:
          - promql: {expr: 'gpu_busy_share < 0.1', for: 10m, event: {source: telemetry}}
"""
    file = tmp_path / "a.csv"
    rows = [f"{1_790_000_000 + 10 * i},n01/gpu0,{0.01 if 6 < i < 30 else 0.9}" for i in range(60)]
    file.write_text("t_s,entity,gpu.busy_share\n" + "\n".join(rows) + "\n", encoding="utf-8")

    told = explain(rule(body), [TelemetryFeed(path=file)], mode=Mode.STRICT)

    assert told.hits == ()
    assert "for long enough" in told.reasons[0].text
    assert told.reasons[0].text.count("2 min 30 s") == 1


def test_words_of_a_nested_rule() -> None:
    span = "from 10 s before the first of them on, for 20 s"

    assert describe_rule(rule(NESTED)) == [
        "It waits for all of these in any order within 1 min:",
        "  1. this in logs of source here:",
        "    1. a line with `begin job`",
        "  2. this in logs of source there:",
        "    1. a line with `end job`",
        f"unless, {span}, there is this in logs of source here:",
        "  1. a line with `all is well`",
    ]


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 s"), (1_500_000_000, "1 s 500 ms"), (90_000_000_000, "1 min 30 s"),
     (86_400 * 10**9, "1 d"), (3_601 * 10**9, "1 h 1 s")],
)  # fmt: skip
def test_lengths_of_time_are_exact(ns: int, text: str) -> None:
    assert duration_text(ns) == text

"""Bad and hostile input of `steward rules run`: it ends, and reports what it did."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from decide.rules.tiny_rules import block_of, rule_of, term
from steward.cli.app import app
from steward.decide.rules.engine import EngineLimits, RuleEngine
from steward.decide.rules.metric import compile_metric
from steward.model.rules import Clause, Extract, MetricTerm, RuleNode, Stream

NEEDLE = 'set: {event: {source: cre.log.x}, match: ["needle"]}'
RULE = """
  - metadata: {{id: abcdefghijk{number}, hash: abcdefghijk{number}}}
    cre: {{id: BAD-{number}, severity: 1, title: bad}}
    rule:
      {rule}
"""


@dataclass(frozen=True)
class Ran:
    status: int
    report: dict[str, Any]
    said: str

    @property
    def hits(self) -> dict[str, int]:
        return {each["rule"]: each["hits"] for each in self.report["findings"]}


def ran(folder: Path, log: bytes | Path, *rules: str) -> Ran:
    """Run the real command over one log."""
    (folder / "rules" / "r").mkdir(parents=True)
    texts = [RULE.format(number=1111 + n, rule=each) for n, each in enumerate(rules)]
    (folder / "rules" / "r" / "rule.yaml").write_text("rules:" + "".join(texts))
    path = log if isinstance(log, Path) else folder / "x.log"
    if isinstance(log, bytes):
        path.write_bytes(log)
    command = ["rules", "run", str(path), "--rules", str(folder / "rules"), "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    report = json.loads(result.stdout) if result.exit_code < 2 and result.stdout else {}
    return Ran(result.exit_code, report, result.output)


def lines(*texts: bytes) -> bytes:
    return b"".join(
        b"2025-06-01T00:%02d:%02dZ %s\n" % (n // 60, n % 60, text) for n, text in enumerate(texts)
    )


def test_patterns_that_take_other_engines_years_are_searched(tmp_path: Path) -> None:
    hostile = 'set: {event: {source: cre.log.x}, match: [{regex: "%s"}]}'
    patterns = ("(a+)+$", "(a|aa)+$", "(.*a){20}", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$")
    log = lines(*[b"a" * 5000 + b"!"] * 5, b"a" * 5000)

    found = ran(tmp_path, log, *(hostile % each for each in patterns))

    assert found.hits["BAD-1111"] == 1


@pytest.mark.parametrize("pattern", ["(x{1000}){1000}", "((a{100}){100}){100}", "a{1001}"])
def test_huge_repetitions_are_refused_with_what_is_possible(tmp_path: Path, pattern: str) -> None:
    rule = f'set: {{event: {{source: cre.log.x}}, match: [{{regex: "{pattern}"}}]}}'

    found = ran(tmp_path, lines(b"x"), rule)

    assert found.status in (1, 2)
    assert "repetition" in found.said
    assert "at most 1000 times" in found.said
    assert "rule.yaml" in found.said


def test_a_line_of_a_hundred_megabytes_is_cut_and_the_next_ones_are_read(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    with path.open("wb") as file:
        file.write(lines(b"needle", b"needle needle")[:-1])
        file.truncate(100_000_000)  # NUL bytes, and no line end
        file.seek(0, 2)
        file.write(b"\n2025-06-01T00:01:00Z needle\n")

    found = ran(tmp_path, path, NEEDLE)

    assert found.hits == {"BAD-1111": 3}
    assert found.report["bytes"] > 100_000_000
    evidence = found.report["findings"][0]["evidence"]
    assert max(len(each["text"]) for each in evidence) <= 5000
    assert found.report["streams"][0]["cut"] == 1


def test_binary_junk_is_read_to_its_end(tmp_path: Path) -> None:
    junk = np.random.default_rng(1).bytes(300_000)

    found = ran(tmp_path, junk + b"\n" + lines(b"needle"), NEEDLE)

    assert found.hits == {"BAD-1111": 1}
    assert found.report["streams"][0]["undecodable"] > 100


def test_broken_utf_8_is_found_and_shown_with_signs_of_damage(tmp_path: Path) -> None:
    found = ran(tmp_path, lines(b"\xff\xfe needle \xc3("), NEEDLE)

    assert found.hits == {"BAD-1111": 1}
    assert "\ufffd" in found.report["findings"][0]["evidence"][0]["text"]
    assert found.report["streams"][0]["undecodable"] == 1


def test_a_clock_that_runs_backwards_loses_no_line(tmp_path: Path) -> None:
    pair = 'sequence: {event: {source: cre.log.x}, window: 5s, order: ["first", "second"]}'
    forward = lines(*(b"first" if n % 2 == 0 else b"second" for n in range(600)))
    backward = b"".join(reversed(forward.splitlines(keepends=True)))

    found = ran(tmp_path, backward, pair, NEEDLE.replace("needle", "first"))

    assert found.hits["BAD-1112"] == 300
    assert found.hits["BAD-1111"] > 0
    assert found.report["streams"][0]["backwards"] > 500


def test_a_rule_that_matches_everything_keeps_few_proofs(tmp_path: Path) -> None:
    everything = 'set: {event: {source: cre.log.x}, match: [{regex: "."}]}'

    found = ran(tmp_path, lines(*[b"word"] * 3000), everything)

    assert found.hits == {"BAD-1111": 3000}
    assert len(found.report["findings"][0]["evidence"]) == 5


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("set: &a {match: [{set: *a}]}", "itself"),
        ("sequence: " + "{window: 1s, order: [{sequence: " * 20 + "x" + "}]}" * 20, "16"),
    ],
    ids=["cycle", "deep"],
)
def test_nodes_inside_themselves_or_too_deep_are_refused(
    tmp_path: Path, rule: str, said: str
) -> None:
    found = ran(tmp_path, lines(b"x"), rule)

    assert found.status in (1, 2)
    assert said in found.said
    assert "rule.yaml" in found.said


def entities(first: int, count: int) -> Sequence[tuple[int, str]]:
    return [(n, f"<A> id={n}") for n in range(first, first + count)]


def test_any_number_of_entities_is_bounded_and_counted() -> None:
    read = (Extract(name="id", kind="regex", text=r"id=(\d+)"),)
    both = tuple(Clause(what=term(letter), extracts=read) for letter in "AB")
    joined = RuleNode(
        kind="sequence", clauses=both, window_ns=10**12, source="s", correlations=("id",)
    )
    plain = RuleNode(
        kind="sequence",
        clauses=(Clause(what=term("A")), Clause(what=term("B"))),
        window_ns=10**12,
        source="s",
    )
    rules = [rule_of(joined), rule_of(plain, "R-0002")]
    engine = RuleEngine(rules, limits=EngineLimits(entities=50, states_per_rule=100))

    for first in range(0, 5000, 50):
        stream = Stream(name="x.log", entity=f"n{first}")
        engine.read(block_of(entities(first, 50), stream, first=first))

    assert engine.counts.evicted_states == (5000 - 100) + (100 - 50)
    assert len(engine.finish()) == 0


def test_any_number_of_series_is_bounded_and_counted() -> None:
    idle = RuleNode(kind="set", clauses=(Clause(what=MetricTerm(expr="gpu_busy_share < 0.3")),))
    engine = RuleEngine([rule_of(idle)], compile_metric=partial(compile_metric, most_series=1000))

    told = 0
    for first in range(0, 5000, 500):
        frame = pl.DataFrame(
            {
                "t_s": np.full(500, 1e9 + first),
                "entity": [f"n{n}/gpu0" for n in range(first, first + 500)],
                "gpu.busy_share": np.where(np.arange(500) % 100 == 0, 0.1, 0.9),
            }
        )
        told += len(engine.sample(frame))

    assert told == 50
    # those of a frame are dropped with the next one
    assert engine.metric_counts[0][1].evicted >= 3500

"""Running and testing rules over files: what is counted, put together, and chosen."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from steward.decide.rules.engine import RuleEngine
from steward.errors import StewardError
from steward.inspection.example_tests import run_examples
from steward.inspection.feeds import LogFeed, PrometheusFeed, TelemetryFeed, feed
from steward.inspection.folders import rule_folders
from steward.inspection.report import HitCollector
from steward.inspection.runner import Listeners, follow_rules, run_rules
from steward.inspection.selection import chosen_rules, own_rules
from steward.inspection.series.curves import curves_of
from steward.model.rules import Hit, Item, LogBlock, Mode, Rule, Stream
from steward.observe.logs import Following, follow_pipe, read_blocks
from steward.store.packages import InstallOptions, PackageRequest, install, pack, packages_folder
from steward.store.rules import parse_rules

SINGLE = """\
rules:
  - cre: {{id: {id}, severity: {severity}, title: t}}
    rule:
      set:
        event: {{source: here}}
        match: ['{word}']
"""
WAITING = """\
rules:
  - cre: {id: WAIT-0001, severity: 2}
    rule:
      set:
        event: {source: here}
        match: ['begin']
        negate:
          - value: 'end'
            window: 1m
            absolute: true
"""
IDLE = """\
rules:
  - cre: {id: IDLE-0001, severity: 3}
    rule:
      set:
        match:
          - promql: {expr: 'gpu_busy_share < 0.1', for: 1m, event: {source: telemetry}}
"""


MERGED = """\
Nov 11 10:00:00 login1 sshd[1]: session opened
Nov 11 10:00:01 gpu02 kernel: it is broken
Nov 11 10:00:02 login1 sshd[1]: session closed
Nov 11 10:00:03 gpu07 kernel: it is broken
plain words: it is broken
"""
SEQUENCE = """\
rules:
  - cre: {id: SEQ-0001, severity: 2}
    rule:
      sequence:
        window: 1m
        event: {source: here}
        order: ['first', 'second']
"""


def single(id_: str = "ONE-0001", *, word: str = "broken", severity: int = 2) -> Rule:
    (only,) = parse_rules(SINGLE.format(id=id_, word=word, severity=severity), file="x.yaml")
    return only


def log_feed(place: Path, text: str, name: str = "a.log") -> LogFeed:
    (place / name).write_text(text, encoding="utf-8")
    return LogFeed(stream=Stream(name=name, entity=name), sources=(place / name,))


def test_findings_are_by_rule_and_entity_worst_first(tmp_path: Path) -> None:
    lines = "2026-01-01 00:00:00 broken\n2026-01-01 00:00:09 broken and late\n"
    feeds = [log_feed(tmp_path, lines, "a.log"), log_feed(tmp_path, lines, "b.log")]
    rules = [single(), single("TWO-0001", word="late", severity=0)]

    report = run_rules(rules, feeds, mode=Mode.STRICT)

    assert [(each.rule.id, each.entity, each.hits) for each in report.findings] == [
        ("TWO-0001", "a.log", 1),
        ("TWO-0001", "b.log", 1),
        ("ONE-0001", "a.log", 2),
        ("ONE-0001", "b.log", 2),
    ]
    assert (report.lines, report.bytes, report.unparsed) == (4, 2 * len(lines), 0)
    assert [each.format for each in report.streams] != ["", ""]
    assert len(report.at_least(rules[1].severity)) == 2


def test_evidence_is_bounded_and_hits_are_not() -> None:
    collector = HitCollector([single()], at_most=2)
    for number in range(50):
        item = Item(t_ns=number, text="x" * 10_000, stream="s", line=number)
        entity = f"n{number % 5}"
        collector.add([Hit(rule="ONE-0001", t_ns=number, fired_ns=0, items=(item,), entity=entity)])

    found = {each.entity: each for each in collector.findings()}

    assert {name: each.hits for name, each in found.items()} == {"n0": 10, "n1": 10, "(others)": 30}
    assert all(len(each.evidence) == 5 for each in found.values())
    assert max(len(proof.text) for each in found.values() for proof in each.evidence) == 2000


def blocks(lines: list[tuple[int, str]], stop: threading.Event) -> Iterator[LogBlock | None]:
    for t_s, text in lines:
        data = text.encode()
        yield LogBlock(
            stream=Stream(name="live"),
            buffer=data,
            start=np.array([0]),
            end=np.array([len(data)]),
            t_ns=np.array([t_s * 10**9]),
            line=np.array([1]),
            joined=np.array([False]),
            timed=np.array([True]),
        )
    yield None
    stop.set()


def test_what_still_waits_when_following_is_stopped_is_no_finding() -> None:
    following, told = Following(), list[Hit]()
    (rule,) = parse_rules(WAITING, file="x.yaml")
    lines = [(1000, "begin one"), (1100, "begin two")]

    report = follow_rules(
        [rule],
        blocks(lines, following.stop),
        mode=Mode.STRICT,
        following=following,
        listeners=Listeners(hit=told.append),
    )

    assert [hit.items[0].text for hit in told] == ["begin one"]
    assert [each.hits for each in report.findings] == [1]


def test_a_pipe_is_followed_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "pipe").write_bytes(b"2026-01-01 00:00:00 broken\n2026-01-01 00:00:01 bro")
    following = Following()

    with (tmp_path / "pipe").open("rb") as pipe:
        found = follow_pipe(pipe, Stream(name="stdin"), following)
        report = follow_rules(
            [single(word="bro")],
            found,
            mode=Mode.STRICT,
            following=following,
            listeners=Listeners(),
        )

    assert [each.hits for each in report.findings] == [2]
    assert (report.lines, report.bytes) == (2, 50)


def test_time_passes_for_terms_that_a_prometheus_answers() -> None:
    engine = RuleEngine([single()], mode=Mode.STRICT)
    feeds = [PrometheusFeed(from_s=1000.0, to_s=2000.0)]
    times: list[object] = []

    assert list(feed(engine, feeds, mode=Mode.STRICT, progress=times.append)) == []
    assert [t // 10**9 for t in times if isinstance(t, int)] == [1000, 1300, 1600, 1900, 2000]


def test_the_series_behind_a_finding_can_be_drawn(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    rows = [f"{1_790_000_000 + i},n01/gpu0,{0.01 if i > 60 else 0.9}" for i in range(1000)]
    file.write_text("t_s,entity,gpu.busy_share\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (rule,) = parse_rules(IDLE, file="x.yaml")
    report = run_rules([rule], [TelemetryFeed(path=file)], mode=Mode.STRICT)

    curves = curves_of(report.findings, [file])

    ((curve,),) = curves.values()
    assert (curve.metric, curve.entity) == ("gpu.busy_share", "n01/gpu0")
    assert curve.to_s - curve.from_s == pytest.approx(60, abs=2)
    assert 50 < len(curve.t_s) <= 302
    assert max(curve.values) == 0.9
    assert min(curve.values) == 0.01


# -- which rules --------------------------------------------------------------------------------


def test_without_paths_our_packs_and_what_was_installed_are_run(tmp_path: Path) -> None:
    folder = tmp_path / "rules" / "one"
    folder.mkdir(parents=True)
    text = SINGLE.format(id="STW-GPU-0001", word="mine", severity=4)
    (folder / "rule.yaml").write_text(text, encoding="utf-8")
    request = PackageRequest(name="site", version="1.0.0", steward="0")
    pack(tmp_path / "rules", tmp_path / "p.tar.gz", request, key=None)
    install(
        tmp_path / "p.tar.gz",
        packages_folder(tmp_path),
        InstallOptions(unsigned=True),
        check=lambda _: None,
    )

    chosen = own_rules(tmp_path)

    by_id = {rule.id: rule for rule in chosen.rules}
    assert len(by_id) >= 60
    assert chosen.packs["STW-GPU-0001"] == "site 1.0.0"
    assert by_id["STW-GPU-0001"].root.clauses[0].what == single(word="mine").root.clauses[0].what
    assert any("is replaced by that of site 1.0.0" in note for note in chosen.notes)


def test_a_rule_that_cannot_be_used_is_left_out_and_said(tmp_path: Path) -> None:
    place = packages_folder(tmp_path) / "site" / "1"
    (place / "rules").mkdir(parents=True)
    (place / "manifest.json").write_bytes(
        b'{"format":1,"name":"site","version":"1.0.0","steward":"0","files":[],"rules":[]}'
    )
    (place / "rules" / "bad.yaml").write_text("rules: [{}]", encoding="utf-8")
    (place.parent / "current").symlink_to("1")

    chosen = own_rules(tmp_path)

    assert len(chosen.rules) >= 60
    assert any(note.startswith("left out: ") and "bad.yaml" in note for note in chosen.notes)


def test_rules_that_are_named_must_be_sound(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("rules: [{}]", encoding="utf-8")

    with pytest.raises(StewardError):
        chosen_rules([tmp_path], store=tmp_path)


# -- testing ------------------------------------------------------------------------------------


def example(place: Path, id_: str, word: str, **files: str) -> None:
    folder = place / id_.lower()
    folder.mkdir()
    text = SINGLE.format(id=id_, word=word, severity=2)
    (folder / "rule.yaml").write_text(text, encoding="utf-8")
    for name, content in files.items():
        (folder / name.replace("__", "-").replace("_", ".")).write_text(content, encoding="utf-8")


def test_rules_are_tested_on_their_own_examples_and_on_those_of_others(tmp_path: Path) -> None:
    example(tmp_path, "GOOD-0001", "alpha", test_log="alpha beta\n", test__fp_log="gamma\n")
    example(tmp_path, "WIDE-0001", "beta", test_log="beta\n", test__fp_log="beta\n")
    example(tmp_path, "DEAF-0001", "delta", test_log="nothing\n")
    example(tmp_path, "BARE-0001", "delta")

    report = run_examples(
        rule_folders(tmp_path, lenient=False), mode=Mode.STRICT, proof_needed=True
    )

    assert (report.rules, report.fired, report.silent_ok) == (4, 2, 1)
    assert {(each.rule, each.why) for each in report.failed} == {
        ("WIDE-0001", "it fires on test-fp, where it must stay silent"),
        ("DEAF-0001", "it does not fire on test"),
        ("DEAF-0001", "it has no example on which it must stay silent (test-fp.log)"),
        ("BARE-0001", "there is no test.log or test.csv on which it must fire"),
        ("BARE-0001", "it has no example on which it must stay silent (test-fp.log)"),
    }
    assert report.cross_rule == (("WIDE-0001", "GOOD-0001", 1),)
    assert not report.passed


def test_a_folder_without_rules_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="there is no rule in it"):
        rule_folders(tmp_path, lenient=False)
    with pytest.raises(StewardError, match="no such folder"):
        rule_folders(tmp_path / "none", lenient=False)


# -- logs of many hosts ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("iso", [False, True], ids=["syslog", "iso"])
def test_each_lines_own_host_is_blamed_in_a_merged_log(
    tmp_path: Path, mode: Mode, *, iso: bool
) -> None:
    text = MERGED.replace("Nov 11 ", "2025-11-11T") if iso else MERGED
    text = re.sub(r"^(2025\S+)", r"\1+00:00", text, flags=re.MULTILINE)
    (tmp_path / "all.log").write_text(text)
    feeds = [LogFeed(stream=Stream(name="all.log", source="here"), sources=(tmp_path / "all.log",))]

    report = run_rules([single()], feeds, mode=mode)

    assert [(each.entity, each.node) for each in report.findings] == [
        ("gpu02", "gpu02"),
        ("gpu07", "gpu07"),
    ]


def test_a_sequence_is_one_of_one_host(tmp_path: Path) -> None:
    lines = [(0, "a", "first"), (1, "b", "second"), (2, "b", "first"), (3, "a", "second")]
    text = "".join(f"Nov 11 10:00:0{at} {host} app[1]: {said}\n" for at, host, said in lines)
    (tmp_path / "all.log").write_text(text)
    rules = parse_rules(SEQUENCE, file="x.yaml")
    feeds = [LogFeed(stream=Stream(name="all.log", source="here"), sources=(tmp_path / "all.log",))]

    (found,) = run_rules(rules, feeds, mode=Mode.STRICT).findings

    assert found.entity == "a"
    assert [each.line for each in found.evidence] == [1, 4]


def test_time_passes_for_a_host_of_which_nothing_more_is_found(tmp_path: Path) -> None:
    lines = ["Nov 11 10:00:00 a app[1]: begin", "Nov 11 10:05:00 b app[1]: begin"]
    rules = parse_rules(WAITING, file="x.yaml")
    engine = RuleEngine(rules)
    hits: list[Hit] = []
    for at, line in enumerate(lines):
        (tmp_path / f"{at}.log").write_text(line + "\n")
        stream = Stream(name="all.log", source="here")
        for block in read_blocks(tmp_path / f"{at}.log", stream=stream):
            hits += engine.read(block)

    assert [hit.entity for hit in hits] == ["a"]
    assert [hit.entity for hit in engine.finish()] == ["b"]


def test_what_a_job_wrote_is_the_jobs_on_the_node_that_its_lines_name(tmp_path: Path) -> None:
    (tmp_path / "slurm-812.out").write_text(MERGED)
    stream = Stream(name="slurm-812.out", source="here", entity="job:812")
    feeds = [LogFeed(stream=stream, sources=(tmp_path / "slurm-812.out",))]

    (found,) = run_rules([single()], feeds, mode=Mode.STRICT).findings

    assert (found.entity, found.node) == ("job:812", "gpu02")

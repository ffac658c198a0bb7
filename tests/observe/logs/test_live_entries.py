"""Followed lines become the entries that reading the same file gives, and rules find the same."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from factories import view
from steward.decide.rules.engine import RuleEngine
from steward.decide.rules.live import RuleRecogniser
from steward.decide.rules.live.log_blocks import SourceNames
from steward.inspection.feeds import LogFeed, feed
from steward.model.event import LogLine
from steward.model.rules import Hit, LogBlock, Mode, Rule, Stream
from steward.observe.collectors.logs.container_logs import ContainerLogs
from steward.observe.collectors.logs.log_files import LogFiles
from steward.observe.logs import Reading, read_blocks
from steward.observe.logs.live_entries import LiveEntries
from steward.store.rules import parse_rules

NOW_S = 1_794_752_357.0  # 2026-11-15
RULES = """\
rules:
  - cre: {id: ONE-0001, severity: 2}
    rule: {set: {event: {source: cre.log.app}, match: [{regex: "broken"}]}}
  - cre: {id: BOTH-0001, severity: 2}
    rule: {set: {event: {source: cre.log.app}, match: [{regex: "Traceback(?s:.)*broken"}]}}
  - cre: {id: SEQ-0001, severity: 2}
    rule: {sequence: {window: 1m, event: {source: cre.log.app}, order: [starts, broken]}}
"""
STAMPS = {
    "iso": "2026-11-14 10:00:{:02d},123 ",
    "rfc3339": "2026-11-14T10:00:{:02d}.5Z ",
    "syslog": "Nov 14 10:00:{:02d} n1 app[1]: ",
    "slurm": "[2026-11-14T10:00:{:02d}.250] ",
    "vllm": "INFO 11-14 10:00:{:02d} ",
    "slashes": "2026/11/14 10:00:{:02d} ",
}
TEXTS = st.sampled_from(["starts", "it is broken", "goes on", "Traceback (most recent call last):"])
ENTRY = st.tuples(TEXTS, st.lists(st.sampled_from(["  File x", "    broken()", "", "\t at y"])))


def rules() -> tuple[Rule, ...]:
    return parse_rules(RULES, file="x.yaml")


def written(stamp: str, entries: list[tuple[str, list[str]]]) -> str:
    lines = []
    for at, (text, more) in enumerate(entries):
        lines += [f"{stamp.format(at % 60)}{text}", *more]
    return "".join(f"{line}\n" for line in lines)


def entries_of(block: LogBlock) -> list[tuple[int, int, str]]:
    texts = [block.text(at).decode() for at in range(len(block))]
    return list(zip(block.line.tolist(), [round(t / 1000) for t in block.t_ns.tolist()], texts))  # noqa: B905


def found(hits: list[Hit]) -> list[tuple[str, tuple[tuple[int, str], ...]]]:
    return sorted((hit.rule, tuple((item.line, item.text) for item in hit.items)) for hit in hits)


def live_lines(file: Path) -> tuple[LogLine, ...]:
    collector = LogFiles(paths=(str(file),), from_start=True, node="n1")
    seen = collector.collect(NOW_S)
    collector.close()
    return LiveEntries(Reading(now_s=NOW_S)).join(seen.lines)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(STAMPS)), st.lists(ENTRY, min_size=1, max_size=12))
def test_live_and_over_a_file_entries_and_findings_are_the_same(
    kind: str, entries: list[tuple[str, list[str]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "app.log"
        file.write_text(written(STAMPS[kind], entries))

        blocks = list(
            read_blocks(file, stream=Stream(name=str(file)), reading=Reading(now_s=NOW_S))
        )
        live = SourceNames().blocks(live_lines(file), NOW_S)

    assert [row for block in live for row in entries_of(block)] == [
        row for block in blocks for row in entries_of(block)
    ]
    results = []
    for given_blocks in (live, blocks):
        engine = RuleEngine(rules())
        hits = [hit for block in given_blocks for hit in engine.read(block)]
        results.append(found(hits + engine.finish()))
    assert results[0] == results[1]


def test_of_a_storm_the_same_is_matched_and_counted_live_and_over_a_file(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    times = [f"2026-11-14 10:00:{at // 100:02d}.{at % 100:02d}0" for at in range(2500)]
    letters = "ghijklmnopqrstuvwxyz"  # lines that differ in letters reach the server
    texts = [f"broken {letters[at % 20]} {letters[at // 20 % 20]}" for at in range(2500)]
    lines = [f"{time} {text}\n" for time, text in zip(times, texts, strict=True)]
    file.write_text("".join(lines))
    stream = Stream(name=str(file), entity="n1")

    over_file = RuleEngine(rules()[:1])
    reading = Reading(now_s=NOW_S, block_bytes=10_000)
    hits = list(feed(over_file, [LogFeed(stream=stream, sources=(file,), reading=reading)],
                     mode=Mode.STRICT))  # fmt: skip
    live = RuleRecogniser(rules()[:1], patience_s=0.0)
    file.write_text("")
    collector = LogFiles(paths=(str(file),), from_start=True, node="n1")
    joined = LiveEntries(Reading(now_s=NOW_S))
    for begin in range(0, 2500, 700):  # as turns bring them
        with file.open("a") as written:
            written.writelines(lines[begin : begin + 700])
        seen = collector.collect(NOW_S)
        (finding,) = live.recognise(
            replace(seen, lines=joined.join(seen.lines)), replace(view(), t_s=NOW_S)
        )
    collector.close()

    assert len(hits) == 3 * 500
    assert over_file.counts.suppressed == live.counts.suppressed == 2500 - 3 * 500
    assert finding.hits == len(hits)


def test_lines_that_are_of_no_file_are_left_as_they_are() -> None:
    lines = [LogLine(t_s=5.0, entity="n1", source="kernel", text="2026-11-14 10:00:00 x")]

    assert LiveEntries().join(lines) == tuple(lines)


def test_a_time_that_lies_ahead_or_counts_from_a_start_is_not_trusted() -> None:
    line = LogLine(t_s=NOW_S, entity="n1", source="/a.log", text="2031-01-01 00:00:00 x", number=1)
    clock = replace(line, source="/b.log", text="10:00:00 x")

    joined = LiveEntries(Reading(now_s=NOW_S)).join([line, clock])

    assert [each.t_s for each in joined] == [NOW_S, NOW_S]


def test_in_a_file_of_several_hosts_each_line_is_its_own_hosts() -> None:
    texts = ["Nov 14 10:00:00 login1 sshd[1]: x", "Nov 14 10:00:01 gpu02 kernel: y"]
    lines = [
        LogLine(t_s=NOW_S, entity="logs", source="/var/log/all.log", text=text, number=at)
        for at, text in enumerate(texts, start=1)
    ]

    alone = LiveEntries(Reading(now_s=NOW_S)).join(lines[:1])
    merged = LiveEntries(Reading(now_s=NOW_S)).join(lines)

    assert [each.entity for each in alone] == ["logs"]
    assert [each.entity for each in merged] == ["login1", "gpu02"]


def docker(at: int, stream: str, text: str) -> str:
    time = f"2026-11-14T10:00:{at:02d}.123456789Z"
    return json.dumps({"log": text, "stream": stream, "time": time})


def cri(at: int, stream: str, text: str) -> str:
    tag = "F" if text.endswith("\n") else "P"
    return f"2026-11-14T10:00:{at:02d}.123456789+00:00 {stream} {tag} {text.rstrip(chr(10))}"


PART = st.tuples(
    st.sampled_from(["stdout", "stderr"]), st.text('ab é"\\', min_size=1), st.booleans()
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([docker, cri]), st.lists(PART, min_size=1, max_size=8))
def test_containers_are_read_the_same_live_and_over_a_file(
    form: Callable[[int, str, str], str], parts: list[tuple[str, str, bool]]
) -> None:
    # Docker leaves a line open only after 16 KiB; CRI marks the last part.
    ends = [ends or form is docker for _, _, ends in parts]
    rows = [
        form(at, stream, text.strip() + "x" + "\n" * end)
        for at, ((stream, text, _), end) in enumerate(zip(parts, ends, strict=True))
    ]
    rows += [form(50, stream, "end\n") for stream in ("stdout", "stderr")]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "0.log"
        file.write_text("".join(f"{row}\n" for row in rows))

        collector = ContainerLogs(paths=(str(file),), from_start=True, node="n1")
        live = collector.collect(NOW_S).lines
        collector.close()
        blocks = list(read_blocks(file, stream=Stream(name="x"), reading=Reading(now_s=NOW_S)))

    over_file = [(text, t_us // 1000) for block in blocks for _, t_us, text in entries_of(block)]
    seen_live = [(line.text, int(line.t_s * 1000)) for line in live]
    assert sorted(over_file) == sorted(seen_live)

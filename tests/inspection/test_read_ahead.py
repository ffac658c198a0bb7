"""Reading ahead in threads changes how fast rules run, and nothing else."""

from __future__ import annotations

import gzip
import os
import tempfile
import threading
from collections.abc import Generator
from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.decide.rules.engine import RuleEngine
from steward.decide.rules.prefiltered_block import PrefilteredBlock
from steward.errors import StewardError
from steward.inspection.feeds import LogFeed, feed, useful_threads
from steward.inspection.read_ahead import ReadAhead
from steward.model.rules import Hit, LogBlock, Mode, Stream
from steward.observe.logs import Reading
from steward.store.rules import parse_rules

ALONE = """
rules:
  - cre: {id: ONE-0001}
    rule: {set: {event: {source: log.a}, match: [alpha]}}
  - cre: {id: SEQ-0001}
    rule:
      sequence:
        window: 20s
        event: {source: log.a}
        order: [alpha, {regex: 'be.a'}, gamma]
        negate: [{value: delta, window: 5s}]
  - cre: {id: SET-0001}
    rule:
      set:
        window: 10s
        event: {source: log.b}
        match: [{value: beta, count: 2}, gamma]
        negate: [{value: alpha, window: 30s, absolute: true}]
"""
JOINS = """
rules:
  - cre: {id: TWO-0001}
    rule:
      sequence:
        window: 15s
        correlations: [id]
        order:
          - set:
              event: {source: log.a, origin: true}
              match: [{value: alpha, extract: [{name: id, regex: 'id=([0-9]+)'}]}]
          - set:
              event: {source: log.b}
              match: [{value: gamma, extract: [{name: id, regex: 'id=([0-9]+)'}]}]
  - cre: {id: NOT-0001}
    rule:
      set:
        window: 10s
        match:
          - set: {event: {source: log.b, origin: true}, match: [beta]}
          - set: {event: {source: log.a}, match: [gamma]}
        negate:
          - set: {event: {source: log.a}, match: [delta]}
            window: 10s
"""
ALL = ALONE + JOINS.replace("\nrules:\n", "")
START_S = 1_767_600_000
WORDS = st.sampled_from(["alpha", "beta", "gamma", "delta", "nothing", "alpha beta gamma"])
LINES = st.lists(st.tuples(st.integers(-8, 12), WORDS, st.integers(0, 2)), max_size=40)
STREAMS = st.lists(st.tuples(st.sampled_from(["log.a", "log.b", "log.c", ""]), LINES), max_size=5)


def written(lines: list[tuple[int, str, int]]) -> bytes:
    """Write lines, each some seconds after or before the last; some have no time."""
    at_s, text = START_S, ""
    for number, (step_s, word, id_) in enumerate(lines):
        at_s += step_s
        stamp = "" if number % 7 == 5 else f"{np.datetime64(at_s, 's')}Z "
        text += f"{stamp}{word} id={id_}\n"
    return text.encode()


def feeds_of(
    place: Path, streams: list[tuple[str, list[tuple[int, str, int]]]], block_bytes: int
) -> list[LogFeed]:
    feeds = []
    for number, (source, lines) in enumerate(streams):
        path = place / f"{number}.log"
        data = written(lines)
        path.write_bytes(gzip.compress(data) if number % 2 else data)
        stream = Stream(name=path.name, source=source, entity=f"n{number % 2}")
        reading = Reading(block_bytes=block_bytes)
        feeds.append(LogFeed(stream=stream, sources=(path,), reading=reading))
    return feeds


@cache
def engine_for(rules: str, mode: Mode) -> RuleEngine:
    return RuleEngine(parse_rules(rules, file="x.yaml"), mode=mode)


def results(
    engine: RuleEngine, feeds: list[LogFeed], *, mode: Mode, threads: int
) -> list[Hit | str]:
    """Return what is found and, where it ends so, the error."""
    found: list[Hit | str] = []
    try:
        for hit in feed(engine, feeds, mode=mode, threads=threads):
            found.append(hit)  # noqa: PERF402 - an error must not take the rest with it
    except StewardError as fault:
        found.append(str(fault))
    return found


def threads_ahead() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("steward-ahead")]


@settings(max_examples=60)
@given(
    streams=STREAMS,
    rules=st.sampled_from([ALONE, JOINS, ALL]),
    mode=st.sampled_from(Mode),
    threads=st.integers(1, 3),
    block_bytes=st.integers(40, 400),
)
def test_threads_find_what_is_found_without_them_in_the_same_order(
    streams: list[tuple[str, list[tuple[int, str, int]]]],
    rules: str,
    mode: Mode,
    threads: int,
    block_bytes: int,
) -> None:
    found, counts, tallies = [], [], []
    with tempfile.TemporaryDirectory() as name:
        for count in (0, threads):
            engine = engine_for(rules, mode).fresh()
            feeds = feeds_of(Path(name), streams, block_bytes)
            found.append(results(engine, feeds, mode=mode, threads=count))
            counts.append(asdict(engine.counts))
            tallies.append([asdict(each.tally) for each in feeds])

    assert found[0] == found[1]
    assert counts[0] == counts[1]
    if not any(isinstance(each, str) for each in found[0]):  # files after an error may be begun
        assert tallies[0] == tallies[1]


def long_log(place: Path, name: str, *, lines: int = 3000) -> LogFeed:
    (place / name).write_bytes(written([(1, "alpha", 0)] * lines))
    stream = Stream(name=name, source="log.a")
    return LogFeed(stream=stream, sources=(place / name,), reading=Reading(block_bytes=2000))


def test_rules_of_the_property_test_do_fire(tmp_path: Path) -> None:
    lines = [(1, word, 1) for word in ("alpha", "beta", "gamma", "nothing", "beta", "beta")]
    streams = [("log.a", lines[:3]), ("log.b", [(0, "nothing", 1), *lines[1:]])]
    engine = engine_for(ALL, Mode.STRICT).fresh()

    found = results(engine, feeds_of(tmp_path, streams, 100), mode=Mode.STRICT, threads=2)

    assert {each if isinstance(each, str) else each.rule for each in found} == {
        "ONE-0001", "SEQ-0001", "SET-0001", "TWO-0001", "NOT-0001"
    }  # fmt: skip


def test_an_error_comes_where_its_stream_does_and_ends_the_threads(tmp_path: Path) -> None:
    feeds = [long_log(tmp_path, name) for name in ("a.log", "b.log", "c.log")]
    (tmp_path / "b.log").write_bytes(b"no time here\n" * 100)
    engine = engine_for(ALONE, Mode.PREQ)

    *hits, error = found = results(engine.fresh(), feeds, mode=Mode.PREQ, threads=2)

    assert {hit.items[0].stream for hit in hits if isinstance(hit, Hit)} == {"a.log"}
    assert "b.log: none of its first" in str(error)
    assert found == results(engine.fresh(), feeds, mode=Mode.PREQ, threads=0)
    assert threads_ahead() == []


@pytest.mark.parametrize("ended_by", [KeyboardInterrupt, GeneratorExit])
def test_whoever_stops_early_ends_the_threads_and_closes_the_files(
    tmp_path: Path, ended_by: type[BaseException]
) -> None:
    feeds = [long_log(tmp_path, name) for name in ("a.log", "b.log", "c.log", "d.log")]
    engine = engine_for(ALONE, Mode.STRICT).fresh()
    hits = feed(engine, feeds, mode=Mode.STRICT, threads=2)
    assert isinstance(hits, Generator)

    assert next(hits).rule == "ONE-0001"
    assert threads_ahead()
    with pytest.raises(ended_by):
        hits.throw(ended_by())

    assert threads_ahead() == []
    open_files = [each.resolve() for each in Path("/proc/self/fd").iterdir()]
    assert [each for each in open_files if each.is_relative_to(tmp_path.resolve())] == []


def block(number: int) -> LogBlock:
    one = np.array([number])
    return LogBlock(
        stream=Stream(name="made"),
        buffer=b"alpha",
        start=np.array([0]),
        end=np.array([5]),
        t_ns=one,
        line=one,
        joined=np.array([False]),
        timed=np.array([True]),
    )


def test_no_more_is_read_ahead_than_there_is_room_for() -> None:
    made: dict[str, int] = {"a": 0, "b": 0}
    prefilter = engine_for(ALONE, Mode.STRICT).fresh().prefilter("log.a")

    def blocks(name: str) -> Generator[LogBlock]:
        for number in range(1000):
            made[name] += 1
            yield block(number)

    with ReadAhead(2, most_bytes=1) as ahead:
        streams = {name: ahead.begin(blocks(name), prefilter) for name in made}
        taken = [int(next(streams["a"]).t_ns[0]) for _ in range(10)]

    assert taken == list(range(10))
    assert made["a"] <= 11
    assert made["b"] <= 1


def test_a_stream_that_rests_goes_on_when_some_of_it_was_taken() -> None:
    prefilter = engine_for(ALONE, Mode.STRICT).fresh().prefilter("log.a")
    room = 10 * prefilter(block(0)).held_bytes

    with ReadAhead(2, most_bytes=room) as ahead:
        streams = [ahead.begin((block(n) for n in range(100)), prefilter) for _ in range(3)]
        lines = [[int(each.line[0]) for each in stream] for stream in streams]

    assert lines == [list(range(100))] * 3


def test_a_fault_while_sifting_comes_out_in_its_place() -> None:
    prefilter = engine_for(ALONE, Mode.STRICT).fresh().prefilter("log.a")

    def failing(one: LogBlock) -> PrefilteredBlock:
        if one.line[0] == 3:
            raise StewardError("the third is bad")
        return prefilter(one)

    with ReadAhead(2) as ahead:
        pieces = ahead.begin((block(n) for n in range(10)), failing)
        taken = [int(next(pieces).line[0]) for _ in range(3)]
        with pytest.raises(StewardError, match="the third is bad"):
            next(pieces)

    assert taken == [0, 1, 2]


def test_threads_are_of_use_for_large_files_and_several_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, small = tmp_path / "large.log", tmp_path / "small.log"
    large.write_bytes(b"x" * 5 * 2**20)
    small.write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)))

    def useful(*names: str) -> int:
        feeds = [LogFeed(stream=Stream(name=n), sources=(tmp_path / n,)) for n in names]
        return useful_threads(feeds)

    assert useful("large.log") == useful("small.log", "large.log") == 8
    assert useful("small.log") == useful("pipe") == useful("missing.log") == useful() == 0
    with large.open("rb") as pipe:
        stdin = LogFeed(stream=Stream(name="stdin"), sources=(pipe,))
        assert useful_threads([stdin]) == 0
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert useful("large.log") == 0

"""Reading ahead in threads or processes changes how fast rules run, and nothing else."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator
from dataclasses import asdict
from functools import cache
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patience import until
from steward.decide.rules.engine import RuleEngine
from steward.decide.rules.prefiltered_block import PrefilteredBlock
from steward.errors import StewardError
from steward.inspection.feeds import (
    LogFeed,
    LogReader,
    feed,
    reader_for,
    useful_threads,
    useful_workers,
)
from steward.inspection.read_ahead import InProcess, ReadAhead
from steward.inspection.scan_worker import Acknowledge, EndOfStream, OpenStream, main
from steward.inspection.worker_pool import WorkerPool
from steward.model.rules import Hit, LogBlock, Mode, Stream, Term
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
    at_s, text = START_S, []
    for number, (step_s, word, id_) in enumerate(lines):
        at_s += step_s
        stamp = "" if number % 7 == 5 else f"{np.datetime64(at_s, 's')}Z "
        text.append(f"{stamp}{word} id={id_}\n")
    return "".join(text).encode()


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
    engine: RuleEngine, feeds: list[LogFeed], *, mode: Mode, reader: LogReader
) -> list[Hit | str]:
    """Return what is found and, where it ends so, the error."""
    found: list[Hit | str] = []
    try:
        for hit in feed(engine, feeds, mode=mode, reader=reader):
            found.append(hit)  # noqa: PERF402 - an error must not take the rest with it
    except StewardError as fault:
        found.append(str(fault))
    return found


def threads_ahead() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("steward-ahead")]


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(2) as workers:
        yield workers


def check_equal(
    streams: list[tuple[str, list[tuple[int, str, int]]]],
    engine: RuleEngine,
    readers: list[LogReader],
    *,
    mode: Mode,
    block_bytes: int,
) -> None:
    """Check that all readers find the same, in the same order, and count the same."""
    found, counts, tallies = [], [], []
    with tempfile.TemporaryDirectory() as name:
        for reader in readers:
            fresh = engine.fresh()
            feeds = feeds_of(Path(name), streams, block_bytes)
            found.append(results(fresh, feeds, mode=mode, reader=reader))
            counts.append(asdict(fresh.counts))
            tallies.append([asdict(each.tally) for each in feeds])

    assert found == [found[0]] * len(readers)
    assert counts == [counts[0]] * len(readers)
    if not any(isinstance(each, str) for each in found[0]):  # files after an error may be begun
        assert tallies == [tallies[0]] * len(readers)


@settings(max_examples=40, deadline=None)
@given(
    streams=STREAMS,
    rules=st.sampled_from([ALONE, JOINS, ALL]),
    mode=st.sampled_from(Mode),
    threads=st.integers(1, 3),
    block_bytes=st.integers(40, 400),
)
def test_threads_and_processes_find_what_is_found_without_them_in_the_same_order(
    pool: WorkerPool,
    streams: list[tuple[str, list[tuple[int, str, int]]]],
    rules: str,
    mode: Mode,
    threads: int,
    block_bytes: int,
) -> None:
    with ReadAhead(threads) as ahead:
        readers: list[LogReader] = [InProcess(), ahead, pool]
        check_equal(streams, engine_for(rules, mode), readers, mode=mode, block_bytes=block_bytes)


def long_log(place: Path, name: str, *, lines: int = 3000) -> LogFeed:
    (place / name).write_bytes(written([(1, "alpha", 0)] * lines))
    stream = Stream(name=name, source="log.a")
    return LogFeed(stream=stream, sources=(place / name,), reading=Reading(block_bytes=2000))


def test_rules_of_the_property_test_do_fire(tmp_path: Path) -> None:
    lines = [(1, word, 1) for word in ("alpha", "beta", "gamma", "nothing", "beta", "beta")]
    streams = [("log.a", lines[:3]), ("log.b", [(0, "nothing", 1), *lines[1:]])]
    engine = engine_for(ALL, Mode.STRICT).fresh()

    found = results(engine, feeds_of(tmp_path, streams, 100), mode=Mode.STRICT, reader=InProcess())

    assert {each if isinstance(each, str) else each.rule for each in found} == {
        "ONE-0001", "SEQ-0001", "SET-0001", "TWO-0001", "NOT-0001"
    }  # fmt: skip


def test_an_error_comes_where_its_stream_does(tmp_path: Path, pool: WorkerPool) -> None:
    feeds = [long_log(tmp_path, name) for name in ("a.log", "b.log", "c.log")]
    (tmp_path / "b.log").write_bytes(b"no time here\n" * 100)
    engine = engine_for(ALONE, Mode.PREQ)

    *hits, error = found = results(engine.fresh(), feeds, mode=Mode.PREQ, reader=InProcess())

    assert {hit.items[0].stream for hit in hits if isinstance(hit, Hit)} == {"a.log"}
    assert "b.log: none of its first" in str(error)
    with ReadAhead(2) as ahead:
        assert found == results(engine.fresh(), feeds, mode=Mode.PREQ, reader=ahead)
    assert found == results(engine.fresh(), feeds, mode=Mode.PREQ, reader=pool)
    assert threads_ahead() == []


def open_below(folder: Path, pid: int | str = "self") -> list[Path]:
    files = [each.resolve() for each in Path(f"/proc/{pid}/fd").iterdir()]
    return [each for each in files if each.is_relative_to(folder.resolve())]


@pytest.mark.parametrize("ended_by", [KeyboardInterrupt, GeneratorExit])
def test_whoever_stops_early_ends_the_threads_and_closes_the_files(
    tmp_path: Path, ended_by: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds = [long_log(tmp_path, name) for name in ("a.log", "b.log", "c.log", "d.log")]
    feeds.append(long_log(tmp_path, "large.log", lines=150_000))  # so that threads are of use
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    engine = engine_for(ALONE, Mode.STRICT).fresh()
    hits = feed(engine, feeds, mode=Mode.STRICT)
    assert isinstance(hits, Generator)

    assert next(hits).rule == "ONE-0001"
    assert threads_ahead()
    with pytest.raises(ended_by):
        hits.throw(ended_by())

    assert threads_ahead() == []
    assert open_below(tmp_path) == []


def test_whoever_stops_early_closes_the_files_of_processes(
    tmp_path: Path, pool: WorkerPool
) -> None:
    feeds = [long_log(tmp_path, name) for name in ("a.log", "b.log", "c.log", "d.log")]
    hits = feed(engine_for(ALONE, Mode.STRICT).fresh(), feeds, mode=Mode.STRICT, reader=pool)
    assert isinstance(hits, Generator)

    assert next(hits).rule == "ONE-0001"
    hits.close()

    until(lambda: not any(open_below(tmp_path, pid) for pid in pool.pids))
    again = results(
        engine_for(ALONE, Mode.STRICT).fresh(), feeds[:1], mode=Mode.STRICT, reader=pool
    )
    assert len(again) == 3000 - 3000 // 7  # lines with a time; the others belong to these


def test_a_process_that_dies_is_an_error_with_the_stream_and_the_reason(tmp_path: Path) -> None:
    feeds = [long_log(tmp_path, name) for name in ("a.log", "b.log")]
    with WorkerPool(1, most_bytes=1) as pool:
        hits = feed(engine_for(ALONE, Mode.STRICT).fresh(), feeds, mode=Mode.STRICT, reader=pool)
        next(hits)
        os.kill(pool.pids[0], signal.SIGKILL)
        with pytest.raises(StewardError, match="ended early, by signal SIGKILL") as error:
            list(hits)
        with pytest.raises(StewardError, match="ended early"):
            list(feed(engine_for(ALONE, Mode.STRICT), feeds, mode=Mode.STRICT, reader=pool))

    assert error.value.where == "a.log"
    assert "--jobs 1" in error.value.hint


HOLDS_A_POOL = """
import sys
from steward.inspection.worker_pool import WorkerPool
with WorkerPool(1) as pool:
    print(pool.pids[0], flush=True)
    sys.stdin.read()
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_process_outlives_a_parent_that_was_killed_or_interrupted(
    number: signal.Signals,
) -> None:
    program = [sys.executable, "-c", HOLDS_A_POOL]
    with subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        process_group=0,
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        os.killpg(parent.pid, number)  # as Ctrl-C does: to the whole foreground group
        parent.communicate()

    until(lambda: not is_running(worker))


@pytest.fixture
def parent_end() -> Iterator[Connection]:
    """A worker's loop in a thread of this process, and the connection to it."""
    ours, theirs = Pipe()
    serving = threading.Thread(target=main, args=[os.dup(theirs.fileno())])
    theirs.close()
    serving.start()
    yield ours
    ours.close()
    serving.join()


def test_a_worker_sends_one_block_and_no_more_than_it_was_granted(
    tmp_path: Path, parent_end: Connection
) -> None:
    terms = (Term(kind="value", text="alpha"),)
    for number in (1, 2):
        log = long_log(tmp_path, f"{number}.log", lines=200)
        request = OpenStream(
            number=number,
            name=log.name,
            files=log.files,
            mode=Mode.STRICT,
            reading=log.reading,
            route=0,
            terms=terms if number == 1 else None,
            most_bytes=1 if number == 1 else 2**20,
        )
        parent_end.send(request)

    replies = [parent_end.recv()]
    while not isinstance(replies[-1][1], EndOfStream):
        replies.append(parent_end.recv())

    assert [number for number, _ in replies[:-1]].count(1) == 1
    assert replies[-1][0] == 2
    (first,) = [piece for number, piece in replies if number == 1]
    parent_end.send(Acknowledge(number=1, held_bytes=first.held_bytes))
    assert parent_end.recv()[0] == 1


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
        assert useful_threads([stdin]) == useful_workers([stdin]) == 0
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert useful("large.log") == 0


def test_processes_are_of_use_for_several_large_files_and_several_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("a.log", 200), ("b.log", 200), ("c.log", 1), ("d.log.gz", 60)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size * 2**20)  # no blocks of the disk
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)))

    def useful(*names: str) -> int:
        feeds = [LogFeed(stream=Stream(name=n), sources=(tmp_path / n,)) for n in names]
        return useful_workers(feeds)

    assert useful("a.log", "b.log", "c.log") == useful("b.log", "d.log.gz") == 2
    assert useful("a.log", "c.log") == useful("d.log.gz") == useful("missing.log") == useful() == 0
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert useful("a.log", "b.log") == 0


def test_jobs_are_the_number_of_processes_and_one_is_the_caller_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds = [long_log(tmp_path, "a.log", lines=10)]

    with reader_for(feeds, jobs=2) as reader:
        assert isinstance(reader, WorkerPool)
        assert len(reader) == 2
    assert isinstance(reader_for(feeds, jobs=1), InProcess)
    assert isinstance(reader_for(feeds), InProcess)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))  # no process can be started
    assert isinstance(reader_for(feeds, jobs=2), InProcess)

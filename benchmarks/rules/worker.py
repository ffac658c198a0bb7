"""One measured run in a process of its own: what it takes and how much memory."""

from __future__ import annotations

import itertools
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

os.environ.setdefault("POLARS_MAX_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import polars as pl

from rules.made_rules import log_rules, metric_rules, terms_of
from steward.decide.rules.engine import RuleEngine
from steward.decide.rules.terms import Prefilter, compile_term
from steward.inspection.feeds import LogFeed, feed
from steward.model.rules import LogBlock, Mode, Stream
from steward.observe.logs import Following, follow, read_blocks
from steward.store.rules import parse_rules

BLOCKS = 12  # of four megabytes
LINES_ONE_BY_ONE = 3000
FOLLOWED_LINES, FOLLOWED_EVERY_S = 300, 0.02
WANTED = """
rules:
  - cre: {id: BENCH-0100}
    rule:
      set:
        event: {source: cre.log.bench}
        match: [bench wants line]
"""


def whole(log: Path, count: int) -> dict[str, float]:
    """Read a log with so many rules, from the file to the findings."""
    rules = log_rules(count)
    began_s = time.process_time()
    engine = RuleEngine(rules, mode=Mode.STRICT)
    engine.fresh().read(next(_blocks(log)))  # compiles
    ready_s = time.process_time() - began_s
    source = LogFeed(stream=Stream(name=log.name), sources=(log,))
    before_mib = _peak_mib()
    began_s = time.process_time()
    hits = sum(1 for _ in feed(engine, [source], mode=Mode.STRICT))
    took_s = time.process_time() - began_s
    return {
        "rules": count,
        "mb_per_s": round(source.tally.bytes / took_s / 1e6, 1),
        "lines_per_s": round(source.tally.lines / took_s),
        "hits": hits,
        "unparsed": source.tally.unparsed,
        "ready_s": round(ready_s, 3),
        "peak_mib": round(_peak_mib()),
        "peak_before_mib": round(before_mib),
    }


def parts(log: Path, count: int) -> dict[str, float]:
    """Measure reading lines and looking for terms apart, over the first blocks of a log."""
    terms = list(dict.fromkeys(terms_of(log_rules(count))))
    began_s = time.process_time()
    prefilter = Prefilter(terms)
    compile_s = time.process_time() - began_s
    prefilter.find(next(_blocks(log)))
    marks_s, found, size = [time.process_time()], 0, 0
    for block in itertools.islice(_blocks(log), BLOCKS):
        marks_s.append(time.process_time())
        found += len(prefilter.find(block))
        marks_s.append(time.process_time())
        size += int((block.end - block.start).sum())
    took_s = [after - before for before, after in itertools.pairwise(marks_s)]
    return {
        "terms": len(terms),
        "unfiltered": len(prefilter.unfiltered),
        "compile_s": round(compile_s, 3),
        "read_mb_per_s": round(size / sum(took_s[::2]) / 1e6, 1),
        "prefilter_mb_per_s": round(size / sum(took_s[1::2]) / 1e6, 1),
        "found": found,
    }


def one_by_one(log: Path, count: int) -> dict[str, float]:
    """Try each term on each line, which is how preq does it; transcribed by us, it is not preq."""
    tests = [compile_term(term) for term in dict.fromkeys(terms_of(log_rules(count)))]
    block = next(_blocks(log))
    lines = [block.text(entry) for entry in range(min(len(block), LINES_ONE_BY_ONE))]
    began_s = time.process_time()
    found = sum(test(line) for line in lines for test in tests)
    took_s = time.process_time() - began_s
    return {
        "mb_per_s": round(sum(map(len, lines)) / took_s / 1e6, 3),
        "lines_per_s": round(len(lines) / took_s),
        "found": found,
    }


def series(_log: Path, gpus: int) -> dict[str, float]:
    """Give the engine the series of so many GPUs, ten seconds apart, in frames of ten minutes."""
    rules = metric_rules()
    engine = RuleEngine(rules, mode=Mode.STRICT)
    wanted = sorted(engine.needed_metrics)
    frames = [_frame(wanted, gpus, turn) for turn in range(6)]
    engine.sample(frames[0])  # compiles
    began_s = time.process_time()
    hits = sum(len(engine.sample(frame)) for frame in frames[1:])
    took_s = time.process_time() - began_s
    samples = sum(frame.height for frame in frames[1:]) * len(wanted)
    return {
        "rules": len(rules),
        "metrics": len(wanted),
        "samples": samples,
        "samples_per_s": round(samples / took_s),
        "rows_per_s": round(samples / len(wanted) / took_s),
        "hits": hits,
        "peak_mib": round(_peak_mib()),
    }


def followed(log: Path, count: int) -> dict[str, float]:
    """Write lines that a rule wants to a log that is followed; how long until the match is there?

    The writer is a thread of the same process, so that what it waits for Python counts as well.
    """
    engine = RuleEngine(
        [*log_rules(count), *parse_rules(WANTED, file="wanted.yaml")], mode=Mode.STRICT
    )
    path = log.with_name("followed.log")
    path.write_text("2026-01-05 08:00:00.000 it begins\n", encoding="utf-8")
    following = Following(from_start=True)
    written_s: list[float] = []
    seen_s: list[float] = []

    def write() -> None:
        with path.open("ab", buffering=0) as file:
            for number in range(FOLLOWED_LINES):
                time.sleep(FOLLOWED_EVERY_S)
                line = f"2026-01-05 08:00:{number / 10:06.3f} bench wants line {number}\n"
                written_s.append(time.perf_counter())
                file.write(line.encode())
        time.sleep(1.0)
        following.stop.set()

    writer = threading.Thread(target=write)
    for block in follow([path], following):
        if block is None:
            continue
        hits = sum(each.rule == "BENCH-0100" for each in engine.read(block))
        seen_s += [time.perf_counter()] * hits
        if not writer.ident:  # the first block has compiled everything
            writer.start()
    writer.join()
    if len(seen_s) != len(written_s):
        sys.exit(f"{len(written_s)} lines were written and {len(seen_s)} found")
    waits_ms = 1e3 * (np.array(seen_s) - np.array(written_s))
    return {
        "lines": len(seen_s),
        "p50_ms": round(float(np.percentile(waits_ms, 50)), 2),
        "p99_ms": round(float(np.percentile(waits_ms, 99)), 2),
        "most_ms": round(float(waits_ms.max()), 2),
    }


def _frame(metrics: Sequence[str], gpus: int, turn: int) -> pl.DataFrame:
    dice = np.random.default_rng(turn)
    times = np.repeat(1_767_600_000.0 + 600.0 * turn + 10.0 * np.arange(60), gpus)
    names = [f"n{number // 8:04d}/gpu{number % 8}" for number in range(gpus)]
    return pl.DataFrame(
        {"t_s": times, "entity": names * 60} | {name: dice.random(len(times)) for name in metrics}
    )


def _blocks(log: Path) -> Iterator[LogBlock]:
    return read_blocks(log, mode=Mode.STRICT, stream=Stream(name=log.name))


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    what, path, number = sys.argv[1:]
    runs = {
        "whole": whole,
        "parts": parts,
        "one-by-one": one_by_one,
        "series": series,
        "followed": followed,
    }
    print(json.dumps(runs[what](Path(path), int(number))))

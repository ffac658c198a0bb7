"""Kills a process that writes to the store, at a random moment, and looks at what is left.

The children come from a fork server that has imported the store and done nothing else: a trial
takes a fraction of a second, and no thread of polars is forked.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter

import polars as pl

from steward.model.event import Event
from steward.store.journal import Journal, open_journal
from steward.store.telemetry import Telemetry

__all__ = ["Trial", "journal_trial", "telemetry_trial"]

_START_S = 1_700_000_000.0
_STEP_S = 900.0  # four flushes fill an hour: compaction is under way most of the time
_TRIAL_S = 400 * 3600.0  # apart, so that the hours of two trials never meet
_MAX_ACKNOWLEDGED = 25

_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["steward.store.journal", "steward.store.telemetry", *{"pytest"} & set(sys.modules)]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What one kill did: `lost` of the `acknowledged` numbers, and anything else that is wrong."""

    acknowledged: int
    lost: int
    faults: tuple[str, ...]


def journal_trial(folder: Path, number: int, random_: random.Random) -> Trial:
    """Kill a process that appends to the journal in `folder`; earlier trials may have used it."""
    acknowledged = _killed(_append_for_ever, folder, number, random_)
    with closing(_journal(folder)) as journal:
        entries = journal.read(limit=10**9)
        faults = list(journal.damage())
    if [entry.seq for entry in entries] != list(range(1, len(entries) + 1)):
        faults.append("the numbers of the entries have gaps")
    values = [entry.value for entry in entries]
    events = [value for value in values if isinstance(value, Event)]
    found = [int(event.subject) for event in events if event.source == str(number)]
    return _judged(acknowledged, found, faults)


def telemetry_trial(folder: Path, number: int, random_: random.Random) -> Trial:
    """Kill a process that flushes and compacts telemetry in `folder`."""
    acknowledged = _killed(_flush_for_ever, folder, number, random_)
    with closing(Telemetry(folder, keep_days=10**5)) as telemetry:
        everything = telemetry.read(from_s=0.0, to_s=float("inf"))
        faults = list(telemetry.damage())
    left = [path.name for path in folder.rglob("*") if path.suffix in (".tmp", ".damaged")]
    faults += [f"{name} was left behind" for name in left]
    rows = everything.filter(pl.col("entity") == f"trial-{number}").sort("t_s")
    found = [int(value) for value in rows["number"]] if "number" in rows.columns else []
    return _judged(acknowledged, found, faults)


def _judged(acknowledged: int, found: list[int], faults: list[str]) -> Trial:
    lost = len(set(range(acknowledged)) - set(found))
    if found != list(range(len(found))):
        faults.append(f"read back out of order or twice: {found}")
    return Trial(acknowledged=acknowledged, lost=lost, faults=tuple(faults))


def _journal(folder: Path) -> Journal:
    return open_journal(f"sqlite:///{folder.absolute()}/journal.sqlite3")


def _killed(
    write: Callable[[Path, int, Connection], None],
    folder: Path,
    number: int,
    random_: random.Random,
) -> int:
    """Let a child write until a random moment, kill it, return how many it was told are safe."""
    receiving, sending = _CONTEXT.Pipe(duplex=False)
    child = _CONTEXT.Process(target=write, args=(folder, number, sending), daemon=True)
    child.start()
    sending.close()
    acknowledged = 0
    with receiving, suppress(EOFError):
        receiving.recv()  # it is about to open the store
        for _ in range(random_.randrange(_MAX_ACKNOWLEDGED)):
            acknowledged = receiving.recv()
        _spin(random_.expovariate(1 / 0.003))
        child.kill()
        while True:  # what it had acknowledged before it died
            acknowledged = receiving.recv()
    child.join()
    child.close()
    return acknowledged


def _spin(seconds: float) -> None:
    """Pass a time too short to sleep: kills should fall anywhere between two steps."""
    end_s = perf_counter() + seconds
    while perf_counter() < end_s:
        pass


def _append_for_ever(folder: Path, number: int, acknowledge: Connection) -> None:
    acknowledge.send(0)
    journal = _journal(folder)
    random_ = random.Random(number)  # noqa: S311 - sizes of batches
    written = 0
    while True:
        size = random_.randint(1, 6)
        journal.append([_event(number, written + i, random_.randint(0, 3000)) for i in range(size)])
        written += size
        acknowledge.send(written)


def _event(number: int, written: int, length: int) -> Event:
    return Event(
        t_s=_START_S + written,
        kind="trial.number",
        subject=str(written),
        text="x" * length,
        source=str(number),
    )


def _flush_for_ever(folder: Path, number: int, acknowledge: Connection) -> None:
    acknowledge.send(0)
    telemetry = Telemetry(folder, keep_days=10**5)
    for written in count():
        t_s = _START_S + number * _TRIAL_S + written * _STEP_S
        row = {"t_s": [t_s], "entity": [f"trial-{number}"], "number": [float(written)]}
        telemetry.append(pl.DataFrame(row))
        telemetry.flush()
        acknowledge.send(written + 1)
        telemetry.upkeep(t_s)

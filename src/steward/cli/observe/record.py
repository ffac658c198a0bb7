"""`steward observe record`: what this machine does, for a while, into a folder."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Config, Json, read_settings
from steward.cli.output import print_json, print_lines, print_note, print_warnings, waiting
from steward.cli.small import let_go_of_code, stay_small
from steward.cli.words import moment, number, seconds, span
from steward.errors import StewardError, unknown_name

if TYPE_CHECKING:
    from steward.config import Settings
    from steward.model.event import Observation
    from steward.observe.record import Recorded
    from steward.observe.watch import Watch
    from steward.ports import Collector
    from steward.store.recording import Recording

__all__ = ["record"]

FASTEST_S = 0.01
FLUSH_S = 30.0  # a kill costs what came after the last flush, and no more

Length = Annotated[
    str, typer.Option("--for", metavar="TIME", help="How long: 60s, 5min, 2h. Ctrl-C ends it too.")
]
Every = Annotated[
    str, typer.Option("--every", metavar="TIME", help="From one sample to the next: 100ms, 1s.")
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="A folder that is new or empty.")]
Names = Annotated[
    str | None,
    typer.Option(
        "--collectors",
        metavar="A,B",
        help="Which sources; without it, all that work here. `steward doctor` lists them.",
    ),
]


def record(
    *,
    out: Out,
    length: Length = "60s",
    every: Every = "1s",
    collectors: Names = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Record telemetry of this machine into a folder of Parquet files.

    `steward observe query` and `steward observe quality` read such a folder.
    """
    stay_small()
    from steward.clock import WallClock
    from steward.observe.record import record as keep_recording
    from steward.observe.watch import Watch
    from steward.store.recording import Recording

    for_s, every_s = seconds(length, where="--for"), seconds(every, where="--every")
    if not for_s:
        raise StewardError("nothing can be recorded in no time", where="--for", hint="say 60s")
    if every_s < FASTEST_S:
        hint = "sources change no faster; 100ms is the shortest that all of them follow"
        raise StewardError(f"{every} is less than 10 ms", where="--every", hint=hint)
    chosen, left_out = _collectors(read_settings(config, None), collectors)
    _check_empty(out)
    for why in left_out:
        print_note(why)
    recording = Recording(out, flush_every_s=FLUSH_S)
    recording.limit_memory(let_go_of_code)
    recording.about.update(_about(chosen, every_s))
    watch = Watch(chosen, sample_every_s=every_s)
    clock = WallClock()

    def keep(seen: Observation) -> None:
        recording.keep(seen)
        recording.upkeep(clock.now_s())
        let_go_of_code()  # the next look is half a minute away

    try:
        with _until_told() as stop, waiting(f"recording for {span(for_s)} into {out}"):
            done = keep_recording(watch, keep, clock=clock, for_s=for_s, stop=stop)
    finally:
        _close(recording)
    _report(done, watch, out, as_json=as_json)
    print_warnings(recording.damage())


def _close(recording: Recording) -> None:
    try:
        recording.close()
    except StewardError as fault:  # it says that nothing is lost, which ends here
        why = fault.__cause__ if isinstance(fault.__cause__, OSError) else fault.problem
        raise StewardError(
            f"what came after the last flush could not be written and is lost: {why}",
            where=fault.where,
            hint="make room and record again; what was written before can be read",
        ) from fault


def _check_empty(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StewardError(
            "there is something there already",
            where=str(out),
            hint="name a folder that is new or empty: two recordings in one would be nobody's",
        )


def _collectors(settings: Settings, names: str | None) -> tuple[list[Collector], list[str]]:
    """Make those that were asked for, or all that work here; say why others were left out."""
    from steward.config.plugs import own_options
    from steward.observe.collectors import COLLECTORS
    from steward.registry import known, resolve

    there = known("collector", COLLECTORS)
    asked = [name.strip() for name in (names or "").split(",") if name.strip()] or list(there)
    for name in asked:
        if name not in there:
            raise unknown_name("collector", name, there, where="--collectors")
    made: list[Collector] = []
    left_out = []
    for name in dict.fromkeys(asked):
        options = own_options("collector", name, settings.plugs.get(name, {}))
        collector = resolve("collector", name, COLLECTORS)(**options)
        state = collector.available()
        if state.status != "missing":
            made.append(collector)
        else:
            left_out.append(f"{name} is left out: {state.reason}")
    if not made:
        raise StewardError(
            "nothing can be read here: " + "; ".join(left_out),
            where="--collectors",
            hint="`steward doctor` says what would help",
        )
    return made, left_out if names else []


def _about(collectors: Sequence[Collector], every_s: float) -> dict[str, Any]:
    from steward import __version__
    from steward.clients.host import hostname

    sources = {}
    for each in collectors:
        state = each.available()
        sources[each.name] = {"status": state.status, "reason": state.reason}
    return {
        "node": hostname(),
        "every_s": every_s,
        "collectors": sources,
        "steward": __version__,
    }


@contextmanager
def _until_told() -> Iterator[threading.Event]:
    """Turn Ctrl-C and a polite kill into an early end: what was recorded is kept."""
    stop = threading.Event()
    before = {
        each: signal.signal(each, lambda *_: stop.set()) for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _report(done: Recorded, watch: Watch, out: Path, *, as_json: bool) -> None:
    pace = {
        name: {
            "ticks": stats.ticks,
            "missed": stats.missed,
            "failed": stats.failed,
            "dropped": stats.dropped,
        }
        for name, stats in watch.pace.items()
    }
    faults = sorted({f"{fault.where}: {fault.problem}" for fault in done.faults})
    if as_json:
        print_json(
            {
                "out": str(out),
                "from_s": done.from_s,
                "to_s": done.to_s,
                "rows": done.rows,
                "samples": done.samples,
                "columns": watch.columns,
                "events": len(done.events),
                "pace": pace,
                "faults": faults,
            }
        )
        return
    lines = [
        f"recorded {number(done.samples)} samples in {number(done.rows)} rows",
        f"  from {moment(done.from_s)} to {moment(done.to_s)}",
        *(f"  {name}: {_kept_pace(each)}" for name, each in pace.items()),
        *(f"  {event.kind}: {event.subject}: {event.text}" for event in done.events[:10]),
        f"  look at it: steward observe quality {out}",
    ]
    print_lines(lines)
    print_warnings(faults)


def _kept_pace(pace: Mapping[str, int]) -> str:
    """Say how the pace was kept; ticks that were given up are rare, and named where they are."""
    shown = {name: n for name, n in pace.items() if n or name != "dropped"}
    return ", ".join(f"{n} {name}" for name, n in shown.items())

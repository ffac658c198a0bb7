"""`steward health checkpoints`: how often a job should save."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, waiting
from steward.errors import StewardError

__all__ = ["checkpoints"]

_HOUR_S = 3600.0

Gpus = Annotated[int, typer.Option("--gpus", "-G", min=1, help="GPUs of the job.")]
Save = Annotated[float, typer.Option("--save", metavar="SECONDS", help="Training stands still.")]
Restart = Annotated[
    float, typer.Option("--restart", metavar="SECONDS", help="From its start to a new step.")
]
Down = Annotated[
    float, typer.Option("--down", metavar="SECONDS", help="Until there is a place to start.")
]
Durable = Annotated[
    float, typer.Option("--durable", metavar="SECONDS", help="In the background, until it counts.")
]
Mtbf = Annotated[
    float | None, typer.Option("--mtbf", metavar="GPU-HOURS", help="Per GPU between failures.")
]
Failures = Annotated[
    int | None, typer.Option("--failures", min=0, help="With --gpu-hours: seen in so many.")
]
GpuHours = Annotated[
    float | None, typer.Option("--gpu-hours", metavar="HOURS", help="In which --failures came.")
]
Events = Annotated[
    Path | None, typer.Option("--events", metavar="FILE", help="A history of failures.")
]
Logs = Annotated[
    list[Path] | None,
    typer.Option("--log", metavar="PATH", help="Kernel logs; with --fleet. Can be given again."),
]
Fleet = Annotated[int | None, typer.Option("--fleet", min=1, help="GPUs that the logs are of.")]
Shape = Annotated[
    float, typer.Option("--shape", help="Of Weibull lives: below 1, failures come in bursts.")
]
Plain = Annotated[bool, typer.Option("--plain", help="Print the seconds only, for scripts.")]


def checkpoints(  # noqa: PLR0913 - options of a command
    *,
    gpus: Gpus,
    save: Save = 30.0,
    restart: Restart = 300.0,
    down: Down = 0.0,
    durable: Durable = 0.0,
    mtbf: Mtbf = None,
    failures: Failures = None,
    gpu_hours: GpuHours = None,
    events: Events = None,
    log: Logs = None,
    fleet: Fleet = None,
    shape: Shape = 1.0,
    plain: Plain = False,
    as_json: Json = False,
) -> None:
    """Say how often a job should save so that most of its time is kept work.

    STEWARD_SAVE_EVERY_S hands the seconds to trainings that use `steward.training`.
    """
    from steward.decide.health.checkpoint_intervals import SaveCosts, best_interval

    with waiting("counting"):
        count, hours, basis = _rate(mtbf, (failures, gpu_hours), events, (log, fleet))
        costs = SaveCosts(save_s=save, restart_s=restart, down_s=down, durable_s=durable)
        found = best_interval(costs, failures=count, gpu_hours=hours, gpus=gpus, shape=shape)
    if plain:
        print_lines([f"{found.every_s:.0f}"])
    elif as_json:
        print_json({"gpus": gpus, "basis": basis, "failures": count, "gpu_hours": hours}
                   | {name: getattr(found, name) for name in found.__slots__})  # fmt: skip
    else:
        print_lines(_lines(found, gpus, basis))


def _rate(
    mtbf: float | None,
    seen: tuple[int | None, float | None],
    events: Path | None,
    logs: tuple[list[Path] | None, int | None],
) -> tuple[int, float, str]:
    """Return failures, the GPU-hours that they came in, and from where that is."""
    failures, gpu_hours = seen
    given = [mtbf is not None, failures is not None, events is not None, bool(logs[0])]
    if sum(given) != 1 or (failures is None) != (gpu_hours is None):
        raise StewardError(
            "how often GPUs fail has to be known from one source",
            where="steward health checkpoints",
            hint="--mtbf, --failures with --gpu-hours, --events, or --log with --fleet",
        )
    if mtbf is not None:
        # As sure as a thousand failures: a given rate is taken at its word.
        return 1000, 1000.5 * mtbf, f"one failure in {mtbf:,.0f} GPU-hours, as given"
    if failures is not None and gpu_hours is not None:
        return failures, gpu_hours, f"{failures:,} failures in {gpu_hours:,.0f} GPU-hours, as given"
    return _of_events(events) if events is not None else _of_logs(logs)


def _of_events(events: Path) -> tuple[int, float, str]:
    from steward.learn.failures import read_history

    history = read_history(events)
    hours = float(history.exposure_s(float("-inf"), float("inf")).sum()) / _HOUR_S
    count = len(history.event_s)
    return count, hours, f"{count:,} failures in {hours:,.0f} hours of {history.basis}"


def _of_logs(logs: tuple[list[Path] | None, int | None]) -> tuple[int, float, str]:
    from steward.health.exposure import window_of
    from steward.health.scan import log_files, scan
    from steward.observe.accounting import Accounts

    paths, fleet = logs
    if fleet is None:
        raise StewardError("of how many GPUs these logs are is not known", where="--log",
                           hint="give --fleet")  # fmt: skip
    found = scan(log_files(paths or ()), now_s=time.time())
    begin_s, end_s = window_of(found.episodes, Accounts())
    hours = fleet * (end_s - begin_s) / _HOUR_S
    if not hours > 0:
        raise StewardError("these logs span no time", where="--log", hint="give --failures")
    count = len(found.fatal)
    return count, hours, f"{count:,} fatal faults in {hours:,.0f} GPU-hours of logs"


def _lines(found: Any, gpus: int, basis: str) -> list[str]:  # noqa: ANN401 - imported late
    from steward.health.page import percent

    life, low, high = (
        x / _HOUR_S for x in (found.mean_life_s, found.life_s.low, found.life_s.high)
    )
    return [
        (
            f"save every {found.every_s:,.0f} s "
            f"({found.flat[0]:,.0f} to {found.flat[1]:,.0f} s are as good within 0.1 %)"
        ),
        f"  useful time {percent(found.useful)}",
        f"  {gpus:,} GPUs are interrupted every {life:,.1f} h ({low:,.1f} to {high:,.1f}); {basis}",
        (
            f"  Young: {found.young_s:,.0f} s, {found.young_useful:.2%}; "
            f"Daly: {found.daly_s:,.0f} s, {found.daly_useful:.2%}"
        ),
        f"  export STEWARD_SAVE_EVERY_S={found.every_s:.0f}",
    ]

"""`steward estimate job`: run time, wait and number of GPUs of a job, from those before it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.estimate.live_queue import job_history, read_cluster
from steward.cli.options import Config, Data, Json, read_settings
from steward.cli.output import print_json, print_note, print_table, print_warnings
from steward.cli.words import number, seconds, span
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.decide.scheduling.queue_wait import StartForecast
    from steward.learn.gpu_scaling import GpuAdvice
    from steward.model.forecast import Forecast

__all__ = [
    "Gpus",
    "History",
    "Name",
    "Recommend",
    "Script",
    "Tenant",
    "TimeLimit",
    "User",
    "Wait",
    "Worth",
    "job",
]

Gpus = Annotated[int, typer.Option("--gpus", min=0, help="How many GPUs it asks for.")]
Tenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Whose job it is.")]
User = Annotated[str, typer.Option("--user", metavar="NAME", help="Who submits it.")]
Name = Annotated[
    str,
    typer.Option("--name", metavar="NAME", help="The job's name; numbers in it do not count."),
]
TimeLimit = Annotated[
    str | None, typer.Option("--time", metavar="TIME", help="Its time limit, as 2h or 90min.")
]
Script = Annotated[
    Path | None,
    typer.Option("--script", metavar="FILE", help="What it runs: similar scripts tell more."),
]
History = Annotated[
    str | None,
    typer.Option(
        "--history",
        metavar="FILE",
        help="Learn from this sacct dump, CSV or trace instead of a running steward.",
    ),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Also when it would start in the queue of a running steward.")
]
Recommend = Annotated[
    bool, typer.Option("--recommend", help="Also how many GPUs are worth it, by earlier runs.")
]
Worth = Annotated[
    float,
    typer.Option(
        "--worth", metavar="SHARE", help="What another GPU has to give, of what the first one does."
    ),
]


def job(  # noqa: PLR0913 - options of a command
    *,
    gpus: Gpus,
    tenant: Tenant = "",
    user: User = "",
    name: Name = "",
    limit: TimeLimit = None,
    script: Script = None,
    history: History = None,
    wait: Wait = False,
    recommend: Recommend = False,
    worth: Worth = 0.5,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Estimate how long a job will run, from jobs that steward has seen end or that a file lists.

    What a running steward has learned is read as it was last saved, at most ten minutes ago.
    `--wait` and `--recommend` need `job-history` in learn.estimators, or `--history`.
    """
    from steward.model.identity import TenantId
    from steward.model.job import JobRequest, JobShape

    if data is not None and not data.is_dir():
        raise StewardError(
            "there is no such folder", where=str(data), hint="`steward up` makes one and learns"
        )
    request = JobRequest(
        shape=JobShape(gpus=gpus),
        tenant=TenantId(tenant),
        user=user,
        name=name,
        time_limit_s=None if limit is None else seconds(limit, where="--time"),
        script="" if script is None else _read(script),
    )
    estimators, names = _estimators(config, data, history)
    found = [each for estimator in estimators for each in estimator.estimate(request)]
    starts = advice = None
    if wait:
        from steward.service.start_times import start_time_of

        known = job_history(estimators, needed_by="--wait")
        cluster = read_cluster(read_settings(config, data).socket_path)
        starts = start_time_of(request, cluster, known)
    if recommend:
        known = job_history(estimators, needed_by="--recommend")
        advice = known.recommend(request, worth=worth)
    if as_json:
        print_json(_record(found, starts, advice, plain=not (wait or recommend)))
        return
    columns = ("quantity", "low", "likely", "high", "based on")
    empty = f"no job of {gpus} GPUs has ended where steward saw it" if names else _NONE
    print_table(columns, [_row(each) for each in found], empty=empty)
    if found:
        print_note(
            "four of five such jobs are between low and high, where enough of them have ended"
        )
    if starts is not None:
        print_note(_start_text(starts, gpus))
    if advice is not None:
        print_note(_advice_text(advice))


def _estimators(
    config: Path | None, data: Path | None, history: str | None
) -> tuple[tuple[Any, ...], bool]:
    """Return what answers, and whether any of it learns run times."""
    if history is None:
        from steward.config.assemble import learned_estimators

        found, discarded = learned_estimators(read_settings(config, data))
        print_warnings(discarded)
        return found, any(each.name in {"similar-jobs", "job-history"} for each in found)
    from steward.learn.estimators.job_history import JobHistory
    from steward.sim.traces import read_trace

    trace, made = read_trace(history), JobHistory()
    made.learn_trace(trace)
    for fault in trace.faults:
        print_note(f"{fault.rows} rows {'kept' if fault.kept else 'left out'}: {fault.reason}")
    return (made,), True


def _read(script: Path) -> str:
    try:
        return script.read_text(encoding="utf-8", errors="replace")
    except OSError as fault:
        why = (fault.strerror or type(fault).__name__).lower()
        raise StewardError(
            f"it cannot be read: {why}", where=str(script), hint="name the file of a script"
        ) from fault


def _record(
    found: list[Forecast],
    starts: StartForecast | None,
    advice: GpuAdvice | None,
    *,
    plain: bool,
) -> Any:  # noqa: ANN401 - JSON
    """Return the list of forecasts alone, as ever, unless more was asked for."""
    if plain:
        return found
    return {"forecasts": found, "starts": starts, "gpus": advice}


def _start_text(starts: StartForecast, gpus: int) -> str:
    if starts.never:
        return f"it would never start: there are not {gpus} GPUs"
    if starts.now_share >= 0.999:
        return "it would start at once"
    between = f"{span(starts.low_s)} to {span(starts.high_s)}"
    at_once = f"; at once in {starts.now_share:.0%}" if starts.now_share > 0.0 else ""
    return (
        f"it would start in {span(starts.mid_s)}, in nine of ten cases in {between}{at_once} "
        "(by GPUs that are free; what is submitted later may pass it)"
    )


def _advice_text(advice: GpuAdvice) -> str:
    if advice.gpus is None:
        return f"no number of GPUs is recommended: {advice.why}"
    between = f" ({advice.low} to {advice.high})" if advice.low != advice.high else ""
    plural = "s" * (advice.gpus != 1)
    return f"recommended: {advice.gpus} GPU{plural}{between}: {advice.why}"


def _row(each: Forecast) -> tuple[str, ...]:
    write = span if each.quantity.endswith("_s") else number
    values = (write(value) for value in (each.low, each.mid, each.high))
    return (_NAMES.get(each.quantity, each.quantity), *values, each.basis)


_NONE = (
    "no estimator can tell; those that can are `similar-jobs` and `job-history`: "
    "name one in learn.estimators"
)
_NAMES = {
    "run.left_s": "run time",
    "run.limits_s": "limits (9 of 10)",
    "run.likely_s": "likeliest, half and twice",
}

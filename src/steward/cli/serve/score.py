"""`steward serve score`: how well waits are predicted on a trace with a profile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_table, print_warnings, waiting
from steward.cli.serve.simulate import Instances, KvTokens, Seed

if TYPE_CHECKING:
    from steward.model.serving.instance_type import InstanceType
    from steward.model.serving.requests import RequestTrace

__all__ = ["score"]

Profile = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Measured step times (CSV: model,kind,batch,tokens,context,kv_bytes,s), each model "
        "in it by itself; without it those of an 8B model on one H200.",
    ),
]
AsRecorded = Annotated[
    bool,
    typer.Option("--as-recorded", help="Keep the trace's arrivals instead of drawing bursts."),
]


def score(  # noqa: PLR0913 - a command's options are its parameters
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="A file, folder or name.")],
    *,
    profile: Profile = None,
    instances: Instances = 1,
    kv_tokens: KvTokens = 524_288,
    as_recorded: AsRecorded = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Score the waiting-time estimator on a trace: error of the mean, coverage of the 90 % bound.

    The trace's requests arrive in bursts of 1.5 to 3 times what the instances can serve and in
    rests, 30,000 of them (a shorter trace is repeated), first come, first served. Each wait until
    the first token is predicted as the request arrives, from what was learned until then, with
    step times that are wrong by up to 35 % at the start; nothing is fitted to the trace before.
    Waits under a second that were predicted to be are counted, but not compared.
    """
    from steward.learn.estimators.serving.learned_waits import LearnedWaits
    from steward.sim.serving.simulate import warm_up
    from steward.sim.serving.wait_scores import score_record, score_waits

    found, types = _read(trace, profile, kv_tokens)
    print_warnings(f"{each.reason}: {each.rows}" for each in found.faults)
    with waiting("serving"):
        warm_up()
        scores = [
            score_waits(
                found, kind, LearnedWaits(), instances=instances, seed=seed, in_time=as_recorded
            )
            for kind in types
        ]
    record = score_record(scores)
    if as_json:
        print_json(record)
        return
    _print(record)


def _read(
    trace: str, profile: Path | None, kv_tokens: int
) -> tuple[RequestTrace, tuple[InstanceType, ...]]:
    from steward.learn.step_profiles import instance_types
    from steward.model.serving.instance_type import H200_LLAMA_8B
    from steward.sim.serving.traces import read_requests

    like = replace(H200_LLAMA_8B, kv_tokens=kv_tokens)
    types = instance_types([profile], like) if profile else (like,)
    with waiting("reading requests"):
        return read_requests(trace), types


def _print(record: dict[str, Any]) -> None:
    from steward.cli.words import number

    servers = f"{record['instances']} x {', '.join(record['models'])}"
    counts = f"{number(record['requests'])} requests, {number(record['compared'])} waits compared"
    others = f"{number(record['short'])} short, {number(record['refused'])} refused"
    print_lines([f"{record['trace']} on {servers}: {counts}, {others}", ""])
    rows = [("all, at arrival", record)]
    rows += list(record["by_class"].items())
    rows += [("while they waited", record["while_waiting"])]
    print_table(
        ("requests", "compared", "median error", "within the 90 % bound"),
        [
            (name, number(row["compared"]), _share(row["median_error"]), _share(row["coverage_90"]))
            for name, row in rows
        ],
        empty="there are no requests",
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"

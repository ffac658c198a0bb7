"""`steward estimate campaign`: downsized runs of an application, to learn what it needs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.jobs.engines import Engine
from steward.cli.options import Config, Data, Json, read_settings
from steward.cli.output import print_json, print_note, print_table
from steward.cli.words import number, seconds, span
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.learn.estimators.applications.campaign_log import CampaignLog
    from steward.model.campaign import Campaign

__all__ = ["campaign", "campaigns_folder"]

PLANNED = 10  # runs that a dry run shows


def campaign(  # noqa: PLR0913 - options of a command
    file: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="What may be run, and how.")],
    *,
    engine: Engine = None,
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="TIME", help="Of GPUs or slots, as 2h; not the file's."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the next runs; run none.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Print how far it is; run none.")
    ] = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Run a campaign, or go on with it: small runs chosen by what they tell for what they cost.

    Each run is a job of the engine. Whatever stops this command, the same one goes on: no run is
    repeated and none is lost. Then `steward estimate app` answers for other configurations.
    """
    from dataclasses import replace

    from steward.learn.estimators.applications.campaign_file import read_campaign
    from steward.learn.estimators.applications.campaign_log import CampaignLog

    made = read_campaign(file)
    if budget is not None:
        made = replace(made, budget_s=seconds(budget, where="--budget"))
    log = CampaignLog(campaigns_folder(config, data) / made.name)
    if status:
        _print_status(made, log, "", as_json=as_json)
    elif dry_run:
        _print_plan(made, log, as_json=as_json)
    else:
        why = _run(made, log, engine, config, data)
        _print_status(made, log, why, as_json=as_json)


def campaigns_folder(config: Path | None, data: Path | None) -> Path:
    """Return where campaigns are kept: one folder each."""
    return read_settings(config, data).store.path / "campaigns"


def _run(
    made: Campaign, log: CampaignLog, engine: str | None, config: Path | None, data: Path | None
) -> str:
    from steward.cli.estimate.campaign_engine import JobRunEngine
    from steward.learn.estimators.applications.runner import CampaignRunner

    chosen = JobRunEngine(engine, config, data)
    with log.locked(), _stopped() as stop:
        return CampaignRunner(made, log, chosen, tell=print_note).run(stop)


@contextmanager
def _stopped() -> Iterator[threading.Event]:
    """Set an event on SIGINT and SIGTERM: runs that are under way go on without this command."""
    stop = threading.Event()
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    for each in before:
        signal.signal(each, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _print_plan(made: Campaign, log: CampaignLog, *, as_json: bool) -> None:
    from steward.learn.estimators.applications.runner import planned_ahead

    if log.begun:
        log.begin(made)  # raises where the file was changed
    found = planned_ahead(made, log, most=min(PLANNED, made.most_runs))
    if as_json:
        print_json(found)
        return
    rows = [
        (
            str(i),
            "full" if each.full else "small",
            " ".join(made.argv(each.configuration)),
            number(each.expected_cost),
            each.because,
        )
        for i, each in enumerate(found, len(log.runs) + 1)
    ]
    print_table(
        ("run", "scale", "command", "cost, s", "because"), rows, empty="there is nothing to run"
    )
    if sum(each.finished for each in log.measured()) < 3:
        print_note("costs are relative until three runs have finished")


def _print_status(made: Campaign, log: CampaignLog, why: str, *, as_json: bool) -> None:
    from steward.learn.estimators.applications.runner import learned_application

    record = _record(made, log, why)
    answer = ""
    try:
        application = learned_application(log.folder)
    except StewardError as fault:
        answer = fault.problem
    else:
        record["basis"] = answer = application.basis()
        record["losses"] = dict(application.choices["seconds"].losses)
    if as_json:
        print_json(record)
        return
    rows = [
        (
            str(run["run"]), "full" if run["full"] else "small", run["job"], run["state"],
            "" if run["seconds"] is None else span(run["seconds"]),
            " ".join(f"{name}={value}" for name, value in run["configuration"].items()),
            run["why"],
        )
        for run in record["runs"]
    ]  # fmt: skip
    columns = ("run", "scale", "job", "state", "took", "configuration", "why")
    print_table(columns, rows, empty="no run yet")
    print_note(
        f"{span(record['spent_s'])} of {span(made.budget_s)} used, "
        f"{record['finished']} runs finished, {record['failed']} failed, {record['open']} open"
    )
    for text in (f"over: {why}" if why else "", answer):
        if text:
            print_note(text)


def _record(made: Campaign, log: CampaignLog, why: str) -> dict[str, Any]:
    measured = log.measured()
    runs = [
        {
            "run": run.number,
            "job": run.job,
            "configuration": dict(run.configuration),
            "full": run.full,
            "state": "open" if run.measured is None
            else "finished" if run.measured.finished else "failed",
            "seconds": run.measured.seconds if run.measured else None,
            "memory_bytes": run.measured.memory_bytes if run.measured else None,
            "why": run.measured.why if run.measured else "",
            "because": run.because,
        }
        for run in log.runs.values()
    ]  # fmt: skip
    return {
        "name": made.name,
        "folder": str(log.folder),
        "over": why,
        "spent_s": sum(made.cost(each.configuration, each.seconds) for each in measured),
        "budget_s": made.budget_s,
        "finished": sum(each.finished for each in measured),
        "failed": sum(not each.finished for each in measured),
        "open": len(log.runs) - len(measured),
        "full_runs": sum(each.full for each in measured if each.finished),
        "runs": runs,
    }

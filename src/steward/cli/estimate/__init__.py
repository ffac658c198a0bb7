"""`steward estimate`: what a job will need, before it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from steward.cli.estimate import catalog
from steward.cli.estimate.application import application
from steward.cli.estimate.calibrate import calibrate
from steward.cli.estimate.campaign import campaign
from steward.cli.estimate.greener import greener
from steward.cli.estimate.job import (
    History,
    Name,
    Recommend,
    Script,
    Tenant,
    TimeLimit,
    User,
    Wait,
    Worth,
    job,
)
from steward.cli.estimate.model import model
from steward.cli.estimate.plan import plan
from steward.cli.estimate.score import score
from steward.cli.options import Config, Data, Json
from steward.errors import StewardError

__all__ = ["app", "job"]

app = typer.Typer(
    help="Estimate what a job or a model will need. With --gpus and no command: as `estimate job`.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


@app.callback()
def _root(  # noqa: PLR0913 - options of a command
    context: typer.Context,
    *,
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=0, help="How many GPUs it asks for.")
    ] = None,
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
    if context.invoked_subcommand is not None:
        return
    if gpus is None:
        hint = "`steward estimate --help` shows what is possible"
        commands = "app, campaign, catalog, calibrate, greener, job, model, plan, score"
        raise StewardError(f"missing option '--gpus', or a command: {commands}", hint=hint)
    job(
        gpus=gpus,
        tenant=tenant,
        user=user,
        name=name,
        limit=limit,
        script=script,
        history=history,
        wait=wait,
        recommend=recommend,
        worth=worth,
        config=config,
        data=data,
        as_json=as_json,
    )


app.command(name="app")(application)
app.command(name="campaign")(campaign)
app.command(name="job")(job)
app.command(name="greener")(greener)
app.command(name="model")(model)
app.command(name="plan")(plan)
app.command(name="score")(score)
app.add_typer(catalog.app, name="catalog")
app.command(name="calibrate")(calibrate)

"""`steward estimate`: what a job will need, before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.estimate.calibrate import calibrate
from steward.cli.estimate.model import model
from steward.cli.estimate.score import score
from steward.cli.options import Config, Data, Json, read_settings
from steward.cli.output import print_json, print_note, print_table, print_warnings
from steward.cli.words import number, span
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.model.forecast import Forecast

__all__ = ["app", "job"]

app = typer.Typer(
    help="Estimate what a job or a model will need. With --gpus and no command: as `estimate job`.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

Gpus = Annotated[int, typer.Option("--gpus", min=0, help="How many GPUs it asks for.")]
Tenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Whose job it is.")]
User = Annotated[str, typer.Option("--user", metavar="NAME", help="Who submits it.")]
Name = Annotated[
    str,
    typer.Option("--name", metavar="NAME", help="The job's name; numbers in it do not count."),
]


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
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    if context.invoked_subcommand is not None:
        return
    if gpus is None:
        hint = "`steward estimate --help` shows what is possible"
        raise StewardError(
            "missing option '--gpus', or a command: job, model, score, calibrate", hint=hint
        )
    job(gpus=gpus, tenant=tenant, user=user, name=name, config=config, data=data, as_json=as_json)


def job(  # noqa: PLR0913 - options of a command
    *,
    gpus: Gpus,
    tenant: Tenant = "",
    user: User = "",
    name: Name = "",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Estimate how long a job will run, from jobs of its size that steward has seen end.

    What a running steward has learned is read as it was last saved, at most ten minutes ago.
    """
    from steward.config.assemble import learned_estimators
    from steward.model.identity import TenantId
    from steward.model.job import JobRequest, JobShape

    if data is not None and not data.is_dir():
        raise StewardError(
            "there is no such folder", where=str(data), hint="`steward up` makes one and learns"
        )
    request = JobRequest(shape=JobShape(gpus=gpus), tenant=TenantId(tenant), user=user, name=name)
    estimators, discarded = learned_estimators(read_settings(config, data))
    print_warnings(discarded)
    found = [each for estimator in estimators for each in estimator.estimate(request)]
    if as_json:
        print_json(found)
        return
    columns = ("quantity", "low", "likely", "high", "based on")
    learns = any(estimator.name == "similar-jobs" for estimator in estimators)
    empty = f"no job of {gpus} GPUs has ended where steward saw it" if learns else _NONE
    print_table(columns, [_row(each) for each in found], empty=empty)
    if found:
        print_note(
            "four of five such jobs are between low and high, where enough of them have ended"
        )


def _row(each: Forecast) -> tuple[str, ...]:
    write = span if each.quantity.endswith("_s") else number
    values = (write(value) for value in (each.low, each.mid, each.high))
    return (_NAMES.get(each.quantity, each.quantity), *values, each.basis)


app.command(name="job")(job)
app.command(name="model")(model)
app.command(name="score")(score)
app.command(name="calibrate")(calibrate)

_NONE = "no estimator can tell; one that can is `similar-jobs`: name it in learn.estimators"
_NAMES = {"run.left_s": "run time"}

"""`steward estimate plan`: where a job should run, when, and what it costs there."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from steward.cli.estimate.plan_sources import (
    ApplicationAsked,
    JobLike,
    ModelAsked,
    ScriptsAsked,
    WaySources,
    calibrations,
    hours_ahead,
    read_catalog,
    waits_of_stewards,
)
from steward.cli.options import Config, Data, Json
from steward.cli.output import print_json, print_lines, print_table, print_warnings, waiting

__all__ = ["plan"]

Text = str | None
Texts = list[str] | None
Paths = list[Path] | None


def _option(name: str, value: str, text: str) -> Any:  # noqa: ANN401 - typer's own type
    return typer.Option(f"--{name}", metavar=value, help=text)


def plan(  # noqa: PLR0913 - options of a command
    model: Annotated[
        Text, typer.Argument(metavar="[MODEL]", help="A model, as for `estimate model`.")
    ] = None,
    *,
    run_time: Annotated[
        Texts, _option("run-time", "TIME", "A known run time: 4xA100=2h..5h, cpu=9h, or 2h..5h.")
    ] = None,
    ways: Annotated[Path | None, _option("ways", "FILE", "Ways to run it, as JSON.")] = None,
    like: Annotated[
        Text, _option("like", "NAME", "Run times of jobs of that name that steward saw end.")
    ] = None,
    user: Annotated[str, _option("user", "NAME", "With --like: whose they were.")] = "",
    tenant: Annotated[str, _option("tenant", "NAME", "With --like: of which tenant.")] = "",
    app: Annotated[
        Text, _option("app", "NAME", "An application with a campaign, as for `estimate app`.")
    ] = None,
    parameters: Annotated[
        Texts, _option("set", "NAME=VALUE", "With --app: a parameter; again for each.")
    ] = None,
    gpu: Annotated[
        str,
        _option(
            "gpu",
            "NAME,...",
            "MODEL: only these GPUs. Else the one that --run-time or --like holds for.",
        ),
    ] = "",
    gpus: Annotated[str, _option("gpus", "N,N,...", "Counts of GPUs to consider.")] = "1",
    batch: Annotated[str, _option("batch", "N,N,...", "MODEL: batches of one GPU.")] = "",
    items: Annotated[
        float | None, _option("items", "N", "MODEL: items it goes through, over all epochs.")
    ] = None,
    seq: Annotated[int, typer.Option("--seq", min=1, help="MODEL: tokens of one item.")] = 512,
    size: Annotated[int, typer.Option("--size", min=1, help="MODEL: side of an image.")] = 224,
    mode: Annotated[str, typer.Option("--mode", help="MODEL: train or infer.")] = "train",
    amp: Annotated[bool, typer.Option("--amp/--no-amp", help="MODEL: bfloat16.")] = False,
    opt: Annotated[str, typer.Option("--opt", help="MODEL: the optimizer.")] = "adamw",
    grad_ckpt: Annotated[
        bool, typer.Option("--grad-ckpt", help="MODEL: gradient checkpointing.")
    ] = False,
    across_nodes: Annotated[
        bool, typer.Option("--across-nodes", help="The GPUs may be spread over several nodes.")
    ] = False,
    name: Annotated[str, _option("name", "NAME", "What the job is called.")] = "",
    cores: Annotated[int, typer.Option("--cores", min=1, help="Cores of each node.")] = 1,
    memory: Annotated[Text, _option("memory", "SIZE", "Memory of each node, as 32 GB.")] = None,
    deadline: Annotated[
        Text, _option("deadline", "TIME", "By when it has to end: a time in UTC, or 12h from now.")
    ] = None,
    chance: Annotated[
        float, typer.Option("--chance", help="With which the deadline has to be met.")
    ] = 0.9,
    budget: Annotated[float | None, _option("budget", "USD", "What it may cost at most.")] = None,
    catalog: Annotated[
        Paths, _option("catalog", "FILE", "Catalogues of sites: files or folders.")
    ] = None,
    sites: Annotated[str, _option("sites", "NAME,...", "Only these sites.")] = "",
    wait: Annotated[
        Texts, _option("wait", "PLACE=TIME", "What jobs wait at SITE/QUEUE, as 26h or 1h..4h.")
    ] = None,
    interrupted: Annotated[
        Texts,
        _option("interrupted", "PLACE=TIME", "How long a node of SITE/QUEUE runs until stopped."),
    ] = None,
    carbon: Annotated[
        Path | None, _option("carbon", "FILE", "CSV: region, hour_utc, grams_per_kwh.")
    ] = None,
    later: Annotated[
        bool, typer.Option("--later", help="It may start later, in greener or cheaper hours.")
    ] = False,
    saves: Annotated[
        bool, typer.Option("--saves", help="It saves checkpoints: chains and spot are possible.")
    ] = False,
    save_time: Annotated[
        str, _option("save-time", "TIME", "What a save and restore takes.")
    ] = "60s",
    save_every: Annotated[str, _option("save-every", "TIME", "Time between saves.")] = "15m",
    hour_worth: Annotated[
        float, _option("hour-worth", "USD", "What an hour of waiting for the end counts.")
    ] = 1.0,
    kg_worth: Annotated[float, _option("kg-worth", "USD", "What a kg of CO2 counts.")] = 0.1,
    late_worth: Annotated[
        float, _option("late-worth", "USD", "What ending after the deadline counts.")
    ] = 20.0,
    command: Annotated[
        Text, _option("command", "COMMAND", "What scripts run, as 'python train.py'.")
    ] = None,
    folder: Annotated[str, _option("folder", "DIR", "Scripts: where it runs.")] = "",
    image: Annotated[str, _option("image", "IMAGE", "Scripts: container, for Kubernetes.")] = "",
    account: Annotated[str, _option("account", "NAME", "Scripts: who pays, for Slurm.")] = "",
    scripts: Annotated[
        Path | None, _option("scripts", "DIR", "Write scripts that are ready to run there.")
    ] = None,
    html: Annotated[Path | None, _option("html", "FILE", "Also write the plan as a page.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most so many.")] = 20,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Plan a job over all sites: when it ends, what it costs, and why other places are worse.

    Run times are those of a MODEL (with --batch and --items), of jobs --like it, of an --app, or
    given by hand. Exit status 1: nothing is feasible; then it says what to change.
    """
    from steward.cli.views.plan import plan_lines, plan_record
    from steward.decide.planning.planner import plan as planned
    from steward.model.planning.outlook import Outlook
    from steward.planning.following.submitted import corrected_ways, follow_record
    from steward.planning.page import write_page
    from steward.planning.question import PlanQuestion, outlook_of, request_of, ways_without_queue
    from steward.planning.rows import FRONT_COLUMNS, front_rows

    now_s = time.time()
    question = PlanQuestion(
        name=name or like or app or (model and Path(model).stem) or "job",
        run_times=tuple(run_time or ()),
        gpu=gpu,
        gpus=gpus,
        across_nodes=across_nodes,
        cores=cores,
        memory=memory or "",
        deadline=deadline or "",
        chance=chance,
        budget_usd=budget,
        sites=sites,
        waits=tuple(wait or ()),
        interrupted=tuple(interrupted or ()),
        later=later,
        saves=saves,
        save_time=save_time,
        save_every=save_every,
        usd_per_h=hour_worth,
        usd_per_kg=kg_worth,
        usd_if_late=late_worth,
    )
    to_write = None
    if scripts is not None:
        to_write = ScriptsAsked(
            folder_of_scripts=scripts, command=command, folder=folder, image=image, account=account
        )
        to_write.check()
    options = {"seq": seq, "size": size, "mode": mode, "amp": amp, "opt": opt}
    options["grad_ckpt"] = grad_ckpt
    sources = WaySources(
        file=ways,
        model=model and ModelAsked(model=model, batch=batch, items=items, options=options),
        like=like and JobLike(name=like, user=user, tenant=tenant),
        app=app and ApplicationAsked(name=app, parameters=tuple(parameters or ())),
        config=config,
        data=data,
    )
    known, conflicts = read_catalog(catalog or (), config, data)
    found_ways, said = sources.find(question, known)
    found_ways, corrected, learned = corrected_ways(
        found_ways, question.name, calibrations(config, data)
    )
    request = request_of(question, found_ways, now_s)
    waits, missing = waits_of_stewards(known, request, config, data)
    notes = (*conflicts, *said, *learned, *missing, *ways_without_queue(found_ways, known))
    ahead = hours_ahead(carbon, now_s, known, config, data) or Outlook()
    outlook = outlook_of(question, known, known=replace(ahead, waits=waits))
    with waiting("planning"):
        found = planned(request, known, outlook)
    made = to_write.write(found, known, most=limit) if to_write is not None else ()
    if html is not None:
        write_page(found, html)
    if as_json:
        follow = follow_record(
            request, known, waits=outlook.waits, corrected=corrected, application=app or ""
        )
        print_json(plan_record(found, known, made, notes, follow=follow, most=limit))
    else:
        print_warnings(notes)
        print_table(FRONT_COLUMNS, list(front_rows(found))[:limit], empty="no choice is feasible")
        print_lines(plan_lines(found, made, scripts, most=limit))
    if not found.front:
        raise typer.Exit(1)

"""`steward health report`: rates, effects on jobs, availability and spares, with intervals."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_note, print_warnings, waiting
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.health.history_report import HistoryReport
    from steward.health.report import FleetReport

__all__ = ["report"]

Paths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[PATH]...", help="Kernel logs and whatever else `scan` reads."),
]
AccountFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--accounts",
        metavar="FILE",
        help="Jobs and nodes: `sacct -aP`, `sacctmgr -P show event`, `scontrol show node`, "
        "`kubectl get pods,nodes -A -o json`. Can be given again.",
    ),
]
InventoryFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--inventory",
        metavar="FILE",
        help="Which GPU is where: serial, uuid, node, slot, from, to, part. Can be given again.",
    ),
]
Events = Annotated[
    Path | None,
    typer.Option("--events", metavar="FILE", help="A history of failures, instead of logs."),
]
Gpus = Annotated[
    int | None,
    typer.Option("--gpus", min=1, help="How many GPUs the logs are of, where no file tells."),
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write a page with plots.")
]
Target = Annotated[
    float, typer.Option("--target", help="For how much of the time enough nodes should be up.")
]


def report(  # noqa: PLR0913 - options of a command
    paths: Paths = None,
    *,
    accounts: AccountFiles = None,
    inventory: InventoryFiles = None,
    events: Events = None,
    gpus: Gpus = None,
    target: Target = 0.999,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Show how often what fails, how sure that is, and what it does to jobs and nodes."""
    if events is not None:
        _history(events, out, as_json=as_json)
        return
    if not paths and not accounts:
        raise StewardError(
            "there is nothing to report on",
            where="steward health report",
            hint="name logs, --accounts, or a history of failures by --events",
        )
    from steward.health.report import fleet_report
    from steward.health.scan import log_files, scan
    from steward.observe.accounting import read_accounts
    from steward.observe.faults import read_inventory

    with waiting("reading"):
        known = [each for file in inventory or () for each in read_inventory(file)]
        found = scan(log_files(paths or ()), now_s=time.time(), inventory=known)
        read = read_accounts(accounts or ())
    with waiting("counting"):
        made = fleet_report(found, read, now_s=time.time(), gpus=gpus, target=target)
    print_warnings(found.log.notes)
    if out is not None:
        from steward.documents import write_document
        from steward.health.page import report_page

        write_document(report_page(made, title="health of the fleet"), out)
        print_note(f"written: {out}")
    if as_json:
        print_json(record(made))
    elif out is None:
        print_lines(_lines(made))


def record(made: FleetReport) -> dict[str, object]:
    """Return a report as JSON values."""
    return {
        "window_s": list(made.exposure.window_s),
        "exposure": {
            "gpu_hours": float(made.exposure.hours.sum()),
            "gpus": len(made.exposure.gpus),
            "basis": made.exposure.basis,
        },
        "incidents": len(made.scan.incidents),
        "fatal": None if made.fatal is None else made.fatal,
        "incidents_by_gap_s": {f"{gap:g}": n for gap, n in made.scan.by_gap.items()},
        "codes": made.codes,
        "parts": made.parts,
        "generations": made.batches,
        "propagation": made.edges,
        "ends": made.ends,
        "jobs": made.jobs,
        "availability": made.available,
        "spares": made.spares,
        "checkpoints": made.checkpoints,
        "silences": made.scan.blackouts,
        "notes": made.notes,
    }


def _history(events: Path, out: Path | None, *, as_json: bool) -> None:
    from steward.health.history_report import history_report
    from steward.learn.failures import read_history

    with waiting("reading"):
        made = history_report(read_history(events))
    if out is not None:
        from steward.documents import write_document
        from steward.health.page import history_page

        write_document(history_page(made, title=f"failures in {events.name}"), out)
        print_note(f"written: {out}")
    if as_json:
        print_json(_history_record(made))
    elif out is None:
        print_lines(_history_lines(made))


def _history_record(made: HistoryReport) -> dict[str, Any]:
    survival = made.survival
    step = max(1, len(survival.age) // 500)
    columns = ("age", "share", "low", "high")
    return {
        "basis": made.basis,
        "exposure_h": made.exposure_h,
        "kinds": made.kinds,
        "worst": made.worst,
        "batches": made.batches,
        "survival": {
            "units": survival.units,
            "failures": survival.failures,
            **{f"{name}": getattr(survival, name)[::step].tolist() for name in columns},
        },
        "hazard": [
            {"from_days": low, "to_days": high, "failures": count, "hours": hours, "rate": rate}
            for low, high, count, hours, rate in made.hazard
        ],
    }


def _lines(made: FleetReport) -> list[str]:
    from steward.health.page import interval, percent

    lines = [f"{len(made.scan.incidents):,} incidents; {made.notes[0]}"]
    lines += [
        f"  {each.name}: {each.rate.count:,} on {each.rate.units_with:,} GPUs, per million "
        f"GPU-hours {interval(each.rate.between_units.times(1e6))}"
        + (f", without the {len(each.rate.worst)} worst "
           f"{interval(each.rate.without_worst.times(1e6))}" if each.rate.worst else "")
        for each in made.codes[:20]
    ]  # fmt: skip
    lines += [
        f"  {each.first} -> {each.then} ({each.where}): {percent(each.share)}, "
        f"{each.lift:,.0f} times as often as by chance"
        for each in made.edges[:10]
    ]
    lines += [
        f"  jobs that met {each.kind}: {each.failed:,} of {each.exposed:,} failed within 20 s, "
        f"due to it {percent(each.attributable)}"
        for each in made.jobs[:10]
    ]
    if made.available is not None:
        found = made.available
        lines.append(
            f"  nodes: available {percent(found.available)}, MTTF h {interval(found.mttf_h)}, "
            f"MTTR h {interval(found.mttr_h)}"
        )
    lines += [
        f"  spares, {name}: {plan.spares:,} ({plan.low:,} to {plan.high:,}) for {plan.needed:,}"
        for name, plan in made.spares.items()
    ]
    return lines


def _history_lines(made: HistoryReport) -> list[str]:
    from steward.health.page import interval

    lines = [made.basis, f"  {made.exposure_h:,.0f} hours in service"]
    for name, rate in made.kinds.items():
        lines.append(
            f"  {name}: {rate.count:,} on {rate.units_with:,} units, one in "
            f"{interval(rate.mtbe_h)} h, without the {len(rate.worst)} worst units "
            f"{rate.without_worst_count:,}"
        )
        worst = ", ".join(f"{unit} ({count})" for unit, count in made.worst[name][:5])
        lines.append(f"    worst: {worst}")
    return lines

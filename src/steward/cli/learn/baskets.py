"""`steward learn baskets`: raw telemetry as windows of levels, which all mining starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.learn.progress import byte_progress
from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_note, print_table, print_warnings
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.learn.patterns.from_telemetry import MadeBaskets
    from steward.learn.patterns.sensitivity import WindowSize

__all__ = ["baskets"]

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Wide tables (CSV, also gzipped, or Parquet), folders of them, folders that `steward "
        "observe record` has written, or an object store (s3://bucket/folder/).",
    ),
]
Window = Annotated[str, typer.Option("--window", metavar="S", help="How long, e.g. 5s or 500ms.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write them as Parquet.")]
Sensitivity = Annotated[
    str,
    typer.Option(
        "--sensitivity", metavar="S,S,...", help="Compare with further sizes, e.g. 1s,2s,10s."
    ),
]
Groups = Annotated[
    Path | None,
    typer.Option("--groups", metavar="FILE", help="Your own groups of metrics, as YAML."),
]
Only = Annotated[str, typer.Option("--only", metavar="A,B,...", help="Only these groups.")]
Statistics = Annotated[
    str,
    typer.Option(
        "--statistic",
        metavar="A,B,...",
        help="Of each window: median, spread, slope, periodicity.",
    ),
]
ScopeOf = Annotated[
    str,
    typer.Option(
        "--scope", metavar="S", help="Who shares thresholds: global, hardware, cluster or host."
    ),
]
Hosts = Annotated[
    Path | None,
    typer.Option("--hosts", metavar="FILE", help="YAML: each host's hardware or cluster."),
]
Labels = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="CSV with run and label, or marks as .jsonl."),
]
Label = Annotated[
    str,
    typer.Option("--label", metavar="REGEX", help="Label runs by what this finds in their names."),
]
CutsFrom = Annotated[
    Path | None,
    typer.Option("--cuts-from", metavar="FILE", help="Use the thresholds of these baskets."),
]
KeepConstant = Annotated[
    bool, typer.Option("--keep-constant", help="Keep groups that have one level everywhere.")
]
Processes = Annotated[
    int, typer.Option("--workers", min=0, max=4096, help="Processes at once; 0 is all cores.")
]
Scheduler = Annotated[
    str,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Run on a Dask cluster: tcp://HOST:PORT, or slurm to start workers as Slurm jobs.",
    ),
]
_UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "": 1.0}
_SHOWN = 12


def baskets(  # noqa: PLR0913 - a command's options are its parameters
    paths: Paths,
    *,
    window: Window = "5s",
    out: Out = None,
    sensitivity: Sensitivity = "",
    groups: Groups = None,
    only: Only = "",
    statistic: Statistics = "median",
    scope: ScopeOf = "global",
    hosts: Hosts = None,
    labels: Labels = None,
    label: Label = "",
    cuts_from: CutsFrom = None,
    keep_constant: KeepConstant = False,
    workers: Processes = 1,
    scheduler: Scheduler = "",
    as_json: Json = False,
) -> None:
    """Turn telemetry into baskets: windows as rows, groups of metrics as columns, one level each.

    The same input gives the same bytes on one core, on all cores and on a Dask cluster.
    """
    from steward.batch import Workers, cores
    from steward.learn.patterns.basket_files import write_baskets
    from steward.learn.patterns.from_telemetry import BasketRequest, make_baskets
    from steward.learn.patterns.groups import GROUPS, load_groups

    request = BasketRequest(
        paths=tuple(paths),
        window_s=_seconds(window, "--window"),
        sensitivity_s=tuple(_seconds(each, "--sensitivity") for each in _listed(sensitivity)),
        groups=GROUPS if groups is None else load_groups(groups),
        only=tuple(_listed(only)),
        statistics=tuple(_listed(statistic)),  # type: ignore[arg-type]  # they are checked there
        scope=scope,
        hosts=hosts,
        labels=labels,
        label=label,
        cuts_from=cuts_from,
        keep_constant=keep_constant,
    )
    where = Workers(processes=workers or cores(), scheduler=scheduler)
    with byte_progress("reading") as progress:
        made = make_baskets(request, workers=where, progress=progress)
    if out is not None:
        write_baskets(made.baskets, out, about=made.report)
    if as_json:
        sizes = {"sensitivity": list(made.sizes)} if made.sizes else {}
        print_json({**made.report, **sizes, "out": None if out is None else str(out)})
    else:
        _show(made, out)


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _seconds(text: str, option: str) -> float:
    number = text.strip().lower().rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text.strip().lower()[len(number) :].strip()
    try:
        return float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        hint = "write a number and a unit: 500ms, 5s, 2min"
        raise StewardError(f"'{text}' is no time", where=option, hint=hint) from None


def _show(made: MadeBaskets, out: Path | None) -> None:
    report = made.report
    counts = f"{report['windows']:,} windows of {report['window_s']:g} s from {report['runs']:,}"
    missing = [each["group"] for each in report["groups"] if not each["columns"]]
    there = len(report["groups"]) - len(missing)
    unmapped = report["unmapped"]
    print_lines(
        [
            f"{counts} runs in {report['files']:,} files ({report['rows']:,} rows)",
            f"{there} groups of metrics found; no column for: {', '.join(missing) or 'none'}",
            f"{unmapped['columns']:,} names of columns are in no group{_few([*unmapped['most']])}",
        ]
    )
    print_table(
        ["scope", "group", "levels", "shares", "from", "why"],
        [_cut_row(each) for each in report["cuts"]],
        empty="no group has a value",
    )
    if made.sizes:
        print_lines(["", "by the size of windows"])
        _show_sizes(made.sizes)
    print_warnings(made.notes)
    if report["skipped"]["files"]:
        for path, why in report["skipped"]["first"].items():
            print_warnings([f"left out: {path}: {why}"])
    if out is not None:
        print_note(f"the baskets are in {out}")


def _few(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f": {', '.join(names[:_SHOWN])}{more}"


def _cut_row(each: Mapping[str, Any]) -> list[str]:
    return [
        each["scope"],
        each["group"],
        " ".join(each["levels"]),
        " ".join(f"{share:.0%}" for share in each["shares"]),
        " ".join(f"{bound:.4g}" for bound in each["bounds"]),
        each["why"],
    ]


def _show_sizes(sizes: Sequence[WindowSize]) -> None:
    rows = [
        [
            f"{each.window_s:g} s",
            f"{each.windows:,}",
            f"{each.runs:,}",
            f"{each.distinct:,}",
            f"{each.agreement:.0%}",
            *_worst(each),
        ]
        for each in sizes
    ]
    columns = ["window", "windows", "runs", "different", "same level", "least stable"]
    print_table(columns, rows, empty="")


def _worst(size: WindowSize) -> list[str]:
    known = [(g.agreement, name) for name, g in size.groups.items() if g.agreement == g.agreement]
    return [f"{name} {share:.0%}" for share, name in sorted(known)[:1]]

"""Where a trace is: a file, a folder, or a name in the data folder, and which part of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from steward.errors import StewardError, did_you_mean

__all__ = ["JOB_FILES", "TraceLocation", "data_folder", "files_of", "find", "short_name"]

# The file of a folder that holds its jobs, where a folder holds several tables.
JOB_FILES = (
    "jobs.csv.gz",
    "jobs_physical_cluster.csv.gz",
    "jobs_mix2.csv.gz",
    "jobs_60.csv.gz",
    "workloads.csv.gz",
    "openb_pod_list_default.csv.gz",
    "cluster_log.csv",
    "pai_task_table.csv",
    "cluster_job_log",
)
_PARTS = (".gz", ".csv", ".parquet", ".swf", ".json", ".txt", ".tsv")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLocation:
    """What a path means: `path` is a file or folder; `parts` choose among what is in it."""

    path: Path
    name: str
    parts: tuple[str, ...] = ()  # from `philly/103959`: by position
    picks: dict[str, str] = field(default_factory=dict)  # from `#vc=103959`: by column


def data_folder() -> Path:
    """Return the folder of named traces: `$STEWARD_TRACES`, or `traces` of the test data.

    The test data are in `$STEWARD_DATA`, or beside this checkout.
    """
    if traces := os.environ.get("STEWARD_TRACES"):
        return Path(traces)
    given = os.environ.get("STEWARD_DATA")
    return (Path(given) if given else Path("..", "shared", "data")) / "traces"


def find(path: str | Path) -> TraceLocation:
    """Find what a path, or a name in the data folder, means."""
    plain, _, choice = str(path).partition("#")
    picks = _picks(choice, where=str(path))
    for root in (Path(), data_folder()):
        wanted = root / plain
        parts: tuple[str, ...] = ()
        while not wanted.exists() and wanted.name not in ("", "..") and wanted != root:
            parts, wanted = (wanted.name, *parts), wanted.parent
        if plain and wanted.exists() and wanted not in (Path(), root):
            return _inside(wanted, parts, picks)
    raise _absent(plain)


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder that could hold a table, in order of name."""
    return sorted(
        p for p in folder.iterdir() if p.is_file() and not p.name.lower().startswith("readme")
    )


def short_name(path: Path) -> str:
    """Return a file's name without what says how it is packed.

    >>> short_name(Path("a/openb_pod_list_default.csv.gz"))
    'openb_pod_list_default'
    """
    name = path.name
    while name.endswith(_PARTS):
        name = name[: name.rindex(".")]
    return name or path.name


def _inside(found: Path, parts: tuple[str, ...], picks: dict[str, str]) -> TraceLocation:
    if found.is_file():
        return TraceLocation(
            path=found, name=_joined(short_name(found), parts), parts=parts, picks=picks
        )
    name = _joined(found.resolve().name, parts)
    if parts:
        endings = [p for p in files_of(found) if f"_{short_name(p)}".endswith(f"_{parts[0]}")]
        if len(endings) == 1:
            return TraceLocation(path=endings[0], name=name, parts=parts[1:], picks=picks)
    jobs = next((found / file for file in JOB_FILES if (found / file).is_file()), found)
    return TraceLocation(path=jobs, name=name, parts=parts, picks=picks)


def _joined(name: str, parts: tuple[str, ...]) -> str:
    return "/".join((name, *parts))


def _picks(choice: str, *, where: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in choice.split(",") if pair.strip()]
    wrong = [key for key, equals, _ in pairs if not equals]
    if wrong:
        problem = f"'{wrong[0]}' after '#' is not COLUMN=VALUE"
        raise StewardError(problem, where=where, hint="for example pollux#set=1.0,workload=6")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _absent(plain: str) -> StewardError:
    data = data_folder()
    known = sorted(p.name for p in data.iterdir() if p.is_dir()) if data.is_dir() else []
    problem = f"there is no file, folder or named trace '{plain}'"
    if known:
        hint = (
            did_you_mean(plain.split("/", maxsplit=1)[0], known)
            or f"named traces: {', '.join(known)}"
        )
    else:
        hint = "set STEWARD_TRACES to the folder of your traces to use them by name"
    return StewardError(problem, where=plain, hint=hint)

"""Telemetry is columnar: one row per moment and entity, one column per metric, absent is null.

An entity is a string, a path from the node down: a node (`n01`), a GPU (`n01/gpu3`), a slice of a
GPU (`n01/gpu3/mig0`), a core (`n01/cpu7`), a disk (`n01/disk:sda`), a network card
(`n01/net:eth0`), a port (`n01/ib:mlx5_0:1`), memory of a socket (`n01/numa0`), a file system that
is far away (`n01/mount:/data`), how full any of them is (`n01/fs:/data`); a job (`job:812`), one
job's part of a node (`n01@812`), or of one GPU (`n01/gpu3@812`), which only shared GPUs need.

A name that begins with a slash goes on to the end: `n01/fs:/var/lib` is one step below its node.
What would mean something else in it is quoted as in addresses of the web: `n01/fs:/home/ann%40lab`.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

import polars as pl

from steward.errors import StewardError
from steward.model.identity import GpuId, JobId

__all__ = [
    "ENTITY",
    "OTHER_SCHEMA",
    "T_S",
    "Frame",
    "check_frame",
    "check_other",
    "empty_frame",
    "empty_other",
    "job_entity",
    "path_named",
    "path_part",
    "share_entity",
    "steps_of",
]

Frame = pl.DataFrame
T_S = "t_s"
ENTITY = "entity"
OTHER_SCHEMA = {
    T_S: pl.Float64(),
    ENTITY: pl.String(),
    "metric": pl.String(),
    "value": pl.Float64(),
}
_EMPTY_FRAME = pl.DataFrame(schema={T_S: pl.Float64, ENTITY: pl.String})
_EMPTY_OTHER = pl.DataFrame(schema=OTHER_SCHEMA)
_CALLED_BY_PATH = re.compile(r"/[a-z]+:/")
_MEANS_MORE = re.compile(r"[%@*\x00-\x1f\x7f\ud800-\udfff]")


def empty_frame() -> Frame:
    """Return a frame without rows and without metrics."""
    return _EMPTY_FRAME.clone()  # much cheaper than to make one, and made several times a turn


def empty_other() -> Frame:
    """Return a long table without rows, for metrics that are not in the table."""
    return _EMPTY_OTHER.clone()


def job_entity(job: JobId) -> str:
    """Name the host side of a job (its processes, wherever they run)."""
    return f"job:{job}"


def share_entity(gpu: GpuId, job: JobId) -> str:
    """Name one job's part of a GPU that two jobs share."""
    return f"{gpu}@{job}"


def path_part(kind: str, path: str) -> str:
    """Name a part of a node by a path, whatever is in it.

    >>> path_part("fs", "/var/lib"), path_part("fs", "/home/ann@lab")
    ('fs:/var/lib', 'fs:/home/ann%40lab')
    """
    return f"{kind}:{_MEANS_MORE.sub(_quoted, path)}"


def path_named(text: str) -> str:
    """Return the path that a part is named by."""
    return unquote(text)


def steps_of(entity: str) -> list[str]:
    """Take an entity apart, from its node down; without the job's part of it.

    >>> steps_of("n01/gpu3/mig0"), steps_of("n01/fs:/var/lib")
    (['n01', 'gpu3', 'mig0'], ['n01', 'fs:/var/lib'])
    """
    path = entity.partition("@")[0]
    named = _CALLED_BY_PATH.search(path)
    if named is None:
        return path.split("/")
    return [*path[: named.start()].split("/"), path[named.start() + 1 :]]


def _quoted(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogateescape"))


def check_frame(frame: Frame, *, where: str) -> Frame:
    """Return the frame if its columns have the right types, else say all that is wrong with it."""
    faults = [
        f"column '{name}' is {frame.schema.get(name, 'missing')}, not {kind}"
        for name, kind in ((T_S, pl.Float64), (ENTITY, pl.String))
        if frame.schema.get(name) != kind
    ]
    faults += [
        f"metric '{name}' is {kind}, not Float64"
        for name, kind in frame.schema.items()
        if name not in (T_S, ENTITY) and kind != pl.Float64
    ]
    if faults:
        raise StewardError(
            "; ".join(faults),
            where=where,
            hint=f"a frame has {T_S} (Float64), {ENTITY} (String) and Float64 metrics",
        )
    return frame


def check_other(table: Frame, *, where: str) -> Frame:
    """Return a long table if its columns are the right ones, else say what they should be."""
    if dict(table.schema) != OTHER_SCHEMA:
        right = ", ".join(f"{name} ({kind})" for name, kind in OTHER_SCHEMA.items())
        problem = f"values of other metrics come as {dict(table.schema)}"
        raise StewardError(problem, where=where, hint=f"their table has {right}")
    return table

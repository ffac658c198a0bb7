"""What a file is, by how it begins: a kernel log, or what a tool said of GPUs or nodes."""

from __future__ import annotations

from pathlib import Path

from steward.clients.dcgm_exporter import read_samples
from steward.observe.faults.dcgm_text import DCGM_HEAD, faults_of_dcgm, sightings_of_dcgm
from steward.observe.faults.files import FaultLog, read_faults
from steward.observe.faults.gpu_queries import (
    faults_of_query,
    is_gpu_query,
    read_gpu_query,
    sighting_of_query,
)
from steward.observe.faults.presence import is_presence, read_presence
from steward.observe.logs.sources import Source

__all__ = ["read_source"]

_HEAD_BYTES = 4096


def read_source(
    source: Source, into: FaultLog, *, node: str = "", now_s: float, written_s: float | None = None
) -> None:
    """Add what one file holds to a log, whatever kind it is; streams are kernel logs.

    `written_s` is the time of states that carry none.
    """
    head = _head(source)
    at_s = now_s if written_s is None else written_s
    if isinstance(source, Path) and is_gpu_query(head):
        for each in read_gpu_query(_text(source), where=str(source)):
            into.faults += faults_of_query(each, node or source.name.partition(".")[0])
            into.sightings.append(sighting_of_query(each, node or source.name.partition(".")[0]))
    elif isinstance(source, Path) and DCGM_HEAD in head:
        samples = read_samples(_text(source), str(source))
        host = node or source.name.partition(".")[0]
        into.faults += faults_of_dcgm(samples, node=host, t_s=at_s)
        into.sightings += sightings_of_dcgm(samples, node=host, t_s=at_s)
    elif isinstance(source, Path) and is_presence(head):
        into.answers += read_presence(source)
    else:
        read_faults(source, into, node=node, now_s=at_s)


def _head(source: Source) -> bytes:
    if not isinstance(source, Path):
        return b""
    try:
        with source.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""  # reading the log says why


def _text(file: Path) -> str:
    return file.read_text("utf-8", errors="replace")

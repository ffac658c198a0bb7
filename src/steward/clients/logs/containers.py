"""Reads what containers write, from the files that Docker, containerd and CRI-O keep of it.

Docker writes a JSON object per line, the others `TIME STREAM P|F TEXT`. Both cut long lines into
parts; these are joined again. Kubernetes keeps its files in /var/log/pods.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steward.clients.logs.followed_file import CUT_MARK
from steward.clients.logs.follower import FileFollower, FileLines, ReadProblem
from steward.clients.logs.stamps import iso_s

__all__ = ["PATTERNS", "ContainerFiles", "ContainerLine", "Origin", "origin_of"]

PATTERNS = ("/var/log/pods/*/*/*.log", "/var/lib/docker/containers/*/*-json.log")
_LONGEST = 2**20  # characters of a joined line
_POD = re.compile(r"/(?P<space>[^/_]+)_(?P<pod>[^/_]+)_(?P<uid>[^/_]+)/(?P<container>[^/]+)/[^/]+$")
_DOCKER = re.compile(r"/(?P<id>[0-9a-f]{64})/(?P=id)-json\.log$")
_CRI = re.compile(r"(\S+) (stdout|stderr) ([A-Z:]+) ?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The container that writes a file: a job id, and a display name."""

    job: str  # `pod:UID` or `container:ID`; empty where the path has neither
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLine:
    """One whole line that a container wrote."""

    t_s: float
    origin: Origin
    stderr: bool
    text: str


def origin_of(path: str) -> Origin:
    """Return the container of a file, from its path and, for Docker, from its config file."""
    pod = _POD.search(path)
    if pod:
        name = f"{pod['space']}/{pod['pod']}/{pod['container']}"
        return Origin(job=f"pod:{pod['uid']}", name=name)
    docker = _DOCKER.search(path)
    if docker:
        return _docker_origin(Path(path).parent / "config.v2.json", docker["id"])
    return Origin(job="", name=path)


def _docker_origin(file: Path, container: str) -> Origin:
    try:
        content = json.loads(file.read_bytes())
        name = str(content["Name"]).lstrip("/")
        uid = (content["Config"].get("Labels") or {}).get("io.kubernetes.pod.uid", "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        name, uid = container[:12], ""
    return Origin(job=f"pod:{uid}" if uid else f"container:{container[:12]}", name=name)


class ContainerFiles:
    """All containers' files. `unreadable` counts lines that are in neither of the two forms."""

    def __init__(self, patterns: Sequence[str] = PATTERNS, *, from_start: bool = False) -> None:
        self.unreadable = 0
        self._files = FileFollower(patterns, from_start=from_start)
        self._origins: dict[str, Origin] = {}
        self._begun: dict[tuple[str, str], tuple[str, str]] = {}  # path, stream: time, parts so far

    def positions(self) -> dict[str, Any]:
        """Return how far each file is read, with the beginnings of lines that have no end yet."""
        begun = [[*where, text, stamp] for where, (stamp, text) in self._begun.items()]
        return {**self._files.positions(), "begun": begun}

    def resume(self, positions: Mapping[str, Any]) -> None:
        """Resume where an earlier run stopped."""
        self._files.resume(positions)
        self._begun = {
            (path, stream): (stamp[0] if stamp else "", text)
            for path, stream, text, *stamp in positions.get("begun", ())
        }

    def followed(self) -> int:
        """Return how many files are followed now."""
        return self._files.followed()

    def taken_notes(self) -> list[ReadProblem]:
        """Return the notes since the last call."""
        return self._files.taken_notes()

    def look(self, t_s: float) -> Iterator[list[ContainerLine]]:
        """Yield new lines, some of one file at a time; the caller may stop at any time."""
        self._bound()
        for each in self._files.look(t_s):
            yield list(self._lines(each, t_s))

    def close(self) -> None:
        self._files.close()

    def _lines(self, new: FileLines, now_s: float) -> Iterator[ContainerLine]:
        origin = self._origins.get(new.path)
        if origin is None:
            origin = self._origins[new.path] = origin_of(new.path)
        for raw in new.texts:
            part = _docker_part(raw) if raw[0] == "{" else _cri_part(raw)
            if part is None:
                self.unreadable += 1
                continue
            stamp, stream, text, whole = part
            begun_at, line = self._joined((new.path, stream), (stamp, text), whole=whole)
            if line:
                t_s = iso_s(begun_at)
                yield ContainerLine(
                    t_s=now_s if t_s is None else t_s,
                    origin=origin,
                    stderr=stream == "stderr",
                    text=line,
                )

    def _joined(
        self, where: tuple[str, str], part: tuple[str, str], *, whole: bool
    ) -> tuple[str, str | None]:
        """Return when a line began, and the line if this part ends it; else keep its beginning."""
        stamp, text = part
        stamp, before = self._begun.get(where, (stamp, "")) if self._begun else (stamp, "")
        if len(before) < _LONGEST:
            text = before + text
            if len(text) >= _LONGEST:
                text = text[:_LONGEST] + CUT_MARK
        else:
            text = before
        if whole:
            self._begun.pop(where, None)
            return stamp, text
        self._begun[where] = (stamp, text)
        return stamp, None

    def _bound(self) -> None:
        """Drop names and partial lines of files that were removed."""
        if len(self._origins) > 2 * self._files.followed() + 1000:
            self._origins.clear()
            self._begun = {where: part for where, part in self._begun.items() if _there(where[0])}


Part = tuple[str, str, str, bool]  # time, stream, text, whether the line ends here


def _docker_part(raw: str) -> Part | None:
    try:
        content = json.loads(raw)
        text, stream, stamp = (
            content["log"],
            content.get("stream", "stdout"),
            content.get("time", ""),
        )
    except (ValueError, KeyError, AttributeError, RecursionError):
        return None
    if not all(isinstance(each, str) for each in (text, stream, stamp)):
        return None
    if not text.isascii():  # JSON can hold halves of characters, which no file can
        text = text.encode("utf-8", "replace").decode()
    return stamp, stream, text.rstrip("\r\n"), text.endswith("\n")


def _cri_part(raw: str) -> Part | None:
    found = _CRI.match(raw)
    if not found:
        return None
    stamp, stream, tags, text = found.groups()
    return stamp, stream, text, tags.partition(":")[0] != "P"


def _there(path: str) -> bool:
    return Path(path).exists()

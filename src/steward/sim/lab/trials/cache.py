"""Remembers judged trials by their content: trace, machines, policy, settings and our own code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

import steward
from steward.sim.lab.trials.codec import DamagedError, pack, unpack
from steward.sim.lab.trials.trial import Failed, Judged, StudyInput, Trial

__all__ = ["Cache", "base_digest", "code_digest", "default_folder", "digest_of"]

ROOMS = ("decide", "learn", "model", "sim/lab")  # what a result depends on


def default_folder() -> Path:
    """Return where a user's programs keep what can be computed again."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "steward" / "lab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A folder with one file per trial. What is broken there is computed again."""

    folder: Path

    def key(self, base_digest: str, trial: Trial) -> str:
        """Return the name under which a trial is kept."""
        return digest_of((base_digest, code_digest(), trial, _profiles(trial.settings.profiles)))

    def look_up(self, key: str) -> Judged | Failed | None:
        """Return what is remembered, if it is whole."""
        try:
            return unpack(self._file(key).read_bytes())
        except (OSError, DamagedError):
            return None

    def keep(self, key: str, found: Judged | Failed) -> None:
        """Remember a result; readers see all of it or nothing."""
        file = self._file(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=file.parent, prefix=".", delete=False) as draft:
            draft.write(pack(found))
        Path(draft.name).replace(file)

    def _file(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.trial"


def base_digest(base: StudyInput) -> str:
    """Return a name for what all trials of a study share."""
    whose = "" if base.run is None else getattr(base.run, "__qualname__", repr(type(base.run)))
    trace = replace(base.trace, origin="", faults=())  # where it lies changes nothing
    return digest_of((trace, base.machines, whose))


def digest_of(value: object) -> str:
    """Return a name for a value's content: equal content, equal name, on every machine."""
    digest = blake2b(digest_size=20)
    for part in _parts(value):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return a name for the code that results depend on: another version computes anew."""
    root = Path(steward.__file__).parent
    files = sorted(file for room in ROOMS for file in (root / room).rglob("*.py"))
    return digest_of(tuple((str(file.relative_to(root)), file.read_bytes()) for file in files))


def _profiles(folder: Path | None) -> list[tuple[str, bytes]]:
    files = sorted(folder.glob("*.csv*")) if folder is not None else []
    return [(file.name, file.read_bytes()) for file in files]


def _parts(value: object) -> list[bytes]:
    if isinstance(value, np.ndarray):
        return [f"{value.dtype.str}{value.shape}".encode(), _content(value)]
    if is_dataclass(value) and not isinstance(value, type):
        named = [(each.name, getattr(value, each.name)) for each in fields(value)]
        return [type(value).__name__.encode(), *_parts(named)]
    if isinstance(value, Mapping):
        return [b"table", *_parts(sorted(value.items()))]
    if isinstance(value, tuple | list):
        return [b"(", *(part for each in value for part in _parts(each)), b")"]
    return [value if isinstance(value, bytes) else f"{type(value).__name__}:{value!r}".encode()]


def _content(array: NDArray[Any]) -> bytes:
    if array.dtype == object:
        return "\x1f".join(map(str, array)).encode()
    return np.ascontiguousarray(array).tobytes()

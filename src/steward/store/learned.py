"""Save and restore what estimators, rule weights and bandits have learnt, one file per name.

A payload is JSON values and numpy arrays, nested in any way; nothing in a file is ever executed.
A checksum is verified before anything is decoded. State of another version, and a file that is
damaged, is set aside with its reason: learning then starts anew, and nothing raises.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from steward.clock import Clock, WallClock
from steward.errors import StewardError
from steward.ports import Learner
from steward.store.atomic import make_folder, write_atomic

__all__ = ["LearnedState", "LearnedStates", "Payload", "load_file", "name_of", "save_file"]

Payload = Mapping[str, Any]  # JSON values and numpy arrays

_MAGIC = b"STWLEARN1\n"
_SHA_BYTES = 32
_ENDING = ".learned"
_ASIDE = "set-aside"
_ARRAY = "$array"  # {"$array": "a3"} stands for an array in the JSON
_JSON = "json"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearnedState:
    """What was learnt under one name, of which version, when and from what."""

    name: str
    version: int
    payload: Payload
    saved_s: float = 0.0
    learnt_from: Mapping[str, Any] = field(default_factory=dict)


class LearnedStates:
    """The learned states of one data folder. One process writes; others are `read_only`."""

    def __init__(
        self, folder: Path, *, clock: Clock | None = None, read_only: bool = False
    ) -> None:
        self._folder = folder
        self._read_only = read_only
        self._clock = clock or WallClock()

    def save(
        self,
        name: str,
        version: int,
        payload: Payload,
        *,
        learnt_from: Mapping[str, Any],
        durable: bool = True,
    ) -> None:
        """Replace the state under `name`; durable on return, the old one stays when it raises.

        Without `durable` it outlives this process at once, and a power failure a little later.

        `learnt_from` describes the data behind the state, for example
        `{"outcomes": 812, "until_s": 1.7e9}`.
        """
        state = LearnedState(
            name=name,
            version=version,
            payload=payload,
            saved_s=self._clock.now_s(),
            learnt_from=learnt_from,
        )
        packed = _packed(state)
        try:
            file = self._file(name)
            make_folder(self._folder)
            write_atomic(file, packed, durable=durable)
        except OSError as fault:
            raise StewardError(
                f"what '{name}' has learnt cannot be saved: {fault.strerror or fault}",
                where=str(self._folder),
                hint="make room on this disk, and give the user that runs steward write access",
            ) from fault

    def load(self, name: str, version: int) -> tuple[LearnedState | None, str]:
        """Return the state under `name` and "", or None and the reason why there is none."""
        file = self._file(name)
        try:
            found = file.read_bytes()
        except FileNotFoundError:
            return None, f"nothing was saved for '{name}' yet"
        except OSError as fault:
            return None, f"{file} cannot be read: {fault.strerror or fault}"
        state, fault_text = _decoded(found)
        if state is None:
            return None, self._set_aside(file, f"{name}.damaged", f"it is damaged ({fault_text})")
        if state.name != name:
            why = f"it holds the state of '{state.name}'"
            return None, self._set_aside(file, f"{name}.damaged", why)
        if state.version != version:
            why = f"it has version {state.version}, and this steward reads version {version}"
            return None, self._set_aside(file, f"{name}.v{state.version}", why)
        return state, ""

    def restore(self, plug: Learner) -> str:
        """Restore the state of a plug, if one was saved; return why it was discarded, or ""."""
        name = name_of(plug)
        if name not in self.names():
            return ""
        state, why = self.load(name, plug.state_version)
        if state is not None:
            try:
                plug.restore_state(state.payload)
            except Exception as fault:  # noqa: BLE001 - whatever a file holds, steward starts
                why = f"it does not fit ({type(fault).__name__}: {fault})"
        return why

    def names(self) -> tuple[str, ...]:
        """Return the names under which something is saved."""
        with suppress(FileNotFoundError):
            files = (each.name for each in self._folder.iterdir())
            return tuple(sorted(f.removesuffix(_ENDING) for f in files if f.endswith(_ENDING)))
        return ()

    def _file(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise StewardError(
                f"'{name}' cannot name a learned state",
                where=str(self._folder),
                hint="use lower-case letters, digits, '-', '_' and '.'",
            )
        return self._folder / f"{name}{_ENDING}"

    def _set_aside(self, file: Path, name: str, why: str) -> str:
        """Move a file that cannot be used out of the way, in place of the last such one."""
        if self._read_only:
            return f"{file}: {why}"
        aside = self._folder / _ASIDE / f"{name}{_ENDING}"
        try:
            make_folder(aside.parent)
            file.replace(aside)
            write_atomic(aside.with_suffix(".reason"), f"{why}\n".encode(), durable=False)
        except OSError as fault:
            return f"{file}: {why}; setting it aside failed: {fault.strerror or fault}"
        return f"{file}: {why}; it was moved to {_ASIDE}/{aside.name}"


def save_file(path: Path, state: LearnedState) -> None:
    """Write one state to a file of any name, to be shared; an older one is replaced at once."""
    make_folder(path.parent)
    write_atomic(path, _packed(state), durable=True)


def load_file(path: Path, name: str, version: int) -> LearnedState:
    """Return the state in a shared file, or raise: a file given by hand is never set aside."""
    state, fault = _decoded(path.read_bytes())
    if state is None:
        why = f"it is damaged or of another form ({fault})"
    elif state.name != name:
        why = f"it holds the state of '{state.name}', not of '{name}'"
    elif state.version != version:
        why = f"it has version {state.version}, and this steward reads version {version}"
    else:
        return state
    raise StewardError(why, where=str(path), hint="save it again with this version of steward")


def _packed(state: LearnedState) -> bytes:
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    about = {
        "name": state.name,
        "version": state.version,
        "saved_s": state.saved_s,
        "learnt_from": _plain(state.learnt_from, arrays, at=f"{state.name}: learnt_from"),
        "payload": _plain(state.payload, arrays, at=state.name),
    }
    arrays[_JSON] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **arrays)
    body = packed.getvalue()
    return _MAGIC + hashlib.sha256(body).digest() + body


def name_of(plug: Learner) -> str:
    """Return the name under which the state of a plug is saved."""
    return str(getattr(plug, "name", type(plug).__name__))


def _plain(value: object, arrays: dict[str, np.ndarray[Any, Any]], *, at: str) -> object:
    """Return a value as JSON takes it; arrays are collected and replaced by their names."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case np.ndarray() if value.dtype.kind in "biufUS":
            key = f"a{len(arrays)}"
            arrays[key] = value
            return {_ARRAY: key}
        case np.generic():
            return _plain(value.item(), arrays, at=at)
        case Mapping() if all(isinstance(key, str) for key in value) and _ARRAY not in value:
            return {key: _plain(each, arrays, at=f"{at}.{key}") for key, each in value.items()}
        case Sequence() if not isinstance(value, bytes | bytearray):
            return [_plain(each, arrays, at=f"{at}[{i}]") for i, each in enumerate(value)]
    raise StewardError(
        f"a {type(value).__name__} cannot be saved",
        where=at,
        hint="use JSON values with text keys, and arrays of numbers or texts",
    )


def _decoded(found: bytes) -> tuple[LearnedState | None, str]:
    begin = len(_MAGIC) + _SHA_BYTES
    if not found.startswith(_MAGIC):
        return None, "it does not begin like a learned state"
    body = found[begin:]
    if hashlib.sha256(body).digest() != found[len(_MAGIC) : begin]:
        return None, "its checksum does not match"
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
            about = json.loads(arrays[_JSON].tobytes())
            payload = _restored(about["payload"], arrays)
            learnt_from = _restored(about["learnt_from"], arrays)
        state = LearnedState(
            name=str(about["name"]),
            version=int(about["version"]),
            saved_s=float(about["saved_s"]),
            payload=payload,
            learnt_from=learnt_from,
        )
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as fault:
        return None, " ".join(str(fault).split())[:200] or type(fault).__name__
    return state, ""


def _restored(value: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:  # noqa: ANN401 - JSON
    match value:
        case {"$array": str(key)}:
            return arrays[key]
        case dict():
            return {key: _restored(each, arrays) for key, each in value.items()}
        case list():
            return [_restored(each, arrays) for each in value]
    return value

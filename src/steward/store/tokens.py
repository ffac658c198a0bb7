"""Access tokens. Only their hashes are stored: reading the file gives no access."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from steward.clock import Clock, WallClock
from steward.errors import StewardError, unknown_name
from steward.store.atomic import make_folder, write_atomic

__all__ = ["NameTakenError", "Role", "Token", "Tokens", "hash_secret", "new_secret"]

_PREFIX = "stw_"
_RANDOM_BYTES = 32


class Role(Enum):
    """What a person or program may do. People's roles are ordered; an agent only sends telemetry.

    >>> Role.ADMIN.includes(Role.OPERATOR), Role.VIEWER.includes(Role.OPERATOR)
    (True, False)
    """

    VIEWER = "viewer"  # reads
    OPERATOR = "operator"  # reads, approves, rejects, undoes, runs the lab
    ADMIN = "admin"  # all that, and manages tokens
    AGENT = "agent"  # sends telemetry and nothing else

    def includes(self, other: Role) -> bool:
        """Return True if this role may do what `other` may do."""
        if Role.AGENT in (self, other):
            return self is other
        return _ORDER.index(self) >= _ORDER.index(other)


_ORDER = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token without its secret. `name` is the person or program that it was made for.

    An agent's may be for one node; empty means whichever its user is on, `*` all nodes at once.
    """

    name: str
    role: Role
    made_s: float
    node: str = ""
    expires_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line(Token):
    sha256: str


_LINES = TypeAdapter(tuple[_Line, ...])


class NameTakenError(StewardError):
    """There is a token of this name."""


class Tokens:
    """The tokens in one file, which only its owner can read. Processes may share it."""

    def __init__(self, file: Path, *, clock: Clock | None = None) -> None:
        self._file = file
        self._clock = clock or WallClock()
        self._stamp: tuple[int, ...] = ()
        self._lines: tuple[_Line, ...] = ()

    def make(self, name: str, role: Role, *, node: str = "", valid_s: float | None = None) -> str:
        """Make a token and return it. This is the only time that it can be seen."""
        if not name.strip():
            raise StewardError(
                "a token needs a name",
                where=str(self._file),
                hint="name who will use it: approvals are written down under that name",
            )
        secret = new_secret()
        made_s = self._clock.now_s()
        line = _Line(
            name=name,
            role=role,
            made_s=made_s,
            node=node,
            expires_s=None if valid_s is None else made_s + valid_s,
            sha256=hash_secret(secret),
        )
        with self._changing() as lines:
            if any(old.name == name for old in lines):
                raise NameTakenError(
                    f"there is already a token called '{name}'",
                    where=str(self._file),
                    hint="revoke it first, or choose another name",
                )
            self._write((*lines, line))
        return secret

    def find(self, token: str) -> Token | None:
        """Return the valid token of this secret; how long it takes depends on no secret."""
        sha256 = hash_secret(token)
        found: Token | None = None
        for line in self._read():
            if hmac.compare_digest(line.sha256, sha256):
                found = _shown(line)
        return found if found is not None and self.is_valid(found) else None

    def is_valid(self, token: Token) -> bool:
        """Return True if a token has been neither revoked nor outlived."""
        if token.expires_s is not None and token.expires_s <= self._clock.now_s():
            return False
        return token in self.list()

    def list(self) -> tuple[Token, ...]:
        """Return all tokens, oldest first."""
        return tuple(_shown(line) for line in self._read())

    def revoke(self, name: str) -> None:
        """Make a token worthless from now on."""
        with self._changing() as lines:
            names = [line.name for line in lines]
            if name not in names:
                raise unknown_name("token", name, names, where=str(self._file))
            self._write(tuple(line for line in lines if line.name != name))

    def _read(self) -> tuple[_Line, ...]:
        """Return the file's lines, cached until it changes: every request calls this."""
        try:
            state = self._file.stat()
            if state.st_uid not in (os.geteuid(), 0):
                raise StewardError(
                    f"it belongs to user {state.st_uid}, not to the one that runs steward",
                    where=str(self._file),
                    hint="somebody else put it there: remove it, and close the folder to others",
                )
            stamp = (state.st_ino, state.st_size, state.st_mtime_ns)
            if stamp != self._stamp:
                self._lines = _LINES.validate_json(self._file.read_bytes())
                self._stamp = stamp
        except FileNotFoundError:
            return ()
        except OSError as fault:
            raise self._refused(fault) from fault
        except ValidationError as fault:
            faults = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in fault.errors()]
            raise StewardError(
                "; ".join(faults),
                where=str(self._file),
                hint="only `steward token` writes this file: restore it, or remove it and make "
                "new tokens",
            ) from fault
        return self._lines

    @contextmanager
    def _changing(self) -> Iterator[tuple[_Line, ...]]:
        """Hold the lock under which the file is read and written again."""
        lock = self._file.with_name(self._file.name + ".lock")
        try:
            make_folder(self._file.parent)
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as fault:
            raise self._refused(fault) from fault
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield self._read()
        finally:
            os.close(handle)

    def _write(self, lines: tuple[_Line, ...]) -> None:
        try:
            write_atomic(self._file, _LINES.dump_json(lines, indent=1))
        except OSError as fault:
            raise self._refused(fault) from fault

    def _refused(self, fault: OSError) -> StewardError:
        return StewardError(
            f"tokens cannot be kept here: {fault.strerror}",
            where=str(self._file),
            hint="the user that runs steward needs access to this file, and room on its disk",
        )


def new_secret() -> str:
    """Return the secret of a new token."""
    return _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def hash_secret(token: str) -> str:
    """Return the hash under which a secret is kept."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _shown(line: _Line) -> Token:
    return Token(**{field.name: getattr(line, field.name) for field in fields(Token)})

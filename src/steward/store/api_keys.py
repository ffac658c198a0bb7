"""API keys of the gateway. Only their hashes are stored: reading the file gives no access."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from steward.clock import Clock, WallClock
from steward.errors import StewardError, unknown_name
from steward.store.atomic import make_folder, write_atomic
from steward.store.tokens import hash_secret, new_secret

__all__ = ["ApiKey", "ApiKeys"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key without its secret, and what its owner may use. None is no limit."""

    name: str
    made_s: float
    tenant: str = ""  # "": the name
    deadline_class: str = ""  # of requests that name none
    admin: bool = False
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    expires_s: float | None = None
    sha256: str = ""


_KEYS = TypeAdapter(tuple[ApiKey, ...])


class ApiKeys:
    """The keys in one file, which only its owner can read. Processes may share it."""

    def __init__(self, file: Path, *, clock: Clock | None = None) -> None:
        self.file = file
        self._clock = clock or WallClock()
        self._stamp: tuple[int, ...] = ()
        self._keys: tuple[ApiKey, ...] = ()
        self._by_hash: dict[str, ApiKey] = {}

    def make(self, key: ApiKey) -> str:
        """Add a key under a new secret, and return the secret: this once."""
        secret = new_secret()
        with self._changing():
            if not key.name.strip() or any(each.name == key.name for each in self._keys):
                problem = f"there is already a key called '{key.name}'"
                raise StewardError(
                    problem if key.name.strip() else "a key needs a name",
                    where=str(self.file),
                    hint="revoke it first, or choose another name",
                )
            made = replace(key, made_s=self._clock.now_s(), sha256=hash_secret(secret))
            self._write((*self._keys, made))
        return secret

    def revoke(self, name: str) -> None:
        """Make a key worthless from now on."""
        with self._changing():
            names = [each.name for each in self._keys]
            if name not in names:
                raise unknown_name("key", name, names, where=str(self.file))
            self._write(tuple(each for each in self._keys if each.name != name))

    def list(self) -> tuple[ApiKey, ...]:
        """Return all keys, oldest first, without what they are found by."""
        self.read()
        return tuple(replace(each, sha256="") for each in self._keys)

    def find(self, secret: str) -> ApiKey | None:
        """Return the valid key of a secret, as of the last `read`.

        Looking up a hash takes no longer for a secret that is nearly right.
        """
        key = self._by_hash.get(hash_secret(secret))
        if key is None or (key.expires_s is not None and key.expires_s <= self._clock.now_s()):
            return None
        return key

    def of_tenant(self, tenant: str) -> tuple[ApiKey, ...]:
        """Return the valid keys of a tenant, as of the last `read`."""
        now_s = self._clock.now_s()
        return tuple(
            each
            for each in self._keys
            if (each.tenant or each.name) == tenant
            and (each.expires_s is None or each.expires_s > now_s)
        )

    def read(self) -> None:
        """Read the file again if it has changed."""
        try:
            state = self.file.stat()
            if state.st_uid not in (os.geteuid(), 0):
                raise StewardError(
                    f"it belongs to user {state.st_uid}, not to the one that runs the gateway",
                    where=str(self.file),
                    hint="somebody else put it there: remove it, and close the folder to others",
                )
            stamp = (state.st_ino, state.st_size, state.st_mtime_ns)
            if stamp != self._stamp:
                self._keep(_KEYS.validate_json(self.file.read_bytes()))
                self._stamp = stamp
        except FileNotFoundError:
            self._stamp = ()
            self._keep(())
        except OSError as fault:
            raise self._refused(fault) from fault
        except ValidationError as fault:
            faults = [": ".join((*map(str, e["loc"]), e["msg"])) for e in fault.errors()]
            raise StewardError(
                "; ".join(faults),
                where=str(self.file),
                hint="only `steward serve key` writes this file: restore it, or make new keys",
            ) from fault

    def _keep(self, keys: tuple[ApiKey, ...]) -> None:
        self._keys = keys
        self._by_hash = {each.sha256: each for each in keys if each.sha256}

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock under which the file is read and written again."""
        lock = self.file.with_name(self.file.name + ".lock")
        try:
            make_folder(self.file.parent)
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as fault:
            raise self._refused(fault) from fault
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            self.read()
            yield
        finally:
            os.close(handle)

    def _write(self, keys: tuple[ApiKey, ...]) -> None:
        try:
            write_atomic(self.file, _KEYS.dump_json(keys, indent=1))
        except OSError as fault:
            raise self._refused(fault) from fault
        self.read()

    def _refused(self, fault: OSError) -> StewardError:
        return StewardError(
            f"keys cannot be kept here: {fault.strerror}",
            where=str(self.file),
            hint="the user that runs the gateway needs access to this file",
        )

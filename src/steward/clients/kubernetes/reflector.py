"""Keeps one kind of object up to date in a background thread: list once, then watch.

`changes` never waits for the thread: it returns what is known by now. An object that changed ten
times since is there once, as it is last.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from steward.clients.kubernetes.api import OPEN, Api, GoneError
from steward.errors import StewardError

__all__ = ["ObjectChange", "Reflector"]

LEAST_WAIT_S, MOST_WAIT_S = 0.5, 30.0
LASTING_S = 10.0  # a watch that ends sooner has failed, whatever its status: servers allow minutes


class _Known(Protocol):
    @property
    def uid(self) -> str: ...


T = TypeVar("T", bound=_Known)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange(Generic[T]):
    """What happened to an object: as it is now, or as it was last when it is `gone`."""

    uid: str
    now: T | None  # None: it was deleted
    gone: bool = False


class Reflector(Generic[T]):
    """One kind of object. `make` reads an object; those it makes nothing of are left out."""

    def __init__(
        self,
        api: Api,
        path: str,
        *,
        make: Callable[[dict[str, Any]], T | None],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self.path = path
        self.problem: StewardError | None = None
        self.synced_s: float | None = None  # by the monotonic clock, of the last successful contact
        self.lists = 0
        self.refused = 0
        self._api = api
        self._make = make
        self._lock = threading.Lock()
        self._there: set[str] = set()
        self._changed: dict[str, ObjectChange[T]] = {}
        self._version = ""
        self._stop = threading.Event()
        self._clock = clock
        self._pause = pause or self._stop.wait
        self._thread: threading.Thread | None = None

    @property
    def synced(self) -> bool:
        """Whether everything has been listed at least once."""
        return self.lists > 0

    def start(self) -> None:
        """Start the threads, once."""
        if self._thread is None:
            name = f"watch{self.path.replace('/', '-')}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def changes(self) -> list[ObjectChange[T]]:
        """Return what is new."""
        with self._lock:
            changed, self._changed = self._changed, {}
        return list(changed.values())

    def stop(self) -> None:
        """Stop. A thread that is blocked in a read ends when the server sends or closes."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=0.5)

    def _run(self) -> None:
        """List and watch until stopped; pause ever longer while watches fail or end at once."""
        wait_s = LEAST_WAIT_S
        while not self._stop.is_set():
            began_s, failed = self._clock(), True
            try:
                self._follow()
                failed = False
            except GoneError:
                self._version = ""  # it was away for too long: list again
            except Exception as fault:  # noqa: BLE001 - an exception would end the thread unnoticed
                self.problem = _as_problem(fault)
            lasted = self._clock() - began_s >= LASTING_S
            wait_s = LEAST_WAIT_S if lasted else wait_s
            if failed or not lasted:
                # Many watchers must not all come back in the same moment.
                self._pause(wait_s * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
                wait_s = min(MOST_WAIT_S, wait_s * 2)

    def _follow(self) -> None:
        if not self._version:
            items, version = self._api.list(self.path)
            self._replace(items)
            self._version = version
            self._well()
        for kind, raw in self._api.watch(self.path, self._version):
            if self._stop.is_set():
                return
            self._take(kind, raw)
            meta = raw.get("metadata")
            self._version = str((meta or {}).get("resourceVersion") or self._version)
            self._well()
        self._well()

    def _well(self) -> None:
        self.problem = None
        self.synced_s = time.monotonic()

    def _replace(self, items: list[dict[str, Any]]) -> None:
        """Take a whole list: what is not in it is gone."""
        made = {each.uid: each for each in map(self._tried, items) if each is not None}
        with self._lock:
            for uid in self._there - set(made):
                self._changed[uid] = ObjectChange(uid=uid, now=None, gone=True)
            for uid, each in made.items():
                self._changed[uid] = ObjectChange(uid=uid, now=each)
            self._there = set(made)
            self.lists += 1

    def _take(self, kind: str, raw: dict[str, Any]) -> None:
        if kind in (OPEN, "BOOKMARK"):
            return
        made = self._tried(raw)
        if made is None:
            return
        with self._lock:
            gone = kind == "DELETED"
            self._there.discard(made.uid) if gone else self._there.add(made.uid)
            self._changed[made.uid] = ObjectChange(uid=made.uid, now=made, gone=gone)

    def _tried(self, raw: dict[str, Any]) -> T | None:
        try:
            return self._make(raw)
        except (TypeError, ValueError, KeyError, OverflowError):
            self.refused += 1
            return None


def _as_problem(fault: Exception) -> StewardError:
    if isinstance(fault, StewardError):
        return fault
    return StewardError(f"{type(fault).__name__}: {fault}", where="kubernetes")

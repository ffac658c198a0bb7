"""The transport to slurmrestd: address, token, version of its API, bounded time and size.

Versions of the API come and go with Slurm's: which of those known here a server speaks, and what
each of its paths can do, is read from its own `/openapi/v3`.
"""

from __future__ import annotations

import codecs
import json
import re
import socket
import struct
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from steward.clients.slurm.program import SlurmError
from steward.clients.slurm.rest_token import RestToken
from steward.clients.web import Endpoint, open_client
from steward.errors import StewardError

if TYPE_CHECKING:
    import httpx

__all__ = ["RestApi", "RestDeniedError", "RestServer", "RestSettings"]

KNOWN = range(38, 46)  # v0.0.38 (22.05) to v0.0.45 (26.05)
MOST_BYTES = 2**30  # a queue of 100,000 jobs is 300 MB
MOST_SMALL_BYTES = 2**24
_UNIX = "unix:"
_PATH = re.compile(r"/(slurm|slurmdb)/v0\.0\.(\d+)/(.+?)/?")
_BRACES = re.compile(r"\{\w+\}")
_RIGHTS = "make a new one with `scontrol token`, and name it: plugs.slurm.rest_token_file"
_ADDRESS = "is slurmrestd running, and is plugs.slurm.rest its address?"
_DOWN = "is slurmctld up (`scontrol ping` there), and does it accept the token?"


class RestDeniedError(SlurmError):
    """slurmrestd refuses this account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """Where slurmrestd is and who calls it: `http(s)://HOST:PORT` or `unix:/PATH`; or none."""

    address: str
    user: str = ""
    token_file: str = ""
    ca: str = ""
    plain_http: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestApi:
    """What one version of the API has: each path with its methods and their query parameters."""

    version: str
    paths: Mapping[str, tuple[str, Mapping[str, frozenset[str]]]]

    def has(self, name: str, method: str = "get", *, parameter: str = "") -> bool:
        """Return whether a path, as `slurm/node/{}`, has a method and a parameter."""
        methods = self.paths.get(name, ("", {}))[1]
        return method in methods and (not parameter or parameter in methods[method])

    def path(self, name: str, value: str = "") -> str:
        """Return the path as the server spells it, with a value in its braces."""
        if name not in self.paths:
            raise SlurmError(f"slurmrestd has no {name} in {self.version}", where="slurmrestd")
        return _BRACES.sub(quote(value, safe=""), self.paths[name][0])


class RestServer:
    """One slurmrestd. A connection is made with the first request, and kept."""

    def __init__(self, settings: RestSettings, *, timeout_s: float = 20.0) -> None:
        self.where = settings.address
        self.timeout_s = timeout_s
        self._settings = settings
        # rest_auth/local refuses whoever shows a token.
        variable = "" if self.is_local else "SLURM_JWT"
        self._token = RestToken(settings.token_file, user=settings.user, variable=variable)
        self._socket = settings.address.removeprefix(_UNIX) if self.is_local else ""
        if self.is_local and not self._socket.startswith("/"):
            problem = f"'{settings.address}' names no socket"
            raise StewardError(problem, where="plugs.slurm.rest", hint="write unix:/PATH")
        if not self.is_local:
            self._endpoint()  # a wrong address is told at once
        self._client: httpx.Client | None = None
        self._lock = threading.Lock()
        self._api: RestApi | None = None

    @property
    def is_local(self) -> bool:
        """Whether it listens on a Unix socket."""
        return self.where.startswith(_UNIX)

    @property
    def user(self) -> str:
        """The account that requests act as: that of the token, or of the daemon behind a socket."""
        named = self._token.user
        if named or not self.is_local:
            return named
        import pwd  # noqa: PLC0415 - needed for sockets alone

        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(self.timeout_s)
                probe.connect(self._socket)
                size = struct.calcsize("3i")
                peer = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            return pwd.getpwuid(struct.unpack("3i", peer)[1]).pw_name
        except (OSError, KeyError):
            return ""

    def api(self) -> RestApi:
        """Return the newest version of the API that both sides know; asked for once."""
        if self._api is None:
            text = "".join(self._chunks("GET", "/openapi/v3", most_bytes=MOST_SMALL_BYTES))
            self._api = _newest(_as_object(text, self.where), self.where)
        return self._api

    def chunks(self, name: str, *, query: Mapping[str, str] | None = None) -> Iterator[str]:
        """Yield the answer to a GET piece by piece."""
        path = self.api().path(name)
        yield from self._chunks("GET", path, query=query, most_bytes=MOST_BYTES)

    def ask(
        self,
        method: str,
        name: str,
        value: str = "",
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return a short answer; `errors` in it is for the caller to judge."""
        path = self.api().path(name, value)
        parts = self._chunks(method, path, query=query, body=body, most_bytes=MOST_SMALL_BYTES)
        return _as_object("".join(parts), self.where)

    # -- sending -------------------------------------------------------------------------------

    def _chunks(
        self,
        method: str,
        path: str,
        *,
        most_bytes: int,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Iterator[str]:
        import httpx  # noqa: PLC0415 - 7 MB that most agents need not load

        deadline_s = time.monotonic() + self.timeout_s
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        client, url = self._open(), f"{self._base}{path}"
        try:
            with client.stream(
                method, url, params=query, headers=self._token.headers(), json=body
            ) as answer:
                self._check(answer)
                size = 0
                for part in answer.iter_bytes():
                    size += len(part)
                    if size > most_bytes:
                        problem = f"answers with more than {most_bytes} bytes"
                        raise SlurmError(problem, where=self.where)
                    if time.monotonic() > deadline_s:
                        raise self._late()
                    yield decode(part)
        except httpx.TimeoutException as fault:
            raise self._late() from fault
        except httpx.HTTPError as fault:
            problem = f"cannot be reached: {fault or type(fault).__name__}"
            raise SlurmError(problem, where=self.where, hint=_ADDRESS) from fault

    def _check(self, answer: httpx.Response) -> None:
        """Raise for what is no answer of Slurm's; its own errors are in the body, with a 500."""
        code = answer.status_code
        if code in (401, 403) or (code >= 500 and self._token.is_expired):  # 500: slurmctld's no
            problem = self._token.problem() or f"refuses the account ({code})"
            raise RestDeniedError(problem, where=self.where, hint=_RIGHTS)
        if code == 404:
            self._api = None  # a newer Slurm may have replaced it
            raise SlurmError("has no such path any more (404)", where=self.where)
        if code >= 300 and "json" not in answer.headers.get("content-type", ""):
            raise SlurmError(f"answers {code}, and no JSON", where=self.where, hint=_DOWN)

    def _late(self) -> SlurmError:
        problem = f"no answer within {self.timeout_s:g} s"
        return SlurmError(problem, where=self.where, hint=f"{_DOWN} Or raise timeout_s")

    @property
    def _base(self) -> str:
        return "http://localhost" if self.is_local else self.where.rstrip("/")

    def _endpoint(self) -> Endpoint:
        given = self._settings
        return Endpoint(
            url=given.address, ca=given.ca, timeout_s=self.timeout_s, plain_http=given.plain_http
        )

    def _open(self) -> httpx.Client:
        import httpx  # noqa: PLC0415 - 7 MB that most agents need not load

        if self.is_local and not Path(self._socket).is_socket():
            problem = "cannot be reached: there is no such socket"
            raise SlurmError(problem, where=self.where, hint=_ADDRESS)
        with self._lock:
            if self._client is None and self.is_local:
                by = httpx.HTTPTransport(uds=self._socket)
                self._client = httpx.Client(transport=by, timeout=self.timeout_s)
                weakref.finalize(self, self._client.close)
            elif self._client is None:
                self._client = open_client(self._endpoint(), owner=self)
            return self._client


def _newest(document: Mapping[str, Any], where: str) -> RestApi:
    found: dict[int, dict[str, tuple[str, Mapping[str, frozenset[str]]]]] = {}
    for path, methods in (document.get("paths") or {}).items():
        if (match := _PATH.fullmatch(path)) and isinstance(methods, dict):
            kept = {name: _parameters(each) for name, each in methods.items()}
            name = _BRACES.sub("{}", f"{match[1]}/{match[3]}")  # what is in them changes
            found.setdefault(int(match[2]), {})[name] = (path, kept)
    spoken = [number for number, paths in found.items() if "slurm/jobs" in paths]
    known = [number for number in spoken if number in KNOWN]
    if not known:
        names = ", ".join(f"v0.0.{number}" for number in sorted(spoken)) or "none"
        problem = f"speaks no version of the API that steward knows: {names}"
        hint = f"steward knows v0.0.{KNOWN[0]} to v0.0.{KNOWN[-1]}: load such a plugin (-s)"
        raise SlurmError(problem, where=where, hint=hint)
    return RestApi(version=f"v0.0.{max(known)}", paths=found[max(known)])


def _parameters(method: object) -> frozenset[str]:
    listed = method.get("parameters") if isinstance(method, dict) else None
    return frozenset(str(each.get("name")) for each in listed or () if isinstance(each, dict))


def _as_object(text: str, where: str) -> dict[str, Any]:
    try:
        made = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as fault:
        raise SlurmError(f"answers with what is no JSON: {fault}", where=where) from fault
    if not isinstance(made, dict):
        raise SlurmError("answers with JSON that is no object", where=where)
    return made

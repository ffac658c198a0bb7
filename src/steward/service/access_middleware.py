"""Authenticate each request and enforce role, rate and size limits, before anything else sees it.

Checked in this order: the Host header (on a loopback address only names of this machine, so that
a web page cannot reach it by rebinding its own name), the Origin of anything that changes
something, who sends it, how often, and how much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import ceil
from types import MappingProxyType
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steward.clients.transport_rule import is_loopback
from steward.errors import StewardError
from steward.service.authentication import Authenticator, User
from steward.service.failures import RefusedError, error_response
from steward.service.limits import (
    BodyLimit,
    BodyTooLargeError,
    BodyTooSlowError,
    RateLimit,
    StreamLimit,
)
from steward.service.local_users import PeerCredentials
from steward.store.tokens import Role

__all__ = ["OPEN", "PUSHED", "AccessMiddleware"]

# Accounts of this machine change their own jobs and mutes, whatever their role: the routes check
# whose they are. A token is no account: a viewer's changes nothing.
OWN = ("/api/v1/jobs", "/api/v1/mutes")
ASK = "/api/v1/ask"
OPEN = ("/healthz", "/readyz", "/login", "/static/")
METRICS = "/metrics"
# Senders of telemetry are slowed down by the intake, which knows how much it can take.
PUSHED = ("/api/v1/write", "/v1/metrics", "/v1/logs")
UNCOUNTED = ("/healthz", "/readyz", "/static/", "/_nicegui", *PUSHED)
FOR_PROGRAMS = ("/api/", "/metrics", "/_nicegui", "/v1/")
REPEATABLE = frozenset({"state", "kind", "metric", "severity"})  # filters that take several values
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# Paths that need an agent's token, and all that such a token opens beside them.
TELEMETRY = ("/api/v1/agents/parcels", *PUSHED)
FOR_AGENTS = (*TELEMETRY, "/api/v1/agents/time", "/api/v1/alerts", METRICS)
NO_RESPONSE = "No response returned."  # what starlette's BaseHTTPMiddleware raises
HEADERS = {
    # The page framework compiles its templates in the browser, hence the two 'unsafe' ones;
    # nothing at all may come from another address.
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline' "
    "'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class AccessMiddleware:
    """ASGI middleware. `check_host`: only names of this machine are accepted as Host.

    `uploads` are the paths to which more may be posted than elsewhere; `open_metrics` lets
    everybody read `/metrics`; `local_user` returns the user at the other end of a local socket.
    """

    def __init__(  # noqa: PLR0913 - each is a limit of its own
        self,
        app: ASGIApp,
        *,
        access: Authenticator,
        rate: RateLimit,
        body: BodyLimit,
        check_host: bool,
        uploads: Mapping[str, StreamLimit | BodyLimit] = MappingProxyType({}),
        open_metrics: bool = False,
        local_user: Callable[[PeerCredentials], User] | None = None,
    ) -> None:
        self.app = app
        self._access = access
        self._rate = rate
        self._body = body
        self._check_host_name = check_host
        self._uploads = uploads
        self._open = (*OPEN, METRICS) if open_metrics else OPEN
        self._local_user = local_user

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, _with_headers(send, scope["path"]))
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            user = self._enter(scope)
            if user is None and not scope["path"].startswith(self._open):
                await _to_login(scope)(scope, receive, send)
                return
            scope.setdefault("state", {})["user"] = user
            receive = await self._read(scope, receive)
        except StewardError as fault:
            await error_response(fault)(scope, receive, send)
            return
        await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer. Nothing is to be answered once the sender is gone.

        Starlette's own middleware, which the pages bring along, calls that an error of the
        application: a browser that is closed while it loads would leave a traceback.
        """
        gone = False

        async def received() -> Message:
            nonlocal gone
            message = await receive()
            gone = gone or message["type"] == "http.disconnect"
            return message

        try:
            await self.app(scope, received, send)
        except RuntimeError as fault:
            if not (gone and str(fault) == NO_RESPONSE):
                raise

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = Headers(scope=scope)
            self._check_host(scope, headers)
            _check_origin(headers)
            user = self._user(scope, headers)
            if user is None or user.role is Role.AGENT:
                raise _unauthenticated()
        except StewardError:
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        await self.app(scope, receive, send)

    def _enter(self, scope: Scope) -> User | None:
        headers = Headers(scope=scope)
        path: str = scope["path"]
        self._check_host(scope, headers)
        if scope["method"] not in SAFE_METHODS:
            _check_origin(headers)
        _check_query(scope)
        user = self._user(scope, headers)
        if user is not None and user.role is Role.AGENT:
            return _check_agent(user, path)
        if user is not None and path in TELEMETRY:
            raise _only_agents(user)
        changes = _changes(scope["method"], path)
        own = any(path == each or path.startswith(f"{each}/") for each in OWN)
        if own and scope.get("state", {}).get("by_peer"):
            changes = False
        if user is not None and changes and not user.may_decide:
            raise _only_reads(user)
        if not path.startswith(UNCOUNTED):
            self._count(scope, user)
        programs = path.startswith(FOR_PROGRAMS) or scope["method"] not in SAFE_METHODS
        if user is None and programs and not path.startswith(self._open):
            raise _unauthenticated()
        return user

    def _user(self, scope: Scope, headers: Headers) -> User | None:
        peer: PeerCredentials | None = scope.get("state", {}).get("peer")
        local = None
        if peer is not None and self._local_user is not None and "authorization" not in headers:
            local = self._local_user(peer)
        user = self._access.user(headers, peer=local)
        if user is not None and user is local:  # not by a cookie, which may be another's
            scope["state"]["by_peer"] = True
        return user

    def _check_host(self, scope: Scope, headers: Headers) -> None:
        name = _host_name(headers.get("host", ""))
        over_network = scope.get("state", {}).get("peer") is None
        if self._check_host_name and over_network and not is_loopback(name):
            raise RefusedError(
                400,
                f"the request is for host '{name}', but steward listens on this machine alone",
                where="Host header",
                hint="use http://localhost or http://127.0.0.1; behind a proxy, set "
                "service.trusted_proxies",
            )

    def _count(self, scope: Scope, user: User | None) -> None:
        """Count a request against its sender: a person's choices apart from what they read.

        Authenticated people and programs are counted by name and session, never by address:
        neither strangers nor a busy program of the same machine take their requests away.
        """
        address = scope["client"][0] if scope.get("client") else ""
        kind = "read" if scope["method"] in SAFE_METHODS else "change"
        key = (user.name, user.session, kind) if user else (address,)
        wait_s = self._rate.wait_s(key)
        if wait_s:
            raise RefusedError(
                429,
                "too many requests from this client",
                hint=f"try again in {ceil(wait_s)} s; the limit is service.requests_per_minute",
                headers={"Retry-After": str(ceil(wait_s))},
            )

    async def _read(self, scope: Scope, receive: Receive) -> Receive:
        upload = self._uploads.get(scope["path"]) if scope["method"] == "POST" else None
        if upload is None:
            with _as_refusal(self._body.most_bytes, "service.body_limit_bytes"):
                return await self._body.read(scope, receive)
        with _as_refusal(upload.most_bytes, "service.upload_limit_bytes"):
            pieces = await upload.read(scope, receive)

        async def received() -> Message:
            with _as_refusal(upload.most_bytes, "service.upload_limit_bytes"):
                return await pieces()

        return received


@contextmanager
def _as_refusal(most_bytes: int, setting: str) -> Iterator[None]:
    """Turn what is wrong with a body into an answer."""
    try:
        yield
    except BodyTooLargeError:
        raise RefusedError(
            413,
            f"the request has more than {most_bytes} bytes",
            hint=f"the limit is {setting}",
            headers={"Connection": "close"},
        ) from None
    except BodyTooSlowError:
        raise RefusedError(
            408, "the request did not arrive in time", headers={"Connection": "close"}
        ) from None


def _check_query(scope: Scope) -> None:
    """Refuse a parameter that is given twice: one of them would be overlooked in silence."""
    pairs = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    counts = Counter(name for name, _ in pairs)
    twice = sorted(name for name, count in counts.items() if count > 1 and name not in REPEATABLE)
    if twice and scope["path"].startswith("/api/"):
        raise RefusedError(
            422,
            f"{', '.join(twice)} is given more than once",
            where="query",
            hint="give each parameter once",
        )


def _check_agent(user: User, path: str) -> User:
    if path not in FOR_AGENTS:
        raise RefusedError(
            403,
            f"the token '{user.name}' is an agent's: it only sends telemetry",
            where="Authorization header",
            hint="to look, make a token with `--role viewer`",
        )
    return user


def _only_agents(user: User) -> RefusedError:
    return RefusedError(
        403,
        f"'{user.name}' has the role {user.role.value}: only agents may send telemetry",
        where="Authorization header",
        hint="make a token with `steward token new NAME --role agent`",
    )


def _changes(method: str, path: str) -> bool:
    """Return whether a request of a program may change something. A question never does."""
    asks = path == ASK or path.startswith(f"{ASK}/")
    return method not in SAFE_METHODS and path.startswith("/api/") and not asks


def _only_reads(user: User) -> RefusedError:
    return RefusedError(
        403,
        f"{user.name} is a viewer and may not change anything",
        where="Authorization header",
        hint="an operator token is needed",
    )


def _unauthenticated() -> RefusedError:
    return RefusedError(
        401,
        "this needs a valid access token",
        where="Authorization header",
        hint="send `Authorization: Bearer TOKEN`; `steward token new` makes one",
        headers={"WWW-Authenticate": "Bearer", "Connection": "close"},
    )


def _to_login(scope: Scope) -> ASGIApp:
    query = scope.get("query_string", b"").decode("latin-1")
    page = scope["path"] + (f"?{query}" if query else "")
    return RedirectResponse(f"/login?next={quote(page, safe='')}", status_code=303)


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port.

    >>> _host_name("[::1]:8787"), _host_name("localhost:8787"), _host_name("")
    ('::1', 'localhost', '')
    >>> _host_name("[::1].example.org")
    '[::1].example.org'
    """
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        return name if port in ("", ":") or port[1:].isdecimal() else host
    return host.partition(":")[0].lower()


def _check_origin(headers: Headers) -> None:
    origin = headers.get("origin")
    if origin is None:
        return
    try:
        same = urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
    except ValueError:
        same = False
    if not same:
        raise RefusedError(
            403,
            f"a page at '{origin}' may not change anything here",
            where="Origin header",
            hint="open the dashboard itself, or use a program with a bearer token",
        )


def _with_headers(send: Send, path: str) -> Send:
    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if path.startswith(FOR_PROGRAMS[:2]):
                headers.setdefault("Cache-Control", "no-store")
            elif path.startswith("/static/"):
                headers.setdefault("Cache-Control", "no-cache")  # revalidated, sent if changed
        await send(message)

    return send_more

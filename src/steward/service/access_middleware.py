"""The one way in: every request and every socket passes here before anything else sees it.

Checked in this order: the Host header (no DNS name but our own may lead to a loopback address,
so that a web page cannot reach it by rebinding its name), the Origin of anything that changes
something, who is asking, how often, and how much they send.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import ceil
from types import MappingProxyType
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steward.errors import StewardError
from steward.service.authentication import Authenticator, User, is_loopback
from steward.service.failures import RefusedError, error_response
from steward.service.limits import (
    BodyLimit,
    BodyTooLargeError,
    BodyTooSlowError,
    RateLimit,
    StreamLimit,
)
from steward.store.tokens import Role

__all__ = ["OPEN", "PUSHED", "AccessMiddleware"]

OPEN = ("/healthz", "/readyz", "/login", "/static/")
# Those who push telemetry are slowed down by the intake, which knows how much it can take.
PUSHED = ("/api/v1/write", "/v1/metrics", "/v1/logs")
UNCOUNTED = ("/healthz", "/readyz", "/static/", "/_nicegui", *PUSHED)
FOR_PROGRAMS = ("/api/", "/metrics", "/_nicegui", "/v1/")
REPEATABLE = frozenset({"state", "kind", "metric"})  # filters that take several values
HARMLESS = ("GET", "HEAD", "OPTIONS")
# All that an agent's token opens. How much it may bring there is the intake's to say.
FOR_AGENTS = (
    "/api/v1/agents/parcels",
    "/api/v1/agents/time",
    "/api/v1/write",
    "/v1/metrics",
    "/v1/logs",
)
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
    """An ASGI wrapper. `loopback_only`: only this machine can reach the service at all.

    `uploads` are the paths to which more may be posted than elsewhere.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Authenticator,
        rate: RateLimit,
        body: BodyLimit,
        loopback_only: bool,
        uploads: Mapping[str, StreamLimit] = MappingProxyType({}),
    ) -> None:
        self.app = app
        self._access = access
        self._rate = rate
        self._body = body
        self._loopback_only = loopback_only
        self._uploads = uploads

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
            if user is None and not scope["path"].startswith(OPEN):
                await _to_login(scope)(scope, receive, send)
                return
            scope.setdefault("state", {})["user"] = user
            receive = await self._read(scope, receive)
        except StewardError as fault:
            await error_response(fault)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = Headers(scope=scope)
            self._check_host(headers)
            _check_origin(headers)
            user = self._access.user(headers)
            if user is None or user.role is Role.AGENT:
                raise _must_log_in()
        except StewardError:
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        await self.app(scope, receive, send)

    def _enter(self, scope: Scope) -> User | None:
        headers = Headers(scope=scope)
        path: str = scope["path"]
        self._check_host(headers)
        if scope["method"] not in HARMLESS:
            _check_origin(headers)
        _check_query(scope)
        user = self._access.user(headers)
        if user is not None and user.role is Role.AGENT:
            return _agent(user, path)
        if not path.startswith(UNCOUNTED):
            self._count(scope, user)
        programs = path.startswith(FOR_PROGRAMS) or scope["method"] not in HARMLESS
        if user is None and programs and not path.startswith(OPEN):
            raise _must_log_in()
        return user

    def _check_host(self, headers: Headers) -> None:
        name = _host_name(headers.get("host", ""))
        if self._loopback_only and not is_loopback(name):
            raise RefusedError(
                400,
                f"the request is for host '{name}', but steward listens on this machine alone",
                where="Host header",
                hint="use http://localhost or http://127.0.0.1, or set service.host",
            )

    def _count(self, scope: Scope, user: User | None) -> None:
        address = scope["client"][0] if scope.get("client") else ""
        wait_s = self._rate.wait_s((address, user.name if user else ""))
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
            with _in_words(self._body.most_bytes, "service.body_limit_bytes"):
                return await self._body.read(scope, receive)
        with _in_words(upload.most_bytes, "service.upload_limit_bytes"):
            pieces = await upload.read(scope, receive)

        async def received() -> Message:
            with _in_words(upload.most_bytes, "service.upload_limit_bytes"):
                return await pieces()

        return received


@contextmanager
def _in_words(most_bytes: int, setting: str) -> Iterator[None]:
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


def _agent(user: User, path: str) -> User:
    if path not in FOR_AGENTS:
        raise RefusedError(
            403,
            f"the token '{user.name}' is an agent's: it only brings telemetry",
            where="Authorization header",
            hint="to look, make a token with `--role viewer`",
        )
    return user


def _must_log_in() -> RefusedError:
    return RefusedError(
        401,
        "this needs a valid access token",
        where="Authorization header",
        hint="send `Authorization: Bearer TOKEN`; `steward token new` makes one",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _to_login(scope: Scope) -> ASGIApp:
    query = scope.get("query_string", b"").decode("latin-1")
    page = scope["path"] + (f"?{query}" if query else "")
    return RedirectResponse(f"/login?next={quote(page, safe='')}", status_code=303)


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port.

    >>> _host_name("[::1]:8787"), _host_name("localhost:8787"), _host_name("")
    ('::1', 'localhost', '')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
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
                headers.setdefault("Cache-Control", "no-cache")  # asked for anew, sent if changed
        await send(message)

    return send_more

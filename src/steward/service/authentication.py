"""Who is asking, and what they may do: tokens for programs, sessions for pages.

On a loopback address a request without credentials is the person at this machine. Anywhere else
nobody is anybody without a token. A credential that is given is never overlooked: a wrong bearer
token is refused even where none is needed.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from steward.store.tokens import Role, Token, Tokens

__all__ = ["SESSION_S", "Authenticator", "User", "is_loopback"]

SESSION_S = 12 * 3600.0
MOST_SESSIONS = 1000
# A proxy on this machine speaks for people elsewhere: who comes through one is not local.
PROXIED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Somebody who may be here. `session` is the hash of a cookie, for pages that stay open."""

    name: str
    role: Role
    session: str = ""
    node: str = ""  # of an agent's token

    @property
    def may_decide(self) -> bool:
        return self.role is Role.OPERATOR


LOCAL = User(name="local", role=Role.OPERATOR, node="*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    token: Token
    ends_s: float


def is_loopback(host: str) -> bool:
    """Say whether an address can be reached from this machine alone.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Authenticator:
    """Tells users by their token or session. Sessions live in memory and end with the process."""

    def __init__(
        self, tokens: Tokens, *, required: bool, cookie: str, now_s: Callable[[], float] = time.time
    ) -> None:
        self.required = required
        self.cookie = cookie
        self._tokens = tokens
        self._now_s = now_s
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._lock = threading.Lock()

    def user(self, headers: Headers) -> User | None:
        """Return who sent these headers, or None when they have to say so first."""
        given = headers.get("authorization")
        if given is not None:
            return self._bearer(given)
        user = self.session(self._cookie_of(headers))
        if user is not None:
            return user
        local = not self.required and not any(name in headers for name in PROXIED)
        return LOCAL if local else None

    def session(self, hashed: str) -> User | None:
        """Return whose session this is, if it has not ended and its token was not revoked."""
        with self._lock:
            session = self._sessions.get(hashed)
            if session is None:
                return None
            if session.ends_s <= self._now_s() or session.token not in self._tokens.list():
                del self._sessions[hashed]
                return None
        return User(name=session.token.name, role=session.token.role, session=hashed)

    def still(self, user: User) -> User | None:
        """Return the user of a page that was opened a while ago, if they still may be here."""
        if user.session:
            return self.session(user.session)
        return user if user == LOCAL and not self.required else None

    def log_in(self, token: str) -> str | None:
        """Open a session and return its secret, or None for a token that is not one of ours."""
        found = self._tokens.find(token)
        if found is None or found.role is Role.AGENT:  # pages are for people
            return None
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[_hash(secret)] = _Session(token=found, ends_s=self._now_s() + SESSION_S)
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return secret

    def log_out(self, headers: Headers) -> None:
        """End the session that these headers belong to."""
        with self._lock:
            self._sessions.pop(self._cookie_of(headers), None)

    def _bearer(self, given: str) -> User | None:
        kind, _, token = given.partition(" ")
        found = self._tokens.find(token.strip()) if kind.lower() == "bearer" else None
        return User(name=found.name, role=found.role, node=found.node) if found else None

    def _cookie_of(self, headers: Headers) -> str:
        secret = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        return _hash(secret) if secret else ""


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()

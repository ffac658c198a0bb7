"""Who sends a request: tokens for programs, sessions for browsers, peer credentials on the socket.

No address is trusted, loopback included: on a shared login node everybody has it, and a reverse
proxy lends it to the internet. A credential that is given counts alone: a wrong bearer token is
refused even beside a valid cookie.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from steward.store.tokens import Role, Token, Tokens, hash_secret, new_secret

__all__ = ["LOGIN_CODE_S", "SESSION_S", "Authenticator", "User"]

SESSION_S = 12 * 3600.0
LOGIN_CODE_S = 600.0
MOST_SESSIONS = 1000
MOST_LOGIN_CODES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person or program with a role. `session` is the hash of a cookie, of pages left open.

    `started_service`: it is who started this steward, by the link or token that it printed.
    """

    name: str
    role: Role
    session: str = ""
    node: str = ""  # of an agent's token
    started_service: bool = False

    @property
    def may_decide(self) -> bool:
        return self.role.includes(Role.OPERATOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    user: User
    token: Token | None  # ends with it; None for one that lives as long as the process
    ends_s: float


class Authenticator:
    """Finds the user of a request. Sessions and login codes end with the process."""

    def __init__(
        self, tokens: Tokens, *, cookie: str, now_s: Callable[[], float] = time.time
    ) -> None:
        self.cookie = cookie
        self.tokens = tokens
        self._now_s = now_s
        self._own: dict[str, User] = {}
        self._codes: OrderedDict[str, tuple[User, float]] = OrderedDict()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._lock = threading.Lock()

    def user(self, headers: Headers, *, peer: User | None = None) -> User | None:
        """Return who sent these headers; `peer` is who is at the other end of a local socket."""
        given = headers.get("authorization")
        if given is not None:
            kind, _, secret = given.partition(" ")
            found = self._find(secret.strip()) if kind.lower() == "bearer" else None
            return found[0] if found else None
        return self.session(self._cookie_of(headers)) or peer

    def issue_token(self, name: str, role: Role) -> str:
        """Return a token that is valid until the process ends and is written nowhere."""
        secret = new_secret()
        self._own[hash_secret(secret)] = User(name=name, role=role, started_service=True)
        return secret

    def issue_login_code(self, name: str, role: Role) -> str:
        """Return a code that can be exchanged once, within `LOGIN_CODE_S`, for a session."""
        code = secrets.token_urlsafe(32)
        with self._lock:
            user = User(name=name, role=role, started_service=True)
            self._codes[hash_secret(code)] = (user, self._now_s() + LOGIN_CODE_S)
            _drop_oldest(self._codes, MOST_LOGIN_CODES)
        return code

    def session(self, hashed: str) -> User | None:
        """Return the user of a session that has not ended and whose token is still valid."""
        with self._lock:
            session = self._sessions.get(hashed)
            if session is None:
                return None
            valid = session.token is None or self.tokens.is_valid(session.token)
            if session.ends_s <= self._now_s() or not valid:
                del self._sessions[hashed]
                return None
        return session.user

    def still(self, user: User) -> User | None:
        """Return the user of a page that was opened a while ago, if the session goes on."""
        return self.session(user.session) if user.session else None

    def log_in(self, token: str) -> str | None:
        """Open a session and return its secret, or None for a token that opens no pages."""
        found = self._find(token)
        if found is None or found[0].role is Role.AGENT:
            return None
        return self._open_session(*found)

    def redeem(self, code: str) -> str | None:
        """Exchange a login code for a session's secret, or return None: used, expired, unknown."""
        with self._lock:
            user, ends_s = self._codes.pop(hash_secret(code), (None, 0.0))
        if user is None or ends_s <= self._now_s():
            return None
        return self._open_session(user, None)

    def log_out(self, headers: Headers) -> None:
        """End the session that these headers belong to."""
        with self._lock:
            self._sessions.pop(self._cookie_of(headers), None)

    def _find(self, secret: str) -> tuple[User, Token | None] | None:
        own = self._own.get(hash_secret(secret))
        if own is not None:
            return own, None
        token = self.tokens.find(secret)
        if token is None:
            return None
        return User(name=token.name, role=token.role, node=token.node), token

    def _open_session(self, user: User, token: Token | None) -> str:
        secret = secrets.token_urlsafe(32)
        hashed = hash_secret(secret)
        with self._lock:
            self._sessions[hashed] = _Session(
                user=replace(user, session=hashed),
                token=token,
                ends_s=self._now_s() + SESSION_S,
            )
            _drop_oldest(self._sessions, MOST_SESSIONS)
        return secret

    def _cookie_of(self, headers: Headers) -> str:
        secret = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        return hash_secret(secret) if secret else ""


def _drop_oldest(values: OrderedDict[str, Any], most: int) -> None:
    while len(values) > most:
        values.popitem(last=False)

"""`/login` and `/logout`: a form that needs no script, and a cookie that no script can read.

`/login?code=CODE` is the one-time link that `steward up` prints.
"""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from steward.service.authentication import SESSION_S, Authenticator
from steward.service.limits import RateLimit

__all__ = ["login_routes", "safe_target"]

TRIES_PER_MINUTE = 20
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Log in · steward</title>
<link rel="icon" href="/static/steward.svg"><link rel="stylesheet" href="/static/steward.css">
</head>
<body class="st-plain">
<main class="st-login">
<h1><img src="/static/steward.svg" alt="" width="28" height="28"> steward</h1>
<p>{site}</p>
<form method="post" action="/login?next={next_}">
<label for="token">Access token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus
 placeholder="stw_…" aria-describedby="message">
<p id="message" role="alert">{message}</p>
<button type="submit">Log in</button>
</form>
<p class="st-quiet"><code>steward up</code> prints a link that logs in once;
<code>steward token new NAME</code> makes a token.</p>
</main>
</body>
</html>
"""


def safe_target(wanted: str) -> str:
    """Return where to go after the login: a page of ours, never another site.

    >>> safe_target("/decisions?state=waiting"), safe_target("//evil.example"), safe_target("")
    ('/decisions?state=waiting', '/', '/')
    """
    ours = wanted.startswith("/") and not wanted.startswith(("//", "/\\"))
    return wanted if ours and wanted.isprintable() else "/"


def login_routes(access: Authenticator, site: str) -> APIRouter:
    """Return the pages by which people log in and out."""
    routes = APIRouter(include_in_schema=False)
    pages = _LoginPages(access, site)
    routes.get("/login")(pages.show)
    routes.post("/login")(pages.log_in)
    routes.post("/logout")(pages.log_out)
    return routes


class _LoginPages:
    def __init__(self, access: Authenticator, site: str) -> None:
        self._access = access
        self._site = site
        self._failures = RateLimit(TRIES_PER_MINUTE)

    async def show(self, request: Request) -> Response:
        code = request.query_params.get("code")
        if code is None:
            return self._form(request)
        secret = self._access.redeem(code)
        if secret is None:
            return self._refused(request, "This link has been used or has expired.")
        return self._logged_in(request, secret)

    async def log_in(self, request: Request) -> Response:
        body = (await request.body()).decode("utf-8", errors="replace")
        token = parse_qs(body).get("token", [""])[0].strip()
        secret = self._access.log_in(token)
        if secret is None:
            return self._refused(request, "This is not a valid token. It may have been revoked.")
        return self._logged_in(request, secret)

    async def log_out(self, request: Request) -> Response:
        self._access.log_out(request.headers)
        answer = RedirectResponse("/login", status_code=303)
        answer.delete_cookie(self._access.cookie, httponly=True, samesite="strict")
        return answer

    def _logged_in(self, request: Request, secret: str) -> Response:
        answer = RedirectResponse(
            safe_target(request.query_params.get("next", "")),
            status_code=303,
            headers={"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"},
        )
        answer.set_cookie(
            self._access.cookie,
            secret,
            max_age=int(SESSION_S),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    def _refused(self, request: Request, message: str) -> Response:
        """Count a wrong login against its address; a valid one is never refused for it."""
        if self._failures.wait_s(request.client.host if request.client else ""):
            return self._form(request, "Too many tries. Wait a minute, then try again.", 429)
        return self._form(request, message, 401)

    def _form(self, request: Request, message: str = "", status: int = 200) -> Response:
        target = safe_target(request.query_params.get("next", ""))
        page = PAGE.format(
            site=escape(self._site), next_=quote(target, safe=""), message=escape(message)
        )
        return HTMLResponse(page, status_code=status, headers={"Cache-Control": "no-store"})

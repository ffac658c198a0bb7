"""`/login` and `/logout`: a form that needs no script, and a cookie that no script can read."""

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
<title>steward · log in</title>
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
<p class="st-quiet">An operator makes tokens with <code>steward token new</code>.</p>
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
    """Return the pages that let people in and out."""
    routes = APIRouter(include_in_schema=False)
    tries = RateLimit(TRIES_PER_MINUTE)

    def form(wanted: str, message: str = "", status: int = 200) -> Response:
        page = PAGE.format(
            site=escape(site), next_=quote(safe_target(wanted), safe=""), message=escape(message)
        )
        return HTMLResponse(page, status_code=status, headers={"Cache-Control": "no-store"})

    @routes.get("/login")
    async def show(request: Request) -> Response:
        return form(request.query_params.get("next", ""))

    @routes.post("/login")
    async def log_in(request: Request) -> Response:
        wanted = request.query_params.get("next", "")
        if tries.wait_s(request.client.host if request.client else ""):
            return form(wanted, "Too many tries. Wait a minute, then try again.", 429)
        body = (await request.body()).decode("utf-8", errors="replace")
        token = parse_qs(body).get("token", [""])[0].strip()
        secret = access.log_in(token)
        if secret is None:
            return form(wanted, "This is not a valid token. It may have been revoked.", 401)
        answer = RedirectResponse(safe_target(wanted), status_code=303)
        answer.set_cookie(
            access.cookie,
            secret,
            max_age=int(SESSION_S),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    @routes.post("/logout")
    async def log_out(request: Request) -> Response:
        access.log_out(request.headers)
        answer = RedirectResponse("/login", status_code=303)
        answer.delete_cookie(access.cookie, httponly=True, samesite="strict")
        return answer

    return routes

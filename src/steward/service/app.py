"""Builds the service: the API, the pages, and the access middleware in front of both."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from steward import __version__
from steward.clients.transport_rule import is_loopback
from steward.config.local_jobs import LocalJobRunner
from steward.config.settings import Settings
from steward.loop import Loop
from steward.model.site import SiteHealth
from steward.model.view import ClusterView
from steward.observe.intake import Intake
from steward.service.access_middleware import OPEN, PUSHED, AccessMiddleware
from steward.service.api import PREFIX, api_routes
from steward.service.api.agents import PARCELS
from steward.service.api.job_drafts import DRAFTS
from steward.service.api.lab import UPLOADS
from steward.service.api.messages import ALERTS
from steward.service.authentication import Authenticator
from steward.service.failures import handle_failures
from steward.service.job_outlook import JobOutlook, Waits
from steward.service.lab import LabRuns
from steward.service.lab.upload import request_shapes
from steward.service.limits import BodyLimit, RateLimit, StreamLimit
from steward.service.live_state import LiveState
from steward.service.local_users import LocalUsers
from steward.service.login import login_routes
from steward.service.questions import LiveQuestions
from steward.service.serving_state import ServingState
from steward.service.wire import wire_routes
from steward.store.tokens import Tokens

__all__ = ["authenticator", "create_api", "create_app"]

log = logging.getLogger(__name__)

PULSE_S = 1.0
SPARKS = 50  # findings whose samples are drawn
METHODS = ("GET", "POST", "DELETE")
JOBS_PATH = "/api/v1/jobs"
MOST_SUBMITTED_BYTES = 8 << 20  # a script, an environment, ten thousand indices
ALONE = ("/healthz", "/readyz", "/metrics", "/login", "/logout")
STATIC = Path(__file__).parent / "static"


def create_app(  # noqa: PLR0913 - what a service is made of
    loop: Loop[ClusterView],
    settings: Settings,
    *,
    access: Authenticator,
    truth: Callable[[], float] | None = None,
    speed: float = 1.0,
    alive: Callable[[], bool] = lambda: True,
    jobs: LocalJobRunner | None = None,
    sites: Callable[[], Sequence[SiteHealth]] = tuple,
    waits: Waits | None = None,
) -> FastAPI:
    """Return the whole service. The page framework allows one per process.

    For a demo, `truth` is the simulator's own account of GPU-hours and `speed` how much faster than
    real time it runs. `alive` returns whether the loop's thread runs.
    """
    from steward.service.pages import add_pages  # noqa: PLC0415 - heavy, and not for API tests

    live_state = LiveState(loop, settings, truth=truth, speed=speed, alive=alive, sites=sites)
    lab = LabRuns()
    outlook = JobOutlook(settings, waits=waits)
    questions = LiveQuestions(live_state, outlook, jobs)
    app = create_api(
        live_state,
        access,
        lab,
        intake=loop.intake,
        jobs=jobs,
        outlook=outlook,
        questions=questions,
    )
    add_pages(app, live_state, access, lab, outlook, questions, jobs)
    return app


def create_api(  # noqa: PLR0913 - what a service is made of
    live_state: LiveState,
    access: Authenticator,
    lab: LabRuns | None = None,
    *,
    intake: Intake | None = None,
    jobs: LocalJobRunner | None = None,
    outlook: JobOutlook | None = None,
    questions: LiveQuestions | None = None,
) -> FastAPI:
    """Return the service without its pages. With an intake, others may send telemetry."""
    settings = live_state.settings.service
    lab = lab or LabRuns()
    outlook = outlook or JobOutlook(live_state.settings)
    questions = questions or LiveQuestions(live_state, outlook, jobs)
    app = _Service(
        title="steward",
        version=__version__,
        summary="An autonomous steward for machine-learning infrastructure",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # it would load its scripts from elsewhere
        redoc_url=None,
        lifespan=_life_of(live_state, lab, questions),
    )
    app.state.live_state = live_state
    app.include_router(
        api_routes(
            live_state,
            lab,
            access.tokens,
            outlook,
            intake=intake,
            jobs=jobs,
            questions=questions,
        )
    )
    if intake is not None:
        app.include_router(wire_routes(intake))
    app.include_router(login_routes(access, live_state.settings.site.name))
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for path in ("/api/{rest:path}", "/v1/{rest:path}", *ALONE):
        app.router.routes.append(Route(path, _Nothing(app), include_in_schema=False))
    handle_failures(app)
    large = (UPLOADS, PARCELS, *PUSHED)
    submitted = BodyLimit(min(settings.upload_limit_bytes, MOST_SUBMITTED_BYTES))
    app.add_middleware(
        AccessMiddleware,
        access=access,
        rate=RateLimit(settings.requests_per_minute),
        body=BodyLimit(settings.body_limit_bytes),
        # A trusted proxy checks names itself, and asks for others than this machine's.
        check_host=is_loopback(settings.host) and not settings.trusted_proxies,
        uploads={
            **{path: StreamLimit(settings.upload_limit_bytes) for path in large},
            **dict.fromkeys((JOBS_PATH, PREFIX + DRAFTS, PREFIX + ALERTS), submitted),
        },
        open_metrics=settings.open_metrics,
        local_user=LocalUsers(live_state.settings.access).user,
    )
    if settings.trusted_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(settings.trusted_proxies))
    return app


def authenticator(settings: Settings, tokens: Tokens) -> Authenticator:
    """Return the one authenticator of a service, for HTTP and gRPC."""
    # Browsers share cookies between ports: two stewards on one machine must not log each other out.
    return Authenticator(tokens, cookie=f"steward_{settings.service.port}")


class _Service(FastAPI):
    """States in the OpenAPI document where a token is needed; `AccessMiddleware` checks it."""

    def openapi(self) -> dict[str, Any]:
        known = self.openapi_schema is not None
        document = super().openapi()
        if known:
            return document
        document["components"]["schemas"].update(request_shapes())
        document["components"]["securitySchemes"] = {
            "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "made by `steward token new`",
            }
        }
        for path, operations in document["paths"].items():
            for operation in operations.values():
                if not path.startswith(OPEN):
                    operation["security"] = [{"token": []}]
        return document


class _Nothing:
    """Answers API addresses and methods that do not exist, before they reach the pages."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def __call__(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        allowed = [method for method in METHODS if self._answers(scope, method)]
        if allowed:
            raise HTTPException(405, headers={"Allow": ", ".join(allowed)})
        raise HTTPException(404)

    def _answers(self, scope: Scope, method: str) -> bool:
        asked = {**scope, "method": method}
        others = (route for route in self._app.router.routes if not _is_nothing(route))
        return any(route.matches(asked)[0] is Match.FULL for route in others)


def _is_nothing(route: BaseRoute) -> bool:
    return isinstance(route, Mount) or isinstance(getattr(route, "app", None), _Nothing)


def _life_of(
    live_state: LiveState, lab: LabRuns, questions: LiveQuestions
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(_pulse(live_state)),
            asyncio.create_task(_poll_gateways(live_state.serving)),
            asyncio.create_task(_warm_up(questions)),
        ]
        yield
        live_state.closing.set()
        for each in tasks:
            each.cancel()
        await asyncio.to_thread(lab.close)
        for each in tasks:
            with suppress(asyncio.CancelledError):
                await each

    return lifespan


async def _pulse(live_state: LiveState) -> None:
    """Keep the snapshot new, so that pages find it ready and never wait for a disk."""
    while True:
        try:
            snapshot = await asyncio.to_thread(live_state.refresh)
            await asyncio.to_thread(live_state.sparklines.catch_up, snapshot.findings[:SPARKS])
        except Exception:
            log.exception("the pages keep their last snapshot")  # and /readyz reports the fault
        await asyncio.sleep(PULSE_S)


async def _poll_gateways(serving: ServingState) -> None:
    """Keep what model-serving gateways report new; one that is silent delays nothing else."""
    while serving.gateways:
        await asyncio.to_thread(serving.poll)
        await asyncio.sleep(serving.every_s)


async def _warm_up(questions: LiveQuestions) -> None:
    """Read the journal's past in the background; a question before that waits for it."""
    try:
        await asyncio.to_thread(questions.warm_up)
    except Exception:
        log.exception("questions about the past will read the journal themselves")

"""The smallest world with the real loop, and the service in front of it."""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from steward.clock import ManualClock
from steward.config.local_jobs import LocalJobRunner
from steward.config.settings import Settings
from steward.loop import Loop
from steward.model.decision import Autonomy
from steward.model.identity import DecisionId
from steward.service.app import create_api
from steward.service.authentication import Authenticator
from steward.service.lab import LabRuns
from steward.service.live_state import LiveState
from steward.store.tokens import Role, Tokens
from tiny_world import TinyWorld, tiny_loop, turn_until

START_S = 1_700_000_000.0
OWNER = "local"
LONG_ENOUGH_S = 400.0  # for a finding and a decision
AND_CHECKED_S = 1100.0  # for an outcome as well


class Client:
    """Speaks to an application without a network, like a browser that keeps its cookies.

    Every request has the token, if one is given; `address` is where requests come from.
    """

    def __init__(
        self, app: FastAPI, base_url: str, *, token: str = "", address: str = "127.0.0.1"
    ) -> None:
        self.app = app
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._address = address
        self.cookies = httpx.Cookies()
        self._base_url = base_url

    def request(self, method: str, path: str, **rest: Any) -> httpx.Response:
        return asyncio.run(self._request(method, path, **rest))

    def get(self, path: str, **rest: Any) -> httpx.Response:
        return self.request("GET", path, **rest)

    def post(self, path: str, **rest: Any) -> httpx.Response:
        return self.request("POST", path, **rest)

    async def _request(self, method: str, path: str, **rest: Any) -> httpx.Response:
        transport = httpx.ASGITransport(
            app=self.app, raise_app_exceptions=False, client=(self._address, 50_000)
        )
        async with httpx.AsyncClient(
            transport=transport,
            base_url=self._base_url,
            cookies=self.cookies,
            headers=self._headers,
        ) as client:
            answer = await client.request(method, path, **rest)
            self.cookies = client.cookies
            return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceBed:
    """Everything that a test of the service may want to touch."""

    loop: Loop
    clock: ManualClock
    world: TinyWorld
    tokens: Tokens
    live_state: LiveState
    access: Authenticator
    lab: LabRuns
    token: str  # the owner's
    client: Client  # with that token
    anonymous: Client

    def turn(self, seconds: float) -> None:
        """Let the loop go round for so long."""
        turn_until(self.loop, self.clock, self.clock.now_s() + seconds)

    def only_decision(self) -> DecisionId:
        """Return the id of the decision that the tiny world leads to."""
        (told,) = self.loop.journal.stories()
        return told[1].decision.id

    def bearer(self, name: str, role: Role) -> dict[str, str]:
        """Make a token and return the header that shows it."""
        return {"Authorization": f"Bearer {self.tokens.make(name, role)}"}


MakeBed = Callable[..., ServiceBed]


def build_bed(
    folder: Path,
    *,
    run_s: float = 0.0,
    autonomy: Autonomy = Autonomy.APPROVE,
    truth: Callable[[], float] | None = None,
    alive: Callable[[], bool] = lambda: True,
    lab: LabRuns | None = None,
    jobs: bool = False,
    **service: object,
) -> ServiceBed:
    """Return a bed whose loop has run for `run_s`; `service` are its settings.

    With `jobs`, they can be submitted, with the owner's token as the account of this process.
    """
    clock, world = ManualClock(START_S), TinyWorld()
    loop = tiny_loop(folder, world, clock, autonomy=autonomy)
    accounts = {OWNER: pwd.getpwuid(os.getuid()).pw_name}
    settings = Settings.model_validate(
        {
            "store": {"folder": str(folder)},
            "service": service,
            "jobs": {"slots": 2, "token_accounts": accounts},
        }
    )
    runner = LocalJobRunner.open(settings, clock=clock) if jobs else None
    tokens = Tokens(settings.store.tokens_file)
    live_state = LiveState(loop, settings, truth=truth, alive=alive)
    host = settings.service.host
    access = Authenticator(tokens, cookie="steward_test")
    turn_until(loop, clock, START_S + run_s)
    lab = lab or LabRuns()
    token = access.issue_token(OWNER, Role.ADMIN)
    app, url = create_api(live_state, access, lab, jobs=runner), f"http://{host}:8787"
    return ServiceBed(
        loop=loop,
        clock=clock,
        world=world,
        tokens=tokens,
        live_state=live_state,
        access=access,
        lab=lab,
        token=token,
        client=Client(app, url, token=token),
        anonymous=Client(app, url),
    )

"""`GET /api/v1/status`: how this steward does, and the sites that it runs."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from steward.model.decision import Autonomy
from steward.model.site import SiteState
from steward.service.api.cluster import FaultReply
from steward.service.api.replies import Number, Reply, failures
from steward.service.live_state import LiveState

__all__ = ["status_routes"]


class SiteReply(Reply):
    """One more engine, with a steward of its own."""

    name: str
    state: SiteState
    text: str = Field(description="what is wrong; empty if nothing is")
    url: str = Field(description="its dashboard; empty while it does not run")
    turns: int
    last_turn_t_s: Number
    since_s: Number = Field(description="since when its engine does not answer")
    faults: int = Field(description="recent ones")


class SteadinessReply(Reply):
    """How this steward does."""

    site: str
    url: str
    turns: int
    t_s: float
    last_turn_s: float
    autonomy: Autonomy
    breaker: str
    unready: list[str] = Field(description="why it cannot be relied on now")
    unreachable: list[FaultReply] = Field(
        description="engines that do not answer; `t_s` is since when"
    )
    faults: int = Field(description="recent ones; `GET /api/v1/cluster` lists them")
    sites: list[SiteReply] = Field(description="the others that this one started")


def status_routes(live_state: LiveState) -> APIRouter:
    """Return the route about steward itself."""
    routes = APIRouter(tags=["health"])

    @routes.get("/status", responses=failures())
    def status() -> SteadinessReply:
        """Show whether the loop turns and its engine answers, and the same of each site."""
        unready, settings = live_state.unready(), live_state.settings
        now = live_state.snapshot.status
        return SteadinessReply(
            site=settings.site.name,
            url=settings.service.url,
            turns=now.turns,
            t_s=now.t_s,
            last_turn_s=now.last_turn_s,
            autonomy=now.autonomy,
            breaker=now.breaker,
            unready=unready,
            unreachable=[FaultReply.model_validate(each) for each in now.unreachable],
            faults=len(now.faults),
            sites=[SiteReply.model_validate(each) for each in live_state.sites()],
        )

    return routes

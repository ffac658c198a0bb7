"""`/api/v1/tables/NAME.csv` and `/api/v1/search`: everything that pages show, to take along."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from steward.errors import StewardError
from steward.service.api.replies import Reply, failures
from steward.service.failures import RefusedError
from steward.service.live_state import LiveState
from steward.service.tables import TABLES, as_csv, search

__all__ = ["table_routes"]

Name = Annotated[
    str, Path(max_length=40, pattern="^[a-z]+$", description=f"one of {', '.join(TABLES)}")
]
Words = Annotated[str, Query(max_length=200, description="all of them have to be in one row")]


class HitReply(Reply):
    """One thing that was found."""

    kind: str
    id: str
    text: str
    path: str


class HitList(Reply):
    """What was found, exact names first; at most 100."""

    items: list[HitReply]


def table_routes(live_state: LiveState, *, job_pages: bool) -> APIRouter:
    """Return the routes about tables."""
    routes = APIRouter(tags=["tables"])

    @routes.get(
        "/tables/{table}.csv",
        response_class=Response,
        responses={
            200: {"content": {"text/csv": {}}, "description": "The table."},
            **failures(404),
        },
    )
    def export(table: Name) -> Response:
        """Return a table of the dashboard as CSV."""
        try:
            text = as_csv(table, live_state.refresh())
        except StewardError as fault:
            raise RefusedError(404, fault.problem, where="path.table", hint=fault.hint) from fault
        headers = {"Content-Disposition": f'attachment; filename="{table}.csv"'}
        return Response(text, media_type="text/csv", headers=headers)

    @routes.get("/search", responses=failures())
    def found(q: Words = "") -> HitList:
        """Search jobs, GPUs, nodes, tenants, findings, decisions and rules."""
        hits = search(q, live_state.refresh(), job_pages=job_pages)
        return HitList(items=[HitReply.model_validate(each) for each in hits])

    return routes

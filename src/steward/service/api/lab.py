"""`/api/v1/lab/comparisons`: run policies on an uploaded trace, watch, read what came out."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import Field

from steward.service.api.replies import ErrorRecord, Number, Reply, failures
from steward.service.authentication import User
from steward.service.failures import RefusedError
from steward.service.lab.comparison_request import check_names
from steward.service.lab.runs import LabRun, LabRuns, LabState
from steward.service.lab.upload import request_body, uploaded_comparison

__all__ = ["UPLOADS", "lab_routes"]

UPLOADS = "/api/v1/lab/comparisons"  # the one address that takes large requests

# The report is ours and has no script. It may be framed by our pages, which ask how tall it is.
FRAMED = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-same-origin",
    "X-Frame-Options": "SAMEORIGIN",
}

Id = Annotated[
    str, Path(max_length=40, pattern="^[!-~]+$", description="an id, e.g. `lab-0123456789ab`")
]


class ProgressReply(Reply):
    """How far a comparison is."""

    doing: str = Field(description="for people")
    share: float = Field(description="of all replays, 0 to 1")
    left_s: Number = Field(description="until the replays are done; null if unknown")


class ComparisonSummary(Reply):
    """A comparison in a list."""

    id: str
    state: LabState
    trace: str
    policies: list[str]
    gpus: int | None = Field(description="as requested; the results have the number used")
    gpus_per_node: int
    placement: str
    seed: int
    by: str
    t_s: float = Field(description="when it was requested")
    took_s: float
    progress: ProgressReply
    error: ErrorRecord | None = Field(description="what is wrong, where it failed")


class ComparisonReply(ComparisonSummary):
    """A comparison with what came out."""

    results: dict[str, Any] | None = Field(
        description="as `steward lab compare --json` prints it: trace, cluster, settings, policies "
        "with figures and intervals, differences; null until it is done"
    )


class ComparisonList(Reply):
    """Comparisons, newest first."""

    items: list[ComparisonSummary]


def lab_routes(runs: LabRuns) -> APIRouter:
    """Return the routes about comparisons."""
    routes = APIRouter(tags=["lab"])
    _add_asking(routes, runs)

    @routes.get("/lab/comparisons", responses=failures())
    def comparisons() -> ComparisonList:
        """List the comparisons that are remembered."""
        items = [ComparisonSummary.model_validate(_fields(run)) for run in runs.list()]
        return ComparisonList(items=items)

    @routes.get("/lab/comparisons/{comparison}", responses=failures(404))
    def comparison(comparison: Id) -> ComparisonReply:
        """Return the progress of a comparison, and its results."""
        return _reply(runs.look(comparison))

    @routes.get(
        "/lab/comparisons/{comparison}/report",
        response_class=Response,
        responses={200: {"content": {"text/html": {}}}, **failures(404, 409)},
    )
    def report(comparison: Id) -> Response:
        """Show the report of a comparison that is done: one HTML file that needs nothing else."""
        text = runs.read(comparison, "report.html")
        return Response(text, media_type="text/html", headers=FRAMED)

    @routes.get(
        "/lab/comparisons/{comparison}/results",
        response_class=Response,
        responses={200: {"content": {"application/json": {}}}, **failures(404, 409)},
    )
    def results(comparison: Id) -> Response:
        """Return all results of a comparison that is done, with the queue over time."""
        return Response(runs.read(comparison, "results.json"), media_type="application/json")

    return routes


def _add_asking(routes: APIRouter, runs: LabRuns) -> None:
    @routes.post(
        "/lab/comparisons",
        status_code=202,
        responses=failures(409, 415),
        openapi_extra={"requestBody": request_body()},
    )
    async def begin(request: Request) -> ComparisonReply:
        """Compare policies on an uploaded trace, or on a made-up example. One at a time."""
        user = _operator(request)
        with runs.entering() as folder:
            async with uploaded_comparison(request) as asked:
                await asyncio.to_thread(check_names, asked.wanted)
                file = await asyncio.to_thread(asked.save, folder)
            run = runs.begin(
                asked.wanted, folder=folder, trace=asked.trace, file=file, by=user.name
            )
        return _reply(run)

    @routes.delete("/lab/comparisons/{comparison}", responses=failures(404))
    def cancel(request: Request, comparison: Id) -> ComparisonReply:
        """Cancel a comparison that runs; forget one that does not."""
        _operator(request)
        return _reply(runs.cancel(comparison))


def _operator(request: Request) -> User:
    user: User = request.state.user
    if not user.may_decide:
        raise RefusedError(
            403,
            f"{user.name} is a viewer and may not start or end comparisons",
            where="lab",
            hint="ask somebody with an operator token; reports can be read by all",
        )
    return user


def _fields(run: LabRun) -> dict[str, Any]:
    fault = run.fault
    return {
        **run.wanted.model_dump(),
        **{name: getattr(run, name) for name in ("id", "state", "trace", "by", "t_s", "took_s")},
        "progress": {"doing": run.doing, "share": run.share, "left_s": run.left_s},
        "error": fault.as_record() if fault else None,
    }


def _reply(run: LabRun) -> ComparisonReply:
    return ComparisonReply.model_validate({**_fields(run), "results": run.record})

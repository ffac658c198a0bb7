"""The HTTP API. Belongs here: shapes of answers and how they are filled. Nothing is decided."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from steward.config.local_jobs import LocalJobRunner
from steward.observe.intake import Intake
from steward.service.api.agents import agent_routes
from steward.service.api.ask import ask_routes
from steward.service.api.cluster import cluster_routes
from steward.service.api.decisions import decision_routes
from steward.service.api.findings import finding_routes
from steward.service.api.fleet_health import fleet_health_routes
from steward.service.api.health import health_routes
from steward.service.api.jobs import job_routes
from steward.service.api.journal import journal_routes
from steward.service.api.known_parameters import refuse_unknown_parameters
from steward.service.api.lab import lab_routes
from steward.service.api.messages import message_routes
from steward.service.api.metrics import metric_routes
from steward.service.api.rules import rule_routes
from steward.service.api.savings import savings_routes
from steward.service.api.status import status_routes
from steward.service.api.tables import table_routes
from steward.service.api.telemetry import gpu_routes, node_routes
from steward.service.api.tokens import token_routes
from steward.service.job_outlook import JobOutlook
from steward.service.lab import LabRuns
from steward.service.live_state import LiveState
from steward.service.questions import LiveQuestions
from steward.store.tokens import Tokens

__all__ = ["PREFIX", "api_routes"]

PREFIX = "/api/v1"


def api_routes(  # noqa: PLR0913 - what the routes are made of
    live_state: LiveState,
    lab: LabRuns,
    tokens: Tokens,
    outlook: JobOutlook,
    *,
    intake: Intake | None = None,
    jobs: LocalJobRunner | None = None,
    questions: LiveQuestions | None = None,
) -> APIRouter:
    """Return all routes that programs use; with an intake, agents may bring what they see."""
    strict = APIRouter(prefix=PREFIX, dependencies=[Depends(refuse_unknown_parameters)])
    if intake is not None:
        strict.include_router(agent_routes(intake, live_state.roster))
    for part in (
        status_routes(live_state),
        cluster_routes(live_state),
        node_routes(live_state),
        gpu_routes(live_state),
        fleet_health_routes(live_state),
        finding_routes(live_state),
        rule_routes(live_state),
        decision_routes(live_state),
        savings_routes(live_state),
        journal_routes(live_state),
        lab_routes(lab),
        job_routes(live_state, outlook, jobs),
        message_routes(live_state),
        table_routes(live_state, job_pages=jobs is not None),
        token_routes(tokens),
        ask_routes(questions or LiveQuestions(live_state, outlook, jobs)),
    ):
        strict.include_router(part)
    routes = APIRouter()
    routes.include_router(strict)
    routes.include_router(health_routes(live_state))
    routes.include_router(metric_routes(live_state))
    return routes

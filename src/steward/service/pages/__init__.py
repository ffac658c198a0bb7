"""The dashboard. Belongs here: how things look. A page reads the live state and writes choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from html import escape
from pathlib import Path
from typing import NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from nicegui import app as nicegui_app
from nicegui import ui

from steward.config.local_jobs import LocalJobRunner
from steward.model.identity import DecisionId, FindingId
from steward.service.authentication import Authenticator
from steward.service.job_outlook import JobOutlook
from steward.service.lab import LabRuns
from steward.service.live_state import LiveState
from steward.service.pages.cluster import cluster_page
from steward.service.pages.decisions import decision_page, decisions_page
from steward.service.pages.findings import findings_page
from steward.service.pages.frame import LOOK_COOKIE, LOOKS, Show, Visit, frame
from steward.service.pages.jobs import JobReader, job_page, jobs_page
from steward.service.pages.lab import lab_page
from steward.service.pages.memory import memory_page
from steward.service.pages.names import (
    decision_name,
    finding_name,
    gpu_name,
    node_name,
    rule_name,
)
from steward.service.pages.planning import plan_page
from steward.service.pages.rules import finding_page, rule_page, rules_page
from steward.service.pages.savings import savings_page
from steward.service.pages.serving import serving_page
from steward.service.pages.telemetry import gpu_page, node_page, nodes_page

__all__ = ["add_pages"]

STATIC = Path(__file__).parents[1] / "static"
HEAD = '<link rel="stylesheet" href="/static/steward.css">'
LIVENESS = '<script src="/static/liveness.js" defer></script>'
NOT_FOUND = f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Not found · steward</title>{HEAD}</head>
<body class="st-plain"><main class="st-login"><h1>There is no page here</h1>
<p>The address may be cut off, or from an older version.</p>
<p><a href="/">To the cluster</a></p></main></body></html>"""


def add_pages(
    app: FastAPI,
    live_state: LiveState,
    access: Authenticator,
    lab: LabRuns,
    outlook: JobOutlook,
    jobs: LocalJobRunner | None = None,
) -> None:
    """Add the dashboard to the service. Works once per process: the page framework is global."""
    ui.add_head_html(HEAD + LIVENESS, shared=True)
    reader = JobReader(runner=jobs, live_state=live_state) if jobs is not None else None
    for page in (*_pages(lab, outlook), *_job_pages(reader)):
        _register(page, live_state, access)
    nicegui_app.add_exception_handler(404, _not_found)
    ui.run_with(
        app,
        title="steward",
        favicon=STATIC / "steward.svg",
        dark=None,
        language="en-US",
        tailwind=False,
        binding_refresh_interval=None,
        reconnect_timeout=10.0,
        message_history_length=100,
        show_welcome_message=False,
    )


class _Page(NamedTuple):
    """One address of the dashboard, its entry of the menu, and the function that builds it.

    The address of a page of one thing ends in its id; `name` returns its name, None if unknown.
    """

    path: str
    at: str
    title: str
    build: Callable[[Visit, Request], Show]
    name: Callable[[LiveState, str], str | None] = lambda _live_state, _id: ""

    def id_of(self, request: Request) -> str:
        """Return the id in the address; empty on a page of many things."""
        return str(next(iter(request.path_params.values()), ""))


def _pages(lab: LabRuns, outlook: JobOutlook) -> tuple[_Page, ...]:
    return (
        _Page("/", "/", "Cluster", lambda visit, _: cluster_page(visit)),
        _Page("/nodes", "/nodes", "Nodes", lambda visit, _: nodes_page(visit)),
        _Page("/nodes/{node}", "/nodes", "Node", _node, node_name),
        _Page("/gpus/{gpu:path}", "/nodes", "GPU", _gpu, gpu_name),
        _Page("/serving", "/serving", "Serving", lambda visit, _: serving_page(visit)),
        _Page("/memory", "/memory", "Memory", lambda visit, _: memory_page(visit)),
        _Page("/plan", "/plan", "Plan", lambda visit, _: plan_page(visit, outlook)),
        _Page("/findings", "/findings", "Findings", lambda v, r: findings_page(v, r.query_params)),
        _Page("/findings/{finding}", "/findings", "Finding", _finding, finding_name),
        _Page("/rules", "/rules", "Rules", lambda v, r: rules_page(v, r.query_params)),
        _Page("/rules/{rule}", "/rules", "Rule", _rule, rule_name),
        _Page("/savings", "/savings", "Savings", lambda visit, _: savings_page(visit)),
        _Page("/decisions", "/decisions", "Decisions", _decisions),
        _Page("/decisions/{decision}", "/decisions", "Decision", _decision, decision_name),
        _Page("/lab", "/lab", "Lab", partial(_lab, lab)),
    )


def _job_pages(reader: JobReader | None) -> Iterator[_Page]:
    yield _Page("/jobs", "/jobs", "Jobs", lambda v, r: jobs_page(v, reader, r.query_params))
    if reader is not None:
        yield _Page(
            "/jobs/{job}",
            "/jobs",
            "Job",
            lambda visit, request: job_page(visit, reader, request.path_params["job"]),
            lambda _live_state, id_: reader.name_of(id_),
        )


def _node(visit: Visit, request: Request) -> Show:
    chosen = request.query_params.get("for", "1 h")
    return node_page(visit, request.path_params["node"], chosen=chosen)


def _gpu(visit: Visit, request: Request) -> Show:
    chosen = request.query_params.get("for", "1 h")
    return gpu_page(visit, request.path_params["gpu"], chosen=chosen)


def _rule(visit: Visit, request: Request) -> Show:
    return rule_page(visit, request.path_params["rule"])


def _finding(visit: Visit, request: Request) -> Show:
    return finding_page(visit, FindingId(request.path_params["finding"]))


def _decisions(visit: Visit, request: Request) -> Show:
    return decisions_page(visit, chosen=request.query_params.get("show", "All"))


def _decision(visit: Visit, request: Request) -> Show:
    return decision_page(visit, DecisionId(request.path_params["decision"]))


def _lab(lab: LabRuns, visit: Visit, request: Request) -> Show:
    return lab_page(visit, lab, chosen=request.query_params.get("run", ""))


def _register(page: _Page, live_state: LiveState, access: Authenticator) -> None:
    def show(request: Request) -> Response | None:
        id_ = page.id_of(request)
        name = page.name(live_state, id_)
        if name is None:
            return HTMLResponse(_no_such(page, id_), status_code=404)
        frame(
            _visit(request, live_state, access),
            at=page.at,
            title=f"{name} · {page.title}" if name else page.title,
            build=lambda visit: page.build(visit, request),
        )
        return None

    ui.page(page.path, title=page.title)(show)


def _visit(request: Request, live_state: LiveState, access: Authenticator) -> Visit:
    look = request.cookies.get(LOOK_COOKIE, "auto")
    return Visit(
        live_state=live_state,
        access=access,
        user=request.state.user,
        look=look if look in LOOKS else "auto",
    )


def _no_such(page: _Page, id_: str) -> str:
    what = "GPU" if page.title == "GPU" else page.title.lower()
    return NOT_FOUND.replace("There is no page here", f"There is no {what} {escape(id_)}")


async def _not_found(_request: Request, _fault: Exception) -> Response:
    return HTMLResponse(NOT_FOUND, status_code=404)

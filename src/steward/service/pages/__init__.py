"""The dashboard. Belongs here: how things look. A page reads the board and writes choices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from nicegui import app as nicegui_app
from nicegui import ui

from steward.model.identity import DecisionId, FindingId
from steward.service.access import Access
from steward.service.board import Board
from steward.service.lab import LabRuns
from steward.service.pages.cluster import cluster_page
from steward.service.pages.decisions import decision_page, decisions_page
from steward.service.pages.findings import findings_page
from steward.service.pages.frame import LOOK_COOKIE, LOOKS, Show, Visit, frame
from steward.service.pages.lab import lab_page
from steward.service.pages.observed import gpu_page, node_page, nodes_page
from steward.service.pages.rules import finding_page, rule_page, rules_page
from steward.service.pages.savings import savings_page

__all__ = ["add_pages"]

STATIC = Path(__file__).parents[1] / "static"
HEAD = '<link rel="stylesheet" href="/static/steward.css">'
NOT_FOUND = f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>steward · not found</title>{HEAD}</head>
<body class="st-plain"><main class="st-login"><h1>There is no page here</h1>
<p>The address may be cut off, or from an older version.</p>
<p><a href="/">To the cluster</a></p></main></body></html>"""


def add_pages(app: FastAPI, board: Board, access: Access, lab: LabRuns) -> None:
    """Add the dashboard to the service. Works once per process: the page framework is global."""
    ui.add_head_html(HEAD, shared=True)

    def page(path: str, at: str, title: str) -> Callable[[Callable[..., Show]], None]:
        def register(build: Callable[..., Show]) -> None:
            def show(request: Request) -> None:
                frame(
                    _visit(request, board, access),
                    at=at,
                    title=title,
                    build=lambda visit: build(visit, request),
                )

            ui.page(path, title=title)(show)

        return register

    page("/", "/", "Cluster")(lambda visit, _: cluster_page(visit))
    page("/nodes", "/nodes", "Nodes")(lambda visit, _: nodes_page(visit))
    page("/nodes/{node}", "/nodes", "Node")(
        lambda visit, request: node_page(visit, request.path_params["node"])
    )
    page("/gpus/{gpu:path}", "/nodes", "GPU")(
        lambda visit, request: gpu_page(
            visit, request.path_params["gpu"], chosen=request.query_params.get("for", "1 h")
        )
    )
    page("/findings", "/findings", "Findings")(lambda visit, _: findings_page(visit))
    page("/findings/{finding}", "/findings", "Finding")(
        lambda visit, request: finding_page(visit, FindingId(request.path_params["finding"]))
    )
    page("/rules", "/rules", "Rules")(lambda visit, _: rules_page(visit))
    page("/rules/{rule}", "/rules", "Rule")(
        lambda visit, request: rule_page(visit, request.path_params["rule"])
    )
    page("/savings", "/savings", "Savings")(lambda visit, _: savings_page(visit))
    page("/decisions", "/decisions", "Decisions")(
        lambda visit, request: decisions_page(visit, state=request.query_params.get("show", "All"))
    )
    page("/decisions/{decision}", "/decisions", "Decision")(
        lambda visit, request: decision_page(visit, DecisionId(request.path_params["decision"]))
    )
    page("/lab", "/lab", "Lab")(
        lambda visit, request: lab_page(visit, lab, chosen=request.query_params.get("run", ""))
    )
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


def _visit(request: Request, board: Board, access: Access) -> Visit:
    look = request.cookies.get(LOOK_COOKIE, "auto")
    return Visit(
        board=board,
        access=access,
        user=request.state.user,
        look=look if look in LOOKS else "auto",
    )


async def _not_found(_request: Request, _fault: Exception) -> Response:
    return HTMLResponse(NOT_FOUND, status_code=404)

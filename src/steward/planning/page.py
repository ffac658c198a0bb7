"""A plan as one HTML file: what is recommended, the picture, the table, and why others lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from steward.decide.planning.formatting import amount, dollars, duration, gpus_name, way_name
from steward.documents import document, escaped, table, write_document
from steward.model.planning.plan import Choice, Plan
from steward.planning.rows import (
    FRONT_COLUMNS,
    REJECTED_COLUMNS,
    front_rows,
    moment,
    money,
    note_lines,
    rejected_rows,
)
from steward.planning.scatter import STYLE, scatter

__all__ = ["page", "write_page"]

MOST_REJECTED = 200
_STYLE = f"""{STYLE}
body {{ max-width: 76rem; }}
.card {{ overflow-wrap: anywhere; }} .card b {{ font-size: 1.2rem; }}
"""


def write_page(plan: Plan, file: Path) -> None:
    """Write the page; a file that was there stays whole until the new one is."""
    write_document(page(plan), file)


def page(plan: Plan) -> str:
    """Return the whole page."""
    request = plan.request
    parts = (
        f"<h1>Where {escaped(request.name)} should run</h1>",
        f'<p class="quiet">{escaped(f"as of {moment(request.now_s)}")}{_asked(plan)}</p>',
        *(_recommended(plan) if plan.front else _nothing(plan)),
        *_rejected(plan),
        *_ways(plan),
    )
    return document(f"steward: plan of {request.name}", parts, style=_STYLE)


def _asked(plan: Plan) -> str:
    request = plan.request
    said = ""
    if request.deadline_s is not None:
        chance = f"{request.deadline_chance:.0%}"
        said += f"; ends by {moment(request.deadline_s)} with a chance of {chance}"
    if request.budget_usd is not None:
        said += f"; costs {dollars(request.budget_usd)} at most"
    return escaped(said)


def _recommended(plan: Plan) -> Iterator[str]:
    best = plan.front[0]
    chance = (
        "no deadline" if best.deadline_chance is None else f"{best.deadline_chance:.0%} in time"
    )
    co2 = "CO2 unknown" if best.co2_kg is None else amount(best.co2_kg.mid, "kg CO2")
    cards = (
        ("recommended", f"{best.site}/{best.queue}", _shape(best)),
        ("ends", moment(best.end_s.mid), f"in {duration(best.end_s.mid - plan.request.now_s)}"),
        ("deadline", chance, f"95 % end by {moment(best.end_s.high)}"),
        ("cost", *_cost(best)),
        ("energy", amount(best.kwh.mid, "kWh"), co2),
    )
    yield '<div class="cards">'
    for name, figure, more in cards:
        yield (
            f'<div class="card">{escaped(name)}<b>{escaped(figure)}</b>'
            f'<span class="quiet">{escaped(more)}</span></div>'
        )
    yield "</div>"
    yield f'<p class="note">{escaped(plan.why)}.</p>'
    yield "<h2>Time against money</h2>"
    yield f'<div class="scroll">{scatter(plan)}</div>'
    yield (
        '<p class="quiet">Numbers are rows of the table, grey is what something else beats. '
        "Hover a bubble for its figures.</p>"
    )
    yield "<h2>Choices that nothing beats in time, money and carbon at once</h2>"
    yield from table(FRONT_COLUMNS, front_rows(plan))
    yield "".join(f'<p class="quiet">{escaped(each)}</p>' for each in note_lines(plan))


def _cost(best: Choice) -> tuple[str, str]:
    """Return the figure, and its limits."""
    figure, _, limits = money(best).partition(" (")
    return figure, limits.rstrip(")") or "by the site's own rule"


def _shape(best: Choice) -> str:
    nodes = "one node" if best.nodes == 1 else f"{best.nodes} nodes"
    links = "" if best.links == 1 else f", a chain of {best.links} jobs"
    return f"{way_name(best.way)}, {nodes}{links}"


def _nothing(plan: Plan) -> Iterator[str]:
    yield '<p class="note">Nothing is feasible. Each of these would change that:</p><ul>'
    yield from (f"<li>{escaped(each)}</li>" for each in plan.relax)
    yield "</ul>"


def _rejected(plan: Plan) -> Iterator[str]:
    if not plan.rejected:
        return
    yield "<h2>Why others lost</h2>"
    yield from table(REJECTED_COLUMNS, rejected_rows(plan, most=MOST_REJECTED))
    if len(plan.rejected) > MOST_REJECTED:
        more = len(plan.rejected) - MOST_REJECTED
        yield f'<p class="quiet">and {more:,} more</p>'


def _ways(plan: Plan) -> Iterator[str]:
    yield "<h2>What the run times are from</h2>"
    rows = [
        (
            gpus_name(way.gpus, way.gpu_model),
            "-" if way.batch is None else str(way.batch),
            duration(way.run_s.mid),
            f"{duration(way.run_s.low)} to {duration(way.run_s.high)}",
            way.basis,
        )
        for way in plan.request.ways
    ]
    yield from table(("with", "batch", "run time", "nine of ten", "from"), rows)

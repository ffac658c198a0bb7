"""The page of the network: drawn again every other second while it is open."""

from __future__ import annotations

from nicegui import ui

from steward.service.fabric_demo import FabricDemo
from steward.service.live_state import StateSnapshot
from steward.service.pages.drawings import empty
from steward.service.pages.fabric.drawings import (
    application_table,
    decision_list,
    fabric_drawing,
    how_to_look,
    region_list,
)
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.rows import Html

__all__ = ["fabric_page"]

TICK_S = 2.0
_DEMO = FabricDemo()
_BEGINS = empty("The simulation begins", "Its first turn takes some seconds.")


def fabric_page(visit: Visit) -> Show:
    """Build the page: in a demo a simulated fabric, elsewhere what to type."""
    if not visit.live_state.simulated:
        with card("No fabric is watched here"):
            Html(how_to_look())
        return lambda _snapshot: None
    with card("Links by load, and where they stall"):
        drawing = Html()
    with card("Congestion, and who sends into it"):
        regions = Html()
    with card("Who suffers, and who is sensitive"):
        jobs = Html()
    with card("What was throttled, and what it brought"):
        done = Html()

    def tick() -> None:
        seen = _DEMO.latest()
        if seen is None:
            drawing.show(_BEGINS)
            return
        view, decisions, _ = seen
        drawing.show(fabric_drawing(view))
        regions.show(region_list(view))
        jobs.show(application_table(view))
        done.show(decision_list(decisions))

    tick()
    ui.timer(TICK_S, tick)

    def show(_snapshot: StateSnapshot) -> None:
        """Nothing follows the loop's own turns."""

    return show

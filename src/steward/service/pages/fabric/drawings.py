"""Parts of the page as markup. Pure: the same moment, the same markup."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from steward.model.actions import Throttle
from steward.model.fabric.regions import level_of
from steward.model.fabric.topology import SWITCH, FabricTopology
from steward.model.fabric.view import DELAY_SENSITIVITY, FabricView
from steward.model.forecast import About
from steward.service.pages.drawings import empty
from steward.service.pages.markup import Markup, join, tag
from steward.sim.fabric.trial import Done

__all__ = ["application_table", "decision_list", "fabric_drawing", "how_to_look", "region_list"]

_WIDTH, _ROW, _PAD = 1000, 110, 26
_MOST_DRAWN = 600  # vertices: more than that nobody sees


def how_to_look() -> Markup:
    """Say what to type where no fabric is watched."""
    return empty(
        "No fabric is watched here",
        "steward fabric show FILE reads a topology, steward fabric scan the ports of this machine, "
        "and steward fabric simulate tries policies. A demo (steward up --demo) shows a simulated "
        "fabric on this page.",
    )


def fabric_drawing(view: FabricView) -> Markup:
    """Draw switches by tier with nodes below, links coloured by their load, stalls in red."""
    topology = view.topology
    if len(topology.vertices) > _MOST_DRAWN:
        return empty("Too large to draw", f"{len(topology.vertices)} nodes and switches")
    places = _places(topology)
    load = np.fmax(view.links.load_share[0::2], view.links.load_share[1::2])
    stalled = np.fmax(view.links.stalled_share[0::2], view.links.stalled_share[1::2])
    lines = []
    for cable in range(len(topology.links) // 2):
        a, b = int(topology.links.source[2 * cable]), int(topology.links.target[2 * cable])
        (x1, y1), (x2, y2) = places[a], places[b]
        lines.append(
            tag(
                "line",
                tag("title", _cable_says(view, cable, float(load[cable]), float(stalled[cable]))),
                x1=f"{x1:.0f}",
                y1=f"{y1:.0f}",
                x2=f"{x2:.0f}",
                y2=f"{y2:.0f}",
                class_=_line_class(float(load[cable]), float(stalled[cable])),
            )
        )
    marks = [_mark(topology, vertex, place) for vertex, place in places.items()]
    tall = max(y for _, y in places.values()) + _PAD
    return tag(
        "svg",
        *lines,
        *marks,
        viewBox=f"0 0 {_WIDTH} {tall:.0f}",
        class_="st-fabric",
        role="img",
        aria_label="the fabric: switches by tier, nodes below, links by load",
    )


def _places(topology: FabricTopology) -> dict[int, tuple[float, float]]:
    tiers = topology.vertices.tier
    top = int(tiers.max())
    found = {}
    for tier in sorted(set(tiers.tolist()), reverse=True):
        own = np.flatnonzero(tiers == tier)
        for at, vertex in enumerate(own):
            x = _PAD + (at + 0.5) * (_WIDTH - 2 * _PAD) / len(own)
            found[int(vertex)] = (x, _PAD + (top - max(tier, 0)) * _ROW)
    return found


def _line_class(load: float, stalled: float) -> str:
    if math.isnan(load):
        return "st-link-unknown"
    if stalled >= 0.05:
        return f"st-link-{level_of(stalled)}"
    return f"st-link-load-{min(int(load * 4), 3)}"


def _cable_says(view: FabricView, cable: int, load: float, stalled: float) -> str:
    name = view.topology.names_of_links[2 * cable].replace(">", " to ")
    if math.isnan(load):
        return f"{name}: load unknown"
    said = "" if math.isnan(stalled) else f", stalled {stalled:.0%} of the time"
    return f"{name}: {load:.0%} loaded{said}"


def _mark(topology: FabricTopology, vertex: int, place: tuple[float, float]) -> Markup:
    name = topology.vertices.names[vertex]
    x, y = place
    if topology.vertices.kind[vertex] == SWITCH:
        box = tag("rect", x=f"{x - 26:.0f}", y=f"{y - 10:.0f}", width=52, height=20, rx=5)
        text = tag("text", name, x=f"{x:.0f}", y=f"{y + 4:.0f}")
        return tag("g", box, text, class_="st-switch")
    return tag("circle", tag("title", name), cx=f"{x:.0f}", cy=f"{y:.0f}", r=5, class_="st-node")


def region_list(view: FabricView) -> Markup:
    """List congested regions, worst first, with who sends into them and who waits in them."""
    if not view.regions:
        return empty("No congestion", "No link stalls for more than 5 % of the time.")
    return tag(
        "ul", *(_region(view, at) for at in range(min(len(view.regions), 8))), class_="st-news"
    )


def _region(view: FabricView, at: int) -> Markup:
    region = view.regions[at]
    sent = view.users_of(region.links)
    order = [int(row) for row in np.argsort(-sent) if sent[row] > 0][:3]
    jobs = view.applications.jobs
    causes = ", ".join(f"{jobs[row]} {sent[row] / sent.sum():.0%}" for row in order) or "unknown"
    first = view.topology.names_of_links[region.links[0]].replace(">", " to ")
    more = f" and {len(region.links) - 1} more" if len(region.links) > 1 else ""
    return tag(
        "li",
        tag("b", f"{region.level}: {first}{more}"),
        f" stalls {region.stalled_share:.0%} of the time for {view.t_s - region.since_s:.0f} s; "
        f"its traffic is from {causes}",
    )


def application_table(view: FabricView) -> Markup:
    """List jobs: how slow, how sensitive to delay, and their cap."""
    heads = ("Job", "Slower than its best", "Delay added", "Sensitivity per ms", "Sends", "Cap")
    head = tag("tr", join(*(tag("th", text, scope="col") for text in heads)))
    rows = join(*(_job_row(view, row) for row in range(len(view.applications))))
    return tag("table", tag("thead", head), tag("tbody", rows), class_="st-table")


def _job_row(view: FabricView, row: int) -> Markup:
    jobs = view.applications
    column = view.forecast(About.APPLICATIONS, DELAY_SENSITIVITY)
    sensitivity = "unknown"
    if column is not None:
        sensitivity = f"{column.mid[row]:.2g} ({column.low[row]:.2g} to {column.high[row]:.2g})"
    added = (jobs.delay_s[row] - jobs.best_delay_s[row]) * 1e6
    cap = float(jobs.cap_bytes_per_s[row])
    return tag(
        "tr",
        tag("td", tag("b", jobs.jobs[row])),
        tag("td", _known(float(jobs.slowdown[row]) - 1, 100, " %")),
        tag("td", _known(float(added), 1, " µs")),
        tag("td", sensitivity),
        tag("td", _known(float(jobs.bytes_per_s[row]), 8e-9, " Gbit/s")),
        tag("td", "none" if math.isinf(cap) else _known(cap, 8e-9, " Gbit/s a node")),
    )


def _known(value: float, factor: float, unit: str) -> str:
    return f"{value * factor:.3g}{unit}" if math.isfinite(value) else "unknown"


def decision_list(done: Sequence[Done]) -> Markup:
    """List what was done, latest first, with the useful share of GPUs before and after."""
    if not done:
        return empty("Nothing was capped yet", "Who loses little by a cap is capped, nobody else.")
    return tag("ul", *(_decision(each) for each in reversed(done)), class_="st-news")


def _decision(each: Done) -> Markup:
    after = "not measured yet"
    if each.useful_after is not None:
        after = f"useful GPU time {each.useful_before:.1%} before, {each.useful_after:.1%} after"
    kind = "throttled" if isinstance(each.decision.action, Throttle) else "released"
    return tag(
        "li",
        tag("span", kind, class_="st-chip"),
        " ",
        tag("b", each.decision.action.sentence),
        f" at {each.decision.t_s:.0f} s: {each.decision.because}; {after}",
    )

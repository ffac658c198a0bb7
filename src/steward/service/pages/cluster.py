"""`/`: what the cluster does now."""

from __future__ import annotations

from nicegui import ui

from steward.model.decision import Autonomy
from steward.service.cluster_snapshot import GpuState
from steward.service.live_state import StateSnapshot
from steward.service.pages.charts import use_chart, use_series
from steward.service.pages.drawings import faults, news, queue_table, tenant_bars
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.heat_map import HeatMap
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Chart, Html
from steward.service.pages.wording import amount, interval, plural

__all__ = ["cluster_page", "key_figures", "tile"]

CHART_EVERY_S = 5.0
AUTONOMY = {
    Autonomy.OBSERVE: "looks, says nothing",
    Autonomy.ADVISE: "advises, does nothing",
    Autonomy.APPROVE: "does what you approve",
    Autonomy.AUTO: "acts within its budgets",
}


def cluster_page(_visit: Visit) -> Show:
    """Build the page and return what keeps it up to date."""
    notice = Html()
    figures = Html(classes="st-figures")
    with ui.element("div").classes("st-columns"):
        with ui.element("div"):
            heat_map = HeatMap()
            with card("What GPUs are used for") as used:
                chart = Chart(use_chart(), every_s=CHART_EVERY_S)
            with card("Newest decisions"):
                newest = Html()
        with ui.element("div"):
            with card("Tenants and their shares"):
                tenants = Html()
                key = Html(classes="st-legend")
            with card("Queue"):
                queue = Html()

    def show(snapshot: StateSnapshot) -> None:
        notice.show(faults(snapshot))
        figures.show(key_figures(snapshot))
        heat_map.show(snapshot.cluster)
        used.set_visibility(bool(snapshot.history))
        key.show(_BAR_KEY if snapshot.cluster.tenants else Markup(""))
        chart.show(lambda: use_series(snapshot.history))
        tenants.show(tenant_bars(snapshot.cluster))
        queue.show(queue_table(snapshot.cluster))
        newest.show(news(snapshot))

    return show


_BAR_KEY = join(
    tag("span", tag("i", class_="st-key st-held"), "held"),
    tag("span", tag("i", class_="st-key st-borrowed"), "borrowed"),
    tag("span", tag("i", class_="st-key st-fair"), "fair share"),
    tag("span", tag("i", class_="st-key st-guaranteed"), "guaranteed"),
)


def key_figures(snapshot: StateSnapshot) -> Markup:
    """Show the few figures that say how things are."""
    shown, status, saved = snapshot.cluster, snapshot.status, snapshot.savings.gpu_hours
    count = shown.states
    total = sum(count.values())
    in_use = count.get(GpuState.BUSY, 0) + count.get(GpuState.LENT, 0)
    dark = count.get(GpuState.UNKNOWN, 0) + count.get(GpuState.FAILED, 0)
    asked = sum(job.gpus for job in shown.queue)
    closed = status.breaker == "closed"
    return join(
        tile("GPUs busy", f"{in_use:,}", f"of {total:,}" + (f", {dark} dark" if dark else "")),
        tile("Held but idle", f"{count.get(GpuState.IDLE, 0):,}", "by jobs that rest", "waste"),
        tile("Lent now", f"{count.get(GpuState.LENT, 0):,}", plural(_loans(snapshot), "loan")),
        tile("Running jobs", f"{len(shown.running):,}", "with or without a GPU"),
        tile("Waiting jobs", f"{len(shown.queue):,}", f"for {plural(asked, 'GPU')}"),
        tile("GPU-hours saved", amount(saved.mid), f"95 %: {interval(saved)}", "good"),
        tile("Autonomy", status.autonomy.value, AUTONOMY[status.autonomy]),
        tile(
            "Breaker",
            "closed" if closed else "open",
            "outcomes are as promised" if closed else status.breaker.partition(": ")[2],
            "" if closed else "bad",
        ),
    )


def _loans(snapshot: StateSnapshot) -> int:
    return len({gpu.loan for gpu in snapshot.cluster.gpus if gpu.loan})


def tile(name: str, value: str, beside: str, kind: str = "") -> Markup:
    """Show one figure with its name above and what it means below."""
    return tag(
        "div",
        tag("span", name, class_="st-quiet"),
        tag("b", value, class_="st-number"),
        tag("small", beside, class_="st-quiet"),
        class_=f"st-figure st-is-{kind}" if kind else "st-figure",
        title=beside,
    )

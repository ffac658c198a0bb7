"""`/`: what the cluster does now."""

from __future__ import annotations

from nicegui import ui

from steward.clients.local_jobs.devices import SLOT_MODEL
from steward.model.cluster_snapshot import GpuState
from steward.model.decision import Autonomy, DecisionState
from steward.service.live_state import StateSnapshot
from steward.service.pages.charts import use_chart, use_series
from steward.service.pages.drawings import faults, news, queue_table, tenant_bars, tile
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.heat_map import HeatMap
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Chart, Html
from steward.service.pages.sites import site_table
from steward.service.pages.telemetry.nodes import node_table
from steward.service.pages.wording import amount, interval, plural, promises_text, share

__all__ = ["cluster_page", "key_figures", "summary_text"]

CHART_EVERY_S = 5.0
DEEDS = {
    "start": ("started", "job"),
    "preempt": ("stopped", "job"),
    "resume": ("resumed", "job"),
    "drain": ("drained", "node"),
    "undrain": ("put back", "node"),
}
NO_GPUS = tag(
    "p",
    "No collector or agent has reported a GPU. ",
    tag("code", "steward doctor"),
    " lists what can be observed here. These hosts are known:",
    class_="st-quiet st-above",
)
AUTONOMY = {
    Autonomy.OBSERVE: "observes only",
    Autonomy.ADVISE: "advises, changes nothing",
    Autonomy.APPROVE: "does what you approve",
    Autonomy.AUTO: "acts within its budgets",
}


def cluster_page(visit: Visit) -> Show:
    """Build the page and return what keeps it up to date."""
    simulated = visit.live_state.simulated
    notice = Html()
    with card("Sites") as sites_card:
        sites = Html(classes="st-scroll")
    summary = Html(tag="p", classes="st-summary")
    with card("No GPUs found") as hosts_card:
        Html(NO_GPUS)
        hosts = Html(classes="st-scroll")
    figures = Html(classes="st-figures")
    with ui.element("div").classes("st-columns"):
        with ui.element("div"):
            with ui.element("div") as map_place:
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
        healths = visit.live_state.sites()
        sites_card.set_visibility(bool(healths))
        sites.show(site_table(healths) if healths else Markup(""))
        summary.show(join(summary_text(snapshot, simulated=simulated)))
        has_gpus = bool(snapshot.cluster.states)
        hosts_card.set_visibility(not has_gpus)
        map_place.set_visibility(has_gpus)
        figures.set_visibility(has_gpus)
        if not has_gpus:
            hosts.show(node_table(visit.live_state.latest.nodes(snapshot.cluster)))
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
    """Show the main figures of the cluster."""
    shown, status, saved = snapshot.cluster, snapshot.status, snapshot.savings.gpu_hours
    count = shown.states
    total = sum(count.values())
    in_use = count.get(GpuState.BUSY, 0) + count.get(GpuState.LENT, 0)
    dark = count.get(GpuState.UNKNOWN, 0) + count.get(GpuState.FAILED, 0)
    known = [gpu.busy_share for gpu in shown.gpus if gpu.busy_share is not None]
    mean = f", mean utilisation {share(sum(known) / len(known))}" if known else ""
    asked = sum(job.gpus for job in shown.queue)
    closed = status.breaker == "closed"
    return join(
        tile(
            "GPUs in use",
            f"{in_use:,}",
            f"of {total:,}" + (f" ({dark} down)" if dark else "") + mean,
        ),
        tile(
            "Held but idle", f"{count.get(GpuState.IDLE, 0):,}", "jobs hold them, unused", "waste"
        ),
        tile("Lent now", f"{count.get(GpuState.LENT, 0):,}", plural(_loans(snapshot), "loan")),
        tile("Running jobs", f"{len(shown.running):,}", "with or without a GPU"),
        tile("Waiting jobs", f"{len(shown.queue):,}", f"for {plural(asked, 'GPU')}"),
        tile("GPU-hours saved", amount(saved.mid), _beside_savings(snapshot), "good"),
        tile("Autonomy", status.autonomy.value, _autonomy_text(snapshot)),
        tile(
            "Circuit breaker",
            "not tripped" if closed else "tripped",
            f"steward may act; {promises_text(each.story for each in snapshot.stories)}"
            if closed
            else f"actions are paused: {status.breaker.partition(': ')[2]}",
            "" if closed else "bad",
        ),
    )


def _beside_savings(snapshot: StateSnapshot) -> str:
    """Write how sure the savings are, and what stopping jobs cost."""
    sure = f"95 %: {interval(snapshot.savings.gpu_hours)}"
    cost = snapshot.stop_cost_gpu_hours
    return f"{sure}; stopping jobs cost {amount(cost)}" if cost > 0 else sure


def summary_text(snapshot: StateSnapshot, *, simulated: bool) -> str:
    """Write in one sentence what steward did so far."""
    done, saved = snapshot.carried_out, snapshot.savings.gpu_hours.mid
    parts = [
        f"{verb} {plural(done[type_], noun)}"
        for type_, (verb, noun) in DEEDS.items()
        if done.get(type_)
    ]
    if done.get("lend"):
        loans = plural(done["lend"], "loan")
        lent = plural(snapshot.lent_gpus, "idle GPU")
        parts.insert(0, f"lent {lent} in {loans}, which put {amount(saved)} GPU-hours to work")
    where = " on a simulated cluster" if simulated else ""
    waiting = snapshot.states[DecisionState.WAITING]
    asks = (
        f" {plural(waiting, 'decision')} {'waits' if waiting == 1 else 'wait'} for approval."
        if waiting
        else ""
    )
    text = "; ".join(parts) or f"has changed nothing yet: it {AUTONOMY[snapshot.status.autonomy]}"
    slots = (
        " There is no GPU here: CPU slots stand in their place." if _only_slots(snapshot) else ""
    )
    return f"So far steward{where} {text}.{asks}{slots}"


def _only_slots(snapshot: StateSnapshot) -> bool:
    return {each.model for each in snapshot.cluster.gpus} == {SLOT_MODEL.name}


def _autonomy_text(snapshot: StateSnapshot) -> str:
    """Write what steward may do by itself: jobs that were submitted to it start in any case."""
    autonomy = snapshot.status.autonomy
    if autonomy is Autonomy.ADVISE and snapshot.carried_out.get("start"):
        return "starts what is submitted, advises else"
    return AUTONOMY[autonomy]


def _loans(snapshot: StateSnapshot) -> int:
    return len({gpu.loan for gpu in snapshot.cluster.gpus if gpu.loan})

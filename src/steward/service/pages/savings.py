"""`/savings`: what it was worth, how sure that is, and what it rests on."""

from __future__ import annotations

from steward.model.outcome import Assumptions, Interval
from steward.model.savings_ledger import LEAST_DAYS
from steward.service.live_state import StateSnapshot
from steward.service.pages.charts import savings_chart, savings_series
from steward.service.pages.drawings import empty
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Chart, Html
from steward.service.pages.wording import amount, interval, plural, promises_text

__all__ = [
    "assumption_table",
    "kind_table",
    "projection_text",
    "saved_figures",
    "savings_page",
    "stop_cost_line",
]

CHART_EVERY_S = 3.0
NOTHING = empty(
    "Nothing measured yet",
    "Savings are measured, never promised: the first figure appears with the first loan.",
)


def savings_page(_visit: Visit) -> Show:
    """Build the page and return what keeps it up to date."""
    figures = Html(classes="st-figures st-large")
    truth = Html()
    cost = Html()
    with card("GPU-hours put to work that would have been idle"):
        nothing = Html()
        chart = Chart(savings_chart(), classes="st-chart", every_s=CHART_EVERY_S)
    with card("By kind of decision, as far as it is settled"):
        kinds = Html()
    with card("Projected, not measured"):
        projected = Html()
    with card("What this rests on"):
        table = Html()

    def show(snapshot: StateSnapshot) -> None:
        figures.show(saved_figures(snapshot))
        truth.show(_truth(snapshot))
        cost.show(stop_cost_line(snapshot))
        kinds.show(kind_table(snapshot))
        projected.show(projection_text(snapshot))
        table.show(assumption_table(snapshot.savings.assumptions))
        nothing.show(Markup("") if snapshot.curve else NOTHING)
        chart.element.set_visibility(bool(snapshot.curve))
        if snapshot.curve:
            chart.show(lambda: savings_series(snapshot))

    return show


def saved_figures(snapshot: StateSnapshot) -> Markup:
    """Show the four figures with their intervals."""
    saved = snapshot.savings
    return join(
        _figure("GPU-hours", saved.gpu_hours, "GPU-h"),
        _figure("Money", saved.cost, saved.assumptions.currency),
        _figure("Energy", saved.energy_kwh, "kWh"),
        _figure("Carbon", saved.co2_kg, "kg CO₂"),
    )


def _figure(name: str, figure: Interval, unit: str) -> Markup:
    return tag(
        "div",
        tag("span", name, class_="st-quiet"),
        tag("b", amount(figure.mid), " ", tag("small", unit), class_="st-number"),
        tag("small", f"95 %: {interval(figure)}", class_="st-quiet st-number"),
        class_="st-figure",
    )


def kind_table(snapshot: StateSnapshot) -> Markup:
    """Show what each kind of decision brought, in its own units."""
    if not snapshot.kinds:
        return tag("p", "No outcome was measured yet.", class_="st-quiet")
    currency = snapshot.savings.assumptions.currency
    names = ("kind", "decisions", "GPU-h", currency, "kWh", "kg CO₂", "waiting, h", "freed GPU-h")
    head = tag("tr", *(tag("th", name, scope="col") for name in names))
    rows = [
        tag(
            "tr",
            tag("td", each.kind),
            *(
                tag("td", text, class_="st-number")
                for text in (
                    f"{each.decisions:,}",
                    *(
                        _ranged(value)
                        for value in (
                            each.gpu_hours,
                            each.cost,
                            each.energy_kwh,
                            each.co2_kg,
                            each.waiting_hours,
                            each.freed_gpu_hours,
                        )
                    ),
                )
            ),
        )
        for each in snapshot.kinds
    ]
    body = tag("table", tag("thead", head), tag("tbody", *rows), class_="st-table")
    return tag("div", body, class_="st-scroll")


def _ranged(value: Interval) -> str:
    if value.low == value.mid == value.high == 0.0:
        return "-"
    return f"{amount(value.mid)} ({interval(value)})"


def projection_text(snapshot: StateSnapshot) -> Markup:
    """Show what a year like the days so far would bring; it is no measurement."""
    found = snapshot.projection
    if found is None:
        text = f"None before {LEAST_DAYS} whole days were measured."
        return tag("p", text, class_="st-quiet")
    currency = snapshot.savings.assumptions.currency
    text = (
        f"A year of days like the {found.days} that were measured would bring "
        f"{_ranged(found.gpu_hours)} GPU-hours, {_ranged(found.cost)} {currency}, "
        f"{_ranged(found.energy_kwh)} kWh and {_ranged(found.co2_kg)} kg of CO₂."
    )
    return tag("p", text)


def _truth(snapshot: StateSnapshot) -> Markup:
    saved = snapshot.savings
    measured = (
        f"Measured from {plural(saved.outcomes, 'outcome')} of "
        f"{plural(saved.decisions, 'decision')}: "
        f"{promises_text(each.story for each in snapshot.stories)}."
    )
    if snapshot.truth is None:
        return tag("p", measured, class_="st-quiet")
    exact = f" The simulator's own account is {amount(snapshot.truth)} GPU-h"
    off = _off(saved.gpu_hours.mid, snapshot.truth)
    return tag("p", measured, exact, off, ".", class_="st-quiet")


def stop_cost_line(snapshot: StateSnapshot) -> Markup:
    """Say what stopping jobs cost, if any were stopped."""
    if snapshot.stop_cost_gpu_hours <= 0:
        return Markup("")
    cost = amount(snapshot.stop_cost_gpu_hours)
    told = f"Stopping jobs for others cost {cost} GPU-h; the figures above do not take it off."
    return tag("p", told, class_="st-quiet")


def _off(measured: float, truth: float) -> str:
    if truth <= 0 or measured <= 0:
        return ""
    return f", {100 * abs(measured - truth) / truth:.1f} % from what was measured"


def assumption_table(assumptions: Assumptions) -> Markup:
    """Show what turns GPU-hours into the rest, and where to change it."""
    lines = (
        ("price_per_gpu_hour", f"{assumptions.price_per_gpu_hour:g}", "what a GPU costs per hour"),
        ("currency", assumptions.currency, "of that price"),
        ("host_watts_per_gpu", f"{assumptions.host_watts_per_gpu:g} W", "of a host, per GPU"),
        (
            "power_usage_effectiveness",
            f"{assumptions.power_usage_effectiveness:g}",
            "power of the building per power of the machines",
        ),
        ("co2_kg_per_kwh", f"{assumptions.co2_kg_per_kwh:g} kg", "of the electricity used"),
    )
    rows = join(
        *(
            tag(
                "tr",
                tag("td", tag("code", key)),
                tag("td", value, class_="st-number"),
                tag("td", meaning, class_="st-quiet"),
            )
            for key, value, meaning in lines
        )
    )
    where = tag(
        "p",
        "Change them in the table ",
        tag("code", "[savings]"),
        " of the configuration file; ",
        tag("code", "steward config show"),
        " says where it is. Energy counts what an idle GPU and its part of the host would have "
        "burnt for nothing, not the work itself.",
        class_="st-quiet",
    )
    return join(tag("table", tag("tbody", rows), class_="st-table"), where)

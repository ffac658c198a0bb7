"""What was saved, as rows, lines and a record; the figures come from the journal's outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from steward.cli.output import plain
from steward.cli.words import number
from steward.config.carbon import site_carbon
from steward.config.settings import Settings
from steward.model.decision import DecisionState
from steward.model.finding import Finding
from steward.model.outcome import Interval, Savings
from steward.model.savings_ledger import LEAST_DAYS, KindAccount, Projection
from steward.store.journal import Journal
from steward.store.journal_summary import CurvePoint, JournalSummary

__all__ = [
    "KIND_COLUMNS",
    "SAVINGS_COLUMNS",
    "SIMULATED",
    "Account",
    "account_of",
    "kind_rows",
    "lines_of",
    "projection_lines",
    "record_of",
    "rows_of",
    "stop_cost_text",
]

SAVINGS_COLUMNS = ("saved", "amount", "from", "to", "unit")
KIND_COLUMNS = (
    "kind",
    "decisions",
    "GPU-hours",
    "money",
    "kWh",
    "kg CO2",
    "waiting, h",
    "servers' GPU-hours",
)
TOP_FINDINGS = 20
READ_FINDINGS = 20_000  # per severity
SIMULATED = "simulated: figures of a demo, not of a real cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """All that a report says."""

    site: str
    simulated: bool
    made_s: float
    savings: Savings
    curve: tuple[CurvePoint, ...]
    states: dict[DecisionState, int]
    findings: tuple[Finding, ...]
    stop_cost_gpu_hours: float = 0.0  # not taken off the savings, which are those of loans
    kinds: tuple[KindAccount, ...] = ()
    projection: Projection | None = None


def account_of(journal: Journal, settings: Settings, made_s: float) -> Account:
    """Read the journal once and add it up."""
    summary = JournalSummary(
        journal,
        settings.savings.assumptions,
        keep_findings=READ_FINDINGS,
        carbon=site_carbon(settings),
    )
    summary.catch_up()
    marker = settings.store.demo_marker
    simulated = marker.exists()
    return Account(
        site=(marker.read_text() if simulated else "") or settings.site.name,
        simulated=simulated,
        made_s=made_s,
        savings=summary.savings,
        curve=summary.curve.points,
        states={state: count for state, count in summary.states.items() if count},
        findings=tuple(summary.findings.gravest(TOP_FINDINGS)),
        stop_cost_gpu_hours=summary.stop_cost_gpu_hours,
        kinds=summary.ledger.kinds(),
        projection=summary.ledger.projection(),
    )


def rows_of(account: Account) -> Iterator[tuple[str, ...]]:
    """Return a row of `SAVINGS_COLUMNS` per figure."""
    savings = account.savings
    yield _row("GPU time", savings.gpu_hours, "GPU-hours")
    yield _row("money", savings.cost, savings.assumptions.currency)
    yield _row("energy", savings.energy_kwh, "kWh")
    yield _row("carbon", savings.co2_kg, "kg CO2")


def lines_of(account: Account) -> Iterator[str]:
    """Say what the figures rest on, and what became of the decisions."""
    savings = account.savings
    assumed = savings.assumptions
    yield ""
    if account.simulated:
        yield from (SIMULATED, "")
    yield "measured"
    yield f"  {savings.outcomes} outcomes of {savings.decisions} decisions; ranges hold with 95 %"
    if text := stop_cost_text(account):
        yield f"  {text}"
    yield "assumed"
    yield f"  a GPU-hour costs {number(assumed.price_per_gpu_hour)} {assumed.currency}"
    yield f"  a GPU keeps {number(assumed.host_watts_per_gpu)} W of its host powered"
    yield f"  the building draws {number(assumed.power_usage_effectiveness)} times that"
    yield f"  a kWh emits {number(assumed.co2_kg_per_kwh)} kg of CO2{_hourly_text(account)}"
    yield "projected"
    yield from projection_lines(account)
    yield "decisions"
    yield from (f"  {count} {state.value}" for state, count in account.states.items())
    if not account.states:
        yield "  none yet"


def kind_rows(account: Account) -> Iterator[tuple[str, ...]]:
    """Return a row of `KIND_COLUMNS` per kind of decision that had outcomes."""
    for each in account.kinds:
        yield (
            each.kind,
            str(each.decisions),
            _ranged(each.gpu_hours),
            _ranged(each.cost),
            _ranged(each.energy_kwh),
            _ranged(each.co2_kg),
            _ranged(each.waiting_hours),
            _ranged(each.freed_gpu_hours),
        )


def projection_lines(account: Account) -> Iterator[str]:
    """Say what a year would bring if it went on like this, and that nobody measured that."""
    found = account.projection
    if found is None:
        yield f"  none before {LEAST_DAYS} whole days were measured"
        return
    money = f"{_ranged(found.cost)} {account.savings.assumptions.currency}"
    yield f"  not measured: a year of days like the {found.days} that were would bring"
    yield f"  {_ranged(found.gpu_hours)} GPU-hours, {money}"
    yield f"  {_ranged(found.energy_kwh)} kWh, {_ranged(found.co2_kg)} kg CO2"


def _hourly_text(account: Account) -> str:
    """Say for how much of the energy the carbon of its own hours is known."""
    whole = sum(abs(each.energy_kwh.mid) for each in account.kinds)
    hourly = sum(abs(each.energy_kwh.mid) * each.hourly_share for each in account.kinds)
    if not hourly:
        return ""
    return f"; for {hourly / whole:.0%} of the energy, by kind, savings.carbon has its own hours"


def _ranged(value: Interval) -> str:
    if value.low == value.mid == value.high == 0.0:
        return "-"
    return f"{number(value.mid)} ({number(value.low)} to {number(value.high)})"


def stop_cost_text(account: Account) -> str:
    """Say what stopping jobs cost, if any were stopped."""
    if account.stop_cost_gpu_hours <= 0:
        return ""
    cost = number(account.stop_cost_gpu_hours)
    return f"stopping jobs for others cost {cost} GPU-hours, which are not taken off"


def record_of(account: Account) -> dict[str, Any]:
    """Return the report as JSON shows it, in the API's words."""
    savings = account.savings
    return {
        "site": account.site,
        "simulated": account.simulated,
        "made_s": account.made_s,
        "gpu_hours": plain(savings.gpu_hours),
        "stop_cost_gpu_hours": account.stop_cost_gpu_hours,
        "cost": plain(savings.cost),
        "energy_kwh": plain(savings.energy_kwh),
        "co2_kg": plain(savings.co2_kg),
        "outcomes": savings.outcomes,
        "decisions": savings.decisions,
        "by_kind": plain(account.kinds),
        "projection": plain(account.projection),
        "assumptions": plain(savings.assumptions),
        "states": {state.value: count for state, count in account.states.items()},
        "findings": plain(account.findings),
    }


def _row(name: str, interval: Interval, unit: str) -> tuple[str, ...]:
    return name, number(interval.mid), number(interval.low), number(interval.high), unit

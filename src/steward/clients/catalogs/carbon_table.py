"""Tables of carbon per kilowatt-hour: cloud regions, countries, and states of the US."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steward.clients.catalogs.table import Imported, Row, Table
from steward.errors import StewardError
from steward.model.planning.catalog import CatalogSite, Engine, Source

__all__ = ["Carbon", "carbon_sites", "read_carbon"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carbon:
    """A mean of the year, and what the building draws for each watt; None: unknown."""

    grams_per_kwh: float
    power_usage_effectiveness: float | None
    source: str


_FORMS: Mapping[str, tuple[str, ...]] = {  # the key's columns, joined by a dash
    "provider": ("provider", "region"),
    "iso": ("iso",),
    "code": ("code",),
}
_GRAMS = "g_co2_per_kwh"


def read_carbon(text: str, *, where: str) -> Mapping[str, Carbon]:
    """Return carbon by `aws-us-east-1`, by country (`DEU`), or by state (`OH`)."""
    table = Table.of(text, needed=(_GRAMS,), where=where)
    form = next((form for form in _FORMS if form in table.header), None)
    if form is None:
        hint = "columns provider and region, or iso, or code name the place"
        raise StewardError("no column names a place", where=where, hint=hint)
    found = {}
    for row in table:
        key = "-".join(row.text(column) for column in _FORMS[form])
        grams = row.amount(_GRAMS)
        if grams is not None:
            found[key] = _carbon(row, grams)
    table.finish()
    return found


def _carbon(row: Row, grams: float) -> Carbon:
    effectiveness = row.amount("pue")
    if effectiveness is not None and effectiveness < 1:
        row.fault(f"pue is {effectiveness:g}, and is 1 or more")
    whence = [row.text(column) for column in ("source", "year") if row.text(column)]
    return Carbon(
        grams_per_kwh=grams, power_usage_effectiveness=effectiveness, source=", ".join(whence)
    )


def carbon_sites(carbon: Mapping[str, Carbon], *, source: Source) -> Imported:
    """Return cloud regions as sites without queues, to be merged with their prices."""
    sites = []
    for key, each in carbon.items():
        effectiveness = each.power_usage_effectiveness
        text = ", ".join(part for part in (source.text, each.source) if part)
        sites.append(
            CatalogSite(
                name=key,
                engine=Engine.CLOUD,
                queues=(),
                region=key,
                grams_per_kwh=each.grams_per_kwh,
                power_usage_effectiveness=1.4 if effectiveness is None else effectiveness,
                source=Source(text=text, as_of=source.as_of),
            )
        )
    return Imported(sites=tuple(sites))

"""The carbon of a site's electricity by the hour, where its configuration names a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steward.config.settings import Settings
from steward.errors import StewardError, unknown_name

if TYPE_CHECKING:
    from steward.model.planning.carbon import CarbonSeries

__all__ = ["site_carbon"]

SHOWN_REGIONS = 10


def site_carbon(settings: Settings) -> CarbonSeries | None:
    """Return the hours of the site's region; None where no file is named."""
    if not settings.savings.carbon:
        return None
    from steward.store.grid_carbon import read_carbon  # noqa: PLC0415 - few sites have a file

    path = Path(settings.savings.carbon).expanduser()
    known = {each.region: each for each in read_carbon(path)}
    region = settings.savings.region or (next(iter(known)) if len(known) == 1 else "")
    if region in known:
        return known[region]
    if region:
        raise unknown_name("region", region, known, where=str(path))
    names = ", ".join(sorted(known)[:SHOWN_REGIONS])
    hint = f"set savings.region to one of them: {names}"
    raise StewardError(f"it has {len(known)} regions", where=str(path), hint=hint)

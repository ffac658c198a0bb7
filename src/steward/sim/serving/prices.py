"""What a GPU costs per hour: a figure, or list prices of clouds from the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from steward.errors import StewardError, did_you_mean
from steward.sim.traces.locate import data_folder

__all__ = ["GpuPrice", "catalog_price", "gpu_price"]

_COLUMNS = ("cloud", "accelerator", "acc_count", "usd_per_hour")
_FLOORS = ("mithril",)  # bids in an auction, not prices that one can count on


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPrice:
    """US dollars per GPU and hour; low and high are the range of offers."""

    low: float
    mid: float
    high: float
    origin: str


def gpu_price(text: str, *, cloud: str = "") -> GpuPrice:
    """Return the price that a figure or the name of an accelerator stands for."""
    try:
        usd = float(text)
    except ValueError:
        return catalog_price(text, cloud=cloud)
    if not 0 <= usd < 1e6:
        raise StewardError(f"{text} is no price", where="--gpu-price", hint="US dollars per hour")
    return GpuPrice(low=usd, mid=usd, high=usd, origin="given")


def catalog_price(accelerator: str, *, cloud: str = "", file: Path | None = None) -> GpuPrice:
    """Return the median of the on-demand list prices of an accelerator, per GPU, over regions.

    `H200` takes in `H200-SXM`: clouds write one board in several ways.
    """
    source = file or data_folder().parent / "catalog" / "cloud_prices" / "gpu_instances.csv"
    offers = _offers(source).filter(~pl.col("cloud").is_in(_FLOORS))
    name = pl.col("accelerator").str.to_lowercase()
    asked = accelerator.lower()
    mine = offers.filter((name == asked) | name.str.starts_with(f"{asked}-"))
    if mine.is_empty():
        known = offers["accelerator"].unique().sort().to_list()
        hint = did_you_mean(accelerator, known) or f"known: {', '.join(known[:60])}, …"
        raise StewardError(f"no offer has {accelerator}", where=str(source), hint=hint)
    if cloud:
        clouds = mine["cloud"].unique().sort().to_list()
        mine = mine.filter(pl.col("cloud") == cloud)
        if mine.is_empty():
            hint = f"offered by {', '.join(clouds)}"
            raise StewardError(f"{cloud} offers no {accelerator}", where=str(source), hint=hint)
    usd = (mine["usd_per_hour"] / mine["acc_count"]).sort()
    where = cloud or f"{mine['cloud'].n_unique()} clouds"
    return GpuPrice(
        low=float(usd[0]),
        mid=float(usd.median() or 0.0),  # type: ignore[arg-type]
        high=float(usd[-1]),
        origin=f"{accelerator}, on demand, {len(usd)} offers of {where}",
    )


def _offers(file: Path) -> pl.DataFrame:
    if not file.is_file():
        hint = "set STEWARD_DATA to the data folder, or give a figure: --gpu-price 2.5"
        raise StewardError("there is no catalogue of prices", where=str(file), hint=hint)
    try:
        table = pl.read_csv(file, infer_schema_length=None)
        return table.select(
            pl.col("cloud").cast(pl.String),
            pl.col("accelerator").cast(pl.String),
            *(pl.col(name).cast(pl.Float64, strict=False) for name in _COLUMNS[2:]),
        ).filter((pl.col("usd_per_hour") > 0) & (pl.col("acc_count") > 0))
    except pl.exceptions.PolarsError as fault:
        hint = f"it needs the columns {', '.join(_COLUMNS)}"
        raise StewardError(f"cannot be read: {fault}", where=str(file), hint=hint) from None

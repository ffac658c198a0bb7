"""Arrivals that are made up: for lengths without times, and for clients known by their rates."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.serving.requests import RequestTrace, requests_of
from steward.model.trace import RowFault

__all__ = ["draw_arrivals", "generate_clients"]

Floats = NDArray[np.float64]
WINDOW_S = 600.0  # of client_rates.csv
_LEVELS = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9)
_RATES = ("client_id", "window_start_s", "rate_rps", "interarrival_cv", "pattern", "param1")


def draw_arrivals(count: int, *, rate: float, cv: float, seed: int) -> Floats:
    """Return arrival times at a mean rate; `cv` 1 is Poisson, more is burstier (gamma gaps)."""
    draw = np.random.default_rng(seed)
    shape = 1.0 / (cv * cv)
    gaps = draw.gamma(shape, 1.0 / (rate * shape), count)
    times: Floats = np.cumsum(gaps) - gaps[:1].sum()
    return times


def generate_clients(
    folder: Path, *, count: int, seed: int, rate: float | None = None
) -> RequestTrace:
    """Draw the first `count` requests of the clients in a folder of ServeGen's form.

    Gaps follow each client's own distribution in each 10 minutes, lengths the quantiles of its 6
    hours. `rate` scales all clients so that together they send so many requests a second.
    """
    rates = _read(folder / "client_rates.csv", _RATES)
    names = [f"{what}_p{level:g}" for what in ("in", "out") for level in _LEVELS]
    lengths = _read(folder / "client_lengths.csv", ("client_id", "window_start_s", *names))
    with_lengths = rates.filter(pl.col("client_id").is_in(lengths["client_id"].unique().implode()))
    if with_lengths.is_empty():
        raise StewardError("no client has both rates and lengths", where=str(folder), hint="")
    left_out = rates["client_id"].n_unique() - with_lengths["client_id"].n_unique()
    first_s = float(with_lengths["window_start_s"].min())  # type: ignore[arg-type]
    parts = []
    total = 0
    ordered = with_lengths.sort("window_start_s", "client_id")
    for _, rows in ordered.group_by("window_start_s", maintain_order=True):
        share = rate / float(rows["rate_rps"].sum()) if rate else 1.0
        for row in rows.iter_rows(named=True):
            part = _client_window(row, lengths, share=share, seed=seed)
            parts.append(part)
            total += len(part[0])
        if total >= count:
            break
    columns = [np.concatenate(each) for each in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")[:count]
    arrival_s, prompt, output, client = (each[order] for each in columns)
    fault = RowFault(reason="clients without lengths were left out", rows=left_out)
    return requests_of(
        folder.name,
        arrival_s=arrival_s - first_s,
        prompt_tokens=prompt.astype(np.int64),
        output_tokens=output.astype(np.int64),
        tenant=[f"client-{int(each)}" for each in client],
        origin=f"{folder}, drawn with seed {seed}",
        synthetic=True,
        faults=(fault,) if left_out else (),
    )


def _client_window(
    row: dict[str, Any], lengths: pl.DataFrame, *, share: float, seed: int
) -> tuple[Floats, Floats, Floats, Floats]:
    client, begin_s = int(row["client_id"]), float(row["window_start_s"])
    draw = np.random.default_rng((seed, client, int(begin_s)))
    rate = row["rate_rps"] * share
    expected = int(rate * WINDOW_S)
    shape = max(float(row["param1"]), 0.05)
    times = np.zeros(0)
    while not len(times) or times[-1] < WINDOW_S:
        more = expected // 4 + 16
        weibull = row["pattern"] == "Weibull"
        raw = draw.weibull(shape, more) if weibull else draw.gamma(shape, 1.0, more)
        mean = math.gamma(1 + 1 / shape) if weibull else shape
        last = times[-1] if len(times) else 0.0
        times = np.concatenate((times, last + np.cumsum(raw / mean / rate)))
    times = times[times < WINDOW_S]
    mine = lengths.filter(pl.col("client_id") == client)
    known = mine.filter(pl.col("window_start_s") <= begin_s).tail(1)
    quantiles = (known if len(known) else mine.head(1)).row(0, named=True)
    drawn = [_draw_lengths(draw, quantiles, what, len(times)) for what in ("in", "out")]
    return begin_s + times, drawn[0], drawn[1], np.full(len(times), float(client))


def _draw_lengths(
    draw: np.random.Generator, quantiles: dict[str, float], what: str, count: int
) -> Floats:
    """Draw from the distribution whose quantiles are known, linear between them."""
    known = [max(1.0, float(quantiles[f"{what}_p{level:g}"])) for level in _LEVELS]
    levels = np.array([0.0, *_LEVELS]) / 100
    found: Floats = np.round(np.interp(draw.random(count), levels, [known[0], *known]))
    return found


def _read(file: Path, columns: tuple[str, ...]) -> pl.DataFrame:
    where = str(file)
    if not file.is_file():
        hint = "a folder of clients holds client_rates.csv and client_lengths.csv"
        raise StewardError("is missing", where=where, hint=hint)
    try:
        table = pl.read_csv(file, infer_schema_length=None)
    except pl.exceptions.PolarsError as fault:
        raise StewardError(f"cannot be read: {fault}", where=where, hint="is it whole?") from None
    lacking = [name for name in columns if name not in table.columns]
    wrong = [
        name
        for name in columns
        if name not in (*lacking, "pattern")
        and (not table[name].dtype.is_numeric() or table[name].is_null().any())
    ]
    if lacking or wrong:
        parts = [f"lacks {', '.join(lacking)}"] if lacking else []
        parts += [f"{', '.join(wrong)} has cells that are no numbers"] if wrong else []
        hint = f"it needs the columns {', '.join(columns[:6])}, …"
        raise StewardError("; ".join(parts), where=where, hint=hint)
    return table.sort("client_id", "window_start_s")

"""Exports do not hold in memory what they write, and write the same whatever fits at once."""

from __future__ import annotations

import io
import weakref
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from factories import samples
from steward.model.frame import Frame
from steward.observe.export import ExportSelection, export_file
from steward.store.telemetry import Telemetry

HOURS = 6
T0 = 1_700_000_400.0


class Watched:
    """Telemetry that counts how many of the tables it returned are still in memory."""

    def __init__(self, telemetry: Telemetry) -> None:
        self.table = telemetry.table
        self.most = 0
        self._telemetry = telemetry
        self._returned: list[weakref.ref[Frame]] = []

    def read(self, **queried: Any) -> Frame:
        frame = self._telemetry.read(**queried)
        self._returned.append(weakref.ref(frame))
        self.most = max(self.most, sum(each() is not None for each in self._returned))
        return frame


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with closing(Telemetry(tmp_path, keep_days=None)) as telemetry:
        for hour in range(HOURS):
            for second in range(3):
                rows = {
                    f"n{n}": {"host.load_1m": hour + n / 10, "host.load_5m": 1.0} for n in range(4)
                }
                telemetry.append(samples(T0 + 3600 * hour + second, rows))
        telemetry.flush()
        yield Watched(telemetry)


def text(telemetry: Any, **options: int) -> str:
    out = io.BytesIO()
    export_file(telemetry, ExportSelection(), out=out, format_="prometheus", **options)
    return out.getvalue().decode()


@pytest.mark.parametrize("most_rows", [1, 20, 40])
def test_text_is_the_same_however_little_fits_into_memory(watched: Watched, most_rows: int) -> None:
    assert text(watched, most_rows=most_rows) == text(watched)


def test_text_of_more_than_fits_is_written_series_by_series(watched: Watched) -> None:
    lines = [line for line in text(watched, most_rows=1).splitlines() if line[0] != "#"]

    series = [line.rsplit(" ", 2)[0] for line in lines]
    groups = [name for i, name in enumerate(series) if i == 0 or series[i - 1] != name]
    assert len(lines) == HOURS * 3 * 4 * 2
    assert len(groups) == len(set(groups)) == 8  # no series is interleaved with another


def test_what_was_written_does_not_stay_in_memory(watched: Watched) -> None:
    text(watched, most_rows=1)
    out = io.BytesIO()
    export_file(watched, ExportSelection(), out=out, format_="parquet")  # type: ignore[arg-type]

    assert watched.most <= 2
    whole = pl.read_parquet(io.BytesIO(out.getvalue()))
    assert whole.height == HOURS * 3 * 4
    assert whole.null_count().sum_horizontal().item() == 0


def test_an_export_of_nothing_is_an_empty_file_of_its_format(watched: Watched) -> None:
    nothing = ExportSelection(entities=("nobody",))
    out = io.BytesIO()

    assert export_file(watched, nothing, out=out, format_="parquet") == 0  # type: ignore[arg-type]
    assert pl.read_parquet(io.BytesIO(out.getvalue())).height == 0

"""Tiers: coarser, never wrong, whatever was flushed, compacted or late in between."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factories import samples
from steward.model.frame import Frame
from steward.store.query import Query
from steward.store.telemetry import Telemetry

DAY = 86_400.0
T0 = 19_675 * DAY  # midnight
BUSY = "gpu.busy_share"


def run_upkeep(telemetry: Telemetry, now_s: float) -> None:
    telemetry.upkeep(now_s)
    telemetry.table.compactor._settle()


def test_a_step_keeps_the_extremes_and_the_mean(tmp_path: Path) -> None:
    with closing(Telemetry(tmp_path / "telemetry")) as telemetry:
        for second in range(20):
            telemetry.append(samples(T0 + second, {"a": {BUSY: 1.0 if second == 13 else 0.0}}))

        found = telemetry.read(from_s=T0, to_s=T0 + 19, step_s=10.0)

    assert found.rows() == [(T0, "a", 0.0, 0.0, 0.0, 10.0), (T0 + 10, "a", 0.0, 1.0, 0.1, 10.0)]
    assert found.columns == [
        "t_s",
        "entity",
        *(f"{BUSY}.{s}" for s in ("min", "max", "mean", "count")),
    ]


def test_an_hour_that_is_over_gets_its_tier_and_a_day_its_own(tmp_path: Path) -> None:
    with closing(Telemetry(tmp_path / "telemetry")) as telemetry:
        for hour in range(26):
            telemetry.append(samples(T0 + hour * 3600, {"a": {BUSY: 0.5}}))
        telemetry.flush()
        for turn in range(30):
            run_upkeep(telemetry, T0 + 27 * 3600 + turn)

    tens = [*(tmp_path / "telemetry_10s").rglob("*.parquet")]
    fives = [*(tmp_path / "telemetry_5m").rglob("*.parquet")]
    assert len(tens) == 26
    assert [file.parent.name for file in fives] == ["date=2023-11-14"]
    assert pl.read_parquet(fives[0]).height == 24


def test_what_raw_files_have_lost_to_retention_the_tiers_still_have(tmp_path: Path) -> None:
    folder = tmp_path / "telemetry"
    with closing(Telemetry(folder, keep_days=2.0)) as telemetry:
        telemetry.append(samples(T0, {"a": {BUSY: 0.25}}))
        telemetry.flush()
        for turn in range(3):
            run_upkeep(telemetry, T0 + DAY + 3600 + turn)
        for hour in range(24):
            telemetry.append(samples(T0 + 9 * DAY + hour * 3600, {"b": {BUSY: 0.5}}))
        telemetry.append(samples(T0 + 10 * DAY, {"a": {BUSY: 0.75}}))
        telemetry.flush()
        run_upkeep(telemetry, T0 + 10 * DAY + 3600)

        raw = telemetry.read(entities=["a"], from_s=0.0, to_s=1e11)
        steps = telemetry.read(entities=["a"], from_s=0.0, to_s=1e11, step_s=300.0)

    assert raw["t_s"].to_list() == [T0 + 10 * DAY]
    assert steps["t_s"].to_list() == [T0, T0 + 10 * DAY]
    assert steps[f"{BUSY}.mean"].to_list() == [0.25, 0.75]


def test_each_tier_has_its_own_retention(tmp_path: Path) -> None:
    folder = tmp_path / "telemetry"
    with closing(Telemetry(folder, keep_days=1.0, keep_tiers_days=(3.0, 1000.0))) as telemetry:
        telemetry.append(samples(T0, {"a": {BUSY: 0.25}}))
        telemetry.flush()
        for turn in range(3):
            run_upkeep(telemetry, T0 + DAY + 3600 + turn)
        for hour in range(24):
            telemetry.append(samples(T0 + 9 * DAY + hour * 3600, {"b": {BUSY: 0.5}}))
        telemetry.append(samples(T0 + 10 * DAY, {"a": {BUSY: 0.75}}))
        telemetry.flush()
        run_upkeep(telemetry, T0 + 10 * DAY + 3600 * 2)

        fine = telemetry.read(entities=["a"], from_s=0.0, to_s=1e11, step_s=10.0)
        coarse = telemetry.read(entities=["a"], from_s=0.0, to_s=1e11, step_s=300.0)

    assert fine["t_s"].to_list() == [T0 + 10 * DAY]
    assert coarse["t_s"].to_list() == [T0, T0 + 10 * DAY]


def test_a_broken_tier_is_worked_out_anew(tmp_path: Path) -> None:
    folder = tmp_path / "telemetry"
    with closing(Telemetry(folder)) as telemetry:
        telemetry.append(samples(T0, {"a": {BUSY: 0.25}}))
        telemetry.flush()
        run_upkeep(telemetry, T0 + 2 * 3600)
        (file,) = (tmp_path / "telemetry_10s").rglob("*.parquet")
        file.write_bytes(b"PAR1 nothing")

    with closing(Telemetry(folder)) as again:
        found = again.read(from_s=0.0, to_s=1e11, step_s=10.0)

        assert found[f"{BUSY}.mean"].to_list() == [0.25]
        assert "is damaged" in again.damage()[0]


def test_a_step_that_lies_in_two_files_is_one_row_of_the_tier(tmp_path: Path) -> None:
    with closing(Telemetry(tmp_path / "telemetry")) as telemetry:
        telemetry.table.compactor.max_values = 1  # nothing is merged
        for seconds in ((0, 1, 2), (3, 12)):
            for second in seconds:
                telemetry.append(samples(T0 + second, {"a": {BUSY: float(second), "x": 1.0}}))
            telemetry.flush()

        run_upkeep(telemetry, T0 + 2 * 3600)

    assert len([*(tmp_path / "telemetry").rglob("*.parquet")]) == 2
    (tier,) = (tmp_path / "telemetry_10s").rglob("*.parquet")
    columns = ["t_s", *(f"{BUSY}.{each}" for each in ("min", "max", "mean", "count"))]
    assert pl.read_parquet(tier).select(columns).rows() == [
        (T0, 0.0, 3.0, 1.5, 4.0),
        (T0 + 10, 12.0, 12.0, 12.0, 1.0),
    ]


def test_a_row_that_came_twice_counts_once(tmp_path: Path) -> None:
    with closing(Telemetry(tmp_path / "telemetry")) as telemetry:
        for _ in range(2):
            telemetry.append(samples(T0, {"a": {BUSY: 0.5}}))
            telemetry.flush()
        telemetry.append(samples(T0, {"a": {BUSY: 0.5}}))

        before = telemetry.read(from_s=0.0, to_s=1e11, step_s=10.0)
        run_upkeep(telemetry, T0 + 2 * 3600)
        after_it = telemetry.read(from_s=0.0, to_s=1e11)

    assert before[f"{BUSY}.count"].to_list() == [1.0]
    assert after_it.height == 1


def exact(rows: list[tuple[float, str, float]], step_s: float) -> list[tuple[object, ...]]:
    """Compute the same in plain Python."""
    buckets: dict[tuple[str, float], list[float]] = {}
    for t_s, entity, value in {*rows}:
        buckets.setdefault((entity, t_s // step_s * step_s), []).append(value)
    return [
        (t_s, entity, min(each), max(each), pytest.approx(sum(each) / len(each)), len(each))
        for (entity, t_s), each in sorted(buckets.items())
    ]


moments = st.integers(0, 40 * 360).map(lambda tens: T0 + tens * 10.0 + 1.0)
rows = st.tuples(moments, st.sampled_from(["a", "n1/gpu0"]), st.sampled_from([0.0, 0.5, 1.0]))
steps = st.lists(
    st.one_of(rows, st.just("flush"), st.just("compact"), st.just("reopen")), max_size=20
)


@settings(max_examples=25)
@given(steps=steps, step_s=st.sampled_from([10.0, 60.0, 300.0, 3600.0, 7.0]))
def test_no_order_of_events_changes_the_values_of_a_step(
    steps: list[tuple[float, str, float] | str], step_s: float
) -> None:
    steps = [s for n, s in enumerate(steps) if isinstance(s, str) or s not in steps[:n]]
    given_rows = [step for step in steps if not isinstance(step, str)]
    with tempfile.TemporaryDirectory() as folder:
        found = after(Path(folder) / "telemetry", steps, step_s)

    columns = ["t_s", "entity", *(f"{BUSY}.{s}" for s in ("min", "max", "mean", "count"))]
    result = found.select(columns).rows() if given_rows else []
    assert result == exact(given_rows, step_s)


def after(folder: Path, steps: list[tuple[float, str, float] | str], step_s: float) -> Frame:
    telemetry = Telemetry(folder)
    for turn, step in enumerate(steps):
        match step:
            case "flush":
                telemetry.flush()
            case "compact":
                for again in range(3):
                    run_upkeep(telemetry, T0 + 3 * DAY + 60 * turn + again)
            case "reopen":
                telemetry.close()
                telemetry = Telemetry(folder)
            case (t_s, entity, value):
                telemetry.append(samples(t_s, {entity: {BUSY: value}}))
    with closing(telemetry):
        return telemetry.read(from_s=0.0, to_s=1e11, step_s=step_s)


def test_sql_sees_tiers_that_are_not_written_yet(tmp_path: Path) -> None:
    with closing(Telemetry(tmp_path / "telemetry")) as telemetry:
        for hour in range(3):
            telemetry.append(samples(T0 + hour * 3600, {"a": {BUSY: hour / 10}}))
        telemetry.flush()
        run_upkeep(telemetry, T0 + 3600 * 1.5)  # one hour is over

    with Query(tmp_path) as query:
        for table in ("telemetry_10s", "telemetry_5m"):
            rows = query.run(f'SELECT t_s, "{BUSY}.mean" FROM {table} ORDER BY t_s').rows
            assert rows == [(T0, 0.0), (T0 + 3600, 0.1), (T0 + 7200, 0.2)]

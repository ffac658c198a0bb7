"""Quality: a fault that is put in is found and named; clean telemetry is silent."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.model.event import Event, Observation
from steward.model.frame import OTHER_SCHEMA, Frame
from steward.observe.importing import ImportSource, import_all, task_for
from steward.observe.quality import Flaw, FlawSeverity, QualityReport, assess
from steward.store.recording import Recording

DATA = Path(os.environ.get("STEWARD_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
T0 = 1_700_000_000.0
BUSY, WATTS, TEMP, SENT = (
    "gpu.busy_share",
    "gpu.power_watts",
    "gpu.temperature_celsius",
    "gpu.pcie.transmit_bytes_per_s",
)


def clean(seed: int, *, seconds: int = 600, nodes: int = 3) -> Frame:
    """Return samples of healthy GPUs: noise on everything, every second."""
    dice = np.random.default_rng(seed)
    frames = []
    for node in range(nodes):
        busy = np.clip(dice.normal(0.6, 0.2, seconds), 0.0, 1.0)
        watts = 100.0 + 500.0 * busy + dice.normal(0.0, 3.0, seconds)
        frames.append(
            pl.DataFrame(
                {
                    "t_s": T0 + np.arange(seconds, dtype=float),
                    "entity": [f"n{node}/gpu0"] * seconds,
                    BUSY: busy,
                    WATTS: watts,
                    TEMP: 40.0 + watts / 20.0,
                    SENT: dice.gamma(2.0, 1e8, seconds),
                }
            )
        )
    return pl.concat(frames)


def judged(folder: Path, frame: Frame, **seen: object) -> QualityReport:
    with closing(Recording(folder, keep_days=1e6)) as recording:
        recording.keep(Observation(frame=frame, **seen))  # type: ignore[arg-type]
        recording.settle()
    return assess(folder)


def changed(frame: Frame, metric: str, to: pl.Expr, where: pl.Expr) -> Frame:
    return frame.with_columns(pl.when(where).then(to).otherwise(pl.col(metric)).alias(metric))


ON_N1 = pl.col("entity") == "n1/gpu0"
SPELL = pl.col("t_s").is_between(T0 + 200, T0 + 400)
FAULTS: dict[str, Callable[[Frame], Frame]] = {
    "missing": lambda f: changed(f, WATTS, pl.lit(None, pl.Float64), ON_N1),
    "partly-missing": lambda f: changed(f, WATTS, pl.lit(None, pl.Float64), ON_N1 & SPELL),
    "structural-zero": lambda f: changed(f, SENT, pl.lit(0.0), ON_N1),
    "stuck": lambda f: changed(f, WATTS, pl.lit(321.5), ON_N1 & SPELL),
    "sentinel": lambda f: changed(f, SENT, pl.lit(4294967295.0), ON_N1 & (pl.col("t_s") < T0 + 5)),
    "out-of-range": lambda f: changed(f, BUSY, pl.col(BUSY) * 100, ON_N1),
    "counter-reset": lambda f: changed(f, SENT, pl.lit(-1e9), ON_N1 & (pl.col("t_s") == T0 + 9)),
    "unit-mismatch": lambda f: changed(f, WATTS, pl.col(WATTS) * 1000, ON_N1),
    "saturated": lambda f: changed(f, WATTS, pl.min_horizontal(WATTS, pl.lit(420.0)), ON_N1),
    "gap": lambda f: f.filter(~(ON_N1 & SPELL)),
    "slow-update": lambda f: changed(
        f, WATTS, pl.col(WATTS).gather((pl.int_range(pl.len()) // 4) * 4), ON_N1
    ),
    "duplicate-time": lambda f: pl.concat(
        [f, f.filter(ON_N1).head(7).with_columns(pl.col(WATTS) + 1)]
    ),
    "period-differs": lambda f: f.filter(~ON_N1 | (pl.col("t_s") % 4 == 0)),
}


@settings(max_examples=10)
@given(seed=st.integers(0, 2**31))
def test_clean_telemetry_is_silent(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    report = judged(tmp_path_factory.mktemp("clean"), clean(seed))

    assert report.flaws == ()
    assert (report.rows, report.entities, report.metrics) == (1800, 3, 4)


@pytest.mark.parametrize("kind", FAULTS)
@settings(max_examples=3)
@given(seed=st.integers(0, 2**31))
def test_a_fault_that_is_put_in_is_found(
    tmp_path_factory: pytest.TempPathFactory, kind: str, seed: int
) -> None:
    report = judged(tmp_path_factory.mktemp(kind), FAULTS[kind](clean(seed)))

    found = {(flaw.kind, flaw.entity.partition("/")[0]) for flaw in report.flaws}
    assert (kind, "n1") in found
    assert {node for _, node in found} == {"n1"}


def one(report: QualityReport, kind: str) -> Flaw:
    (flaw,) = [each for each in report.flaws if each.kind == kind]
    return flaw


def test_a_gap_is_reported_with_its_cause(tmp_path: Path) -> None:
    event = Event(
        t_s=T0 + 201, kind="gpu.lost", subject="n1/gpu0", text="fell off the bus", source="kernel"
    )

    report = judged(tmp_path, FAULTS["gap"](clean(1)), events=(event,))

    gap = one(report, "gap")
    assert "gpu.lost: fell off the bus" in gap.meaning
    assert gap.severity is FlawSeverity.INFO  # the cause is known
    assert gap.evidence["longest_s"] == pytest.approx(202.0)


def test_an_entity_that_changes_its_columns_has_no_gaps(tmp_path: Path) -> None:
    whole = clean(8).with_columns(pl.lit(0.5).alias("gpu.memory.busy_share"))
    late = pl.col("t_s") % 120 >= 60
    with closing(Recording(tmp_path, keep_days=1e6)) as recording:
        recording.keep(Observation(frame=whole.filter(late)))
        recording.keep(Observation(frame=whole.filter(~late).drop("gpu.memory.busy_share")))

    assert [flaw.kind for flaw in assess(tmp_path).flaws if flaw.kind == "gap"] == []


def test_a_column_of_another_kind_is_not_missing(tmp_path: Path) -> None:
    frame = clean(9).with_columns(pl.lit(None, pl.Float64).alias("share.busy_share"))

    assert judged(tmp_path, frame).flaws == ()


def test_what_rounding_makes_negative_is_no_reset(tmp_path: Path) -> None:
    moment = ON_N1 & (pl.col("t_s") == T0 + 9)

    assert judged(tmp_path, changed(clean(10), SENT, pl.lit(-5e-8), moment)).flaws == ()


def test_a_stuck_sensor_is_reported_with_when_and_at_what(tmp_path: Path) -> None:
    flaw = one(judged(tmp_path, FAULTS["stuck"](clean(2))), "stuck")

    assert (flaw.metric, flaw.entity, flaw.severity) == (WATTS, "n1/gpu0", FlawSeverity.WARNING)
    assert (flaw.evidence["from_s"], flaw.evidence["to_s"]) == (T0 + 200, T0 + 400)
    assert flaw.evidence["value"] == 321.5


def test_an_idle_gpu_is_not_a_stuck_one(tmp_path: Path) -> None:
    idle = changed(clean(3), BUSY, pl.lit(0.0), ON_N1 & SPELL)

    assert judged(tmp_path, idle).flaws == ()


def test_gpus_that_are_idle_all_day_are_not_broken_ones(tmp_path: Path) -> None:
    idle = clean(6)
    for metric, level in ((BUSY, 0.0), (SENT, 0.0), (TEMP, 31.0)):
        idle = changed(idle, metric, pl.lit(level), ON_N1)

    assert judged(tmp_path, idle).flaws == ()


def test_a_temperature_that_never_moves_is_stuck(tmp_path: Path) -> None:
    still = clean(4, nodes=1).with_columns(pl.lit(34.0).alias(TEMP))

    assert one(judged(tmp_path, still), "stuck").metric == TEMP


def test_a_latency_without_a_value_means_that_nothing_happened(tmp_path: Path) -> None:
    quiet = clean(7).select(
        "t_s",
        pl.col("entity").str.strip_suffix("/gpu0"),
        pl.lit(None, pl.Float64).alias("kernel.run_queue.wait.p99_seconds"),
        pl.when(pl.col("t_s") < T0 + 9).then(0.002).alias("disk.read.mean_seconds"),
    )

    flaw = one(judged(tmp_path, quiet), "no-events")

    assert (flaw.metric, flaw.severity) == ("kernel.run_queue.wait.p99_seconds", FlawSeverity.INFO)
    assert (flaw.entity, flaw.of) == ("*", "node")


def test_raw_counters_that_fall_were_reset_or_wrapped(tmp_path: Path) -> None:
    values = {
        "reset_total": [*range(0, 5000, 100), *range(0, 5000, 100)],
        "wrapped_total": [2**32 - 100 * (50 - n) for n in range(50)] + [n * 100 for n in range(50)],
        "gauge": [n % 7 for n in range(100)],
    }
    rows = [
        (T0 + n, "n1", name, float(value))
        for name, series in values.items()
        for n, value in enumerate(series)
    ]
    other = pl.DataFrame(rows, schema=OTHER_SCHEMA, orient="row")

    report = judged(tmp_path, clean(5), other=other)

    assert {(flaw.kind, flaw.metric) for flaw in report.flaws} == {
        ("counter-reset", "reset_total"),
        ("counter-wrapped", "wrapped_total"),
    }


def test_a_folder_without_telemetry_is_named(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="no telemetry here"):
        assess(tmp_path)


@pytest.mark.data
def test_what_is_true_of_the_h200_recording(tmp_path: Path) -> None:
    file = DATA / "h200" / "telemetry.csv.gz"
    import_all([task_for(ImportSource(path=file))], tmp_path / "out")

    report = assess(tmp_path / "out")

    found = {(flaw.kind, flaw.metric) for flaw in report.flaws}
    assert {
        ("slow-update", BUSY),  # NVML's utilisation is 200 ms old at best
        ("slow-update", "host.load_1m"),  # the kernel works it out every 5 s
        ("always-zero", "gpu.fp64.active_share"),  # training does not use double precision
        ("constant", "gpu.clock.memory_hz"),
    } <= found
    updates = {f.metric: f.evidence["update_s"] for f in report.flaws if f.kind == "slow-update"}
    assert updates[BUSY] == pytest.approx(0.2, abs=0.05)
    assert updates["host.load_1m"] == pytest.approx(5.0, abs=0.3)
    assert [flaw for flaw in report.flaws if flaw.severity >= FlawSeverity.WARNING] == []

"""Clocks: what is put in is found and named; clean telemetry is silent."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.model.event import Observation
from steward.model.frame import Frame
from steward.observe.quality import Flaw, FlawSeverity, assess
from steward.store.recording import Recording

T0 = 1_700_000_000.0
SECONDS = 300
OFFSET, HOST, GPU = "host.clock.offset_seconds", "host.context_switches_per_s", "gpu.busy_share"
CLOCKS = ("clock-off", "clock-jump", "clock-future", "clock-skew", "out-of-step")


def ticks(
    entity: str, metric: str, *, seed: int, shift_s: float = 0.0, jitter_s: float = 0.0
) -> Frame:
    """Return one value per second, as a sampler gives them."""
    dice = np.random.default_rng(seed)
    times = T0 + np.arange(SECONDS, dtype=float) + shift_s
    return pl.DataFrame(
        {
            "t_s": times + dice.uniform(-jitter_s, jitter_s, SECONDS),
            "entity": [entity] * SECONDS,
            metric: np.clip(dice.normal(0.5, 0.2, SECONDS), 0.0, 1.0),
        }
    )


def offsets(node: str, *, seed: int) -> Frame:
    """Return what an agent learns of its clock: a few milliseconds, and the noise of a network."""
    dice = np.random.default_rng(seed)
    times = T0 + np.arange(0, SECONDS, 5, dtype=float)
    values = 0.01 + dice.normal(0.0, 0.004, len(times))
    return pl.DataFrame({"t_s": times, "entity": [node] * len(times), OFFSET: values})


def clean(seed: int, *, jitter_s: float = 0.0) -> list[Frame]:
    """Return two nodes with a GPU each, read at the same ticks."""
    frames = []
    for node in ("n0", "n1"):
        frames += [
            ticks(node, HOST, seed=seed, jitter_s=jitter_s),
            ticks(f"{node}/gpu0", GPU, seed=seed, jitter_s=jitter_s),
            offsets(node, seed=seed),
        ]
    return frames


def kept(folder: Path, frames: list[Frame], *, written_s: float = T0 + SECONDS + 30) -> Path:
    with closing(Recording(folder, keep_days=1e6)) as recording:
        for frame in frames:
            recording.keep(Observation(frame=frame))
        recording.settle()
    for file in (folder / "telemetry").rglob("*.parquet"):
        os.utime(file, (written_s, written_s))
    return folder


def found(folder: Path) -> list[Flaw]:
    return [flaw for flaw in assess(folder).flaws if flaw.kind in CLOCKS]


def one(folder: Path, kind: str) -> Flaw:
    (flaw,) = [flaw for flaw in found(folder) if flaw.kind == kind]
    return flaw


@settings(max_examples=8)
@given(seed=st.integers(0, 2**31), jitter_s=st.sampled_from([0.0, 0.002, 0.1]))
def test_clean_telemetry_is_silent(
    tmp_path_factory: pytest.TempPathFactory, seed: int, jitter_s: float
) -> None:
    assert found(kept(tmp_path_factory.mktemp("clean"), clean(seed, jitter_s=jitter_s))) == []


def test_a_clock_that_is_off_is_named_with_how_far(tmp_path: Path) -> None:
    frames = clean(1)
    frames[5] = frames[5].with_columns(pl.col(OFFSET) - 2.0)

    (flaw,) = found(kept(tmp_path, frames))

    assert (flaw.kind, flaw.entity, flaw.metric) == ("clock-off", "n1", OFFSET)
    assert flaw.severity is FlawSeverity.WARNING
    assert "2 s ahead of the server's, in 60 of 60 values" in flaw.meaning
    assert flaw.evidence["worst_s"] == pytest.approx(-2.0, abs=0.05)


@settings(max_examples=5)
@given(by_s=st.floats(0.3, 1e5), at=st.integers(1, 59))
def test_a_clock_that_is_set_is_named_with_when(
    tmp_path_factory: pytest.TempPathFactory, by_s: float, at: int
) -> None:
    frames = clean(2)
    later = pl.col("t_s") >= T0 + 5 * at
    frames[2] = frames[2].with_columns(pl.col(OFFSET) + pl.when(later).then(by_s).otherwise(0.0))

    flaw = one(kept(tmp_path_factory.mktemp("set"), frames), "clock-jump")

    assert (flaw.entity, flaw.evidence["count"]) == ("n0", 1)
    assert flaw.evidence["at_s"] == T0 + 5 * at
    assert flaw.evidence["worst_s"] == pytest.approx(by_s, abs=0.05)


def test_samples_later_than_their_file_are_from_the_future(tmp_path: Path) -> None:
    frames = clean(3)
    late = ticks("n2", HOST, seed=3).tail(20).with_columns(pl.col("t_s") + 1000)

    flaw = one(kept(tmp_path, [*frames, late]), "clock-future")

    assert (flaw.entity, flaw.evidence["count"]) == ("n2", 20)
    assert flaw.evidence["ahead_s"] == pytest.approx(1000 - 31, abs=1)


def test_samples_later_than_now_are_from_the_future_whatever_the_time_of_their_file(
    tmp_path: Path,
) -> None:
    ahead_s = time.time() + 86_400 - T0
    frames = [frame.with_columns(pl.col("t_s") + ahead_s) for frame in clean(4)]

    flaws = found(kept(tmp_path, frames, written_s=0.0))

    assert [(flaw.kind, flaw.entity) for flaw in flaws] == [
        ("clock-future", "n0"),
        ("clock-future", "n1"),
    ]


@pytest.mark.parametrize("written_s", [0.0, T0 - 1e6])
def test_the_time_of_a_file_that_was_copied_reports_nothing(
    tmp_path: Path, written_s: float
) -> None:
    assert found(kept(tmp_path, clean(5), written_s=written_s)) == []


def test_a_demo_may_be_ahead_of_every_clock(tmp_path: Path) -> None:
    ahead_s = time.time() + 86_400 - T0
    kept(tmp_path, [frame.with_columns(pl.col("t_s") + ahead_s) for frame in clean(6)])
    (tmp_path / "simulated").touch()

    assert found(tmp_path) == []


@pytest.mark.parametrize("shift_s", [3600.0, -7.25])
def test_sources_of_one_node_that_are_shifted_are_named(tmp_path: Path, shift_s: float) -> None:
    frames = clean(7)
    frames[4] = ticks("n1/gpu0", GPU, seed=7, shift_s=shift_s)

    flaw = one(kept(tmp_path, frames, written_s=T0 + 9000), "clock-skew")

    assert (flaw.entity, flaw.evidence["shift_s"]) == ("n1", shift_s)
    assert ("later" if shift_s > 0 else "earlier") in flaw.meaning


@settings(max_examples=8)
@given(shift_s=st.floats(0.08, 0.92), seed=st.integers(0, 2**31))
def test_sources_that_are_out_of_step_are_reported_without_a_guess_why(
    tmp_path_factory: pytest.TempPathFactory, shift_s: float, seed: int
) -> None:
    frames = clean(seed)
    frames[4] = ticks("n1/gpu0", GPU, seed=seed, shift_s=shift_s, jitter_s=0.005)

    (flaw,) = found(kept(tmp_path_factory.mktemp("step"), frames))

    assert (flaw.kind, flaw.entity, flaw.severity) == ("out-of-step", "n1", FlawSeverity.INFO)
    nearest = shift_s if shift_s <= 0.5 else shift_s - 1.0
    assert abs(flaw.evidence["off_s"]) == pytest.approx(abs(nearest), abs=0.01)  # type: ignore[arg-type]
    assert "rows do not show which" in flaw.hint


def test_a_source_that_started_later_is_no_clock(tmp_path: Path) -> None:
    frames = clean(8)
    frames[4] = frames[4].tail(200)

    assert found(kept(tmp_path, frames)) == []


def test_sources_at_different_paces_are_not_compared(tmp_path: Path) -> None:
    frames = clean(9)
    frames[4] = frames[4].gather_every(3).with_columns(pl.col("t_s") + 0.3)

    assert found(kept(tmp_path, frames)) == []


def test_a_clock_that_is_shifted_and_then_right_again_is_not_called_steady(tmp_path: Path) -> None:
    frames = clean(10)
    half = pl.col("t_s") < T0 + 150
    shifted = pl.when(half).then(pl.col("t_s") + 0.3).otherwise(pl.col("t_s"))
    frames[4] = frames[4].with_columns(shifted.alias("t_s"))

    assert found(kept(tmp_path, frames)) == []

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from steward.model.frame import ENTITY, T_S
from steward.model.layout import Block, Layout
from steward.observe.normalise import Normaliser
from steward.observe.sampling.batch import BatchTranslator, TickBatch

NAMES = ("utilization.gpu", "memory.used", "pcie.replays", "temperature.gpu")
REPLAYS = Layout(blocks=(Block(entity="n1/gpu0", names=("pcie.replays",)),))


def batch(layout: Layout, rows: dict[float, list[float]]) -> TickBatch:
    made = TickBatch(layout, ticks=max(1, len(rows)))
    for t_s, values in rows.items():
        made.keep(t_s, np.array(values))
    return made


def rates(
    translator: BatchTranslator, rows: dict[float, list[float]], layout: Layout = REPLAYS
) -> list[object]:
    return [
        value
        for frame in translator.frames(batch(layout, rows))
        for value in frame["gpu.pcie.replays_per_s"].to_list()
    ]


def test_counters_continue_from_one_batch_to_the_next() -> None:
    translator = BatchTranslator("nvml")

    first = rates(translator, {0.0: [0.0], 1.0: [100.0]})
    second = rates(translator, {3.0: [500.0]})

    assert first == [None, 100.0]
    assert second == [200.0]


def test_a_counter_that_fell_or_was_silent_for_too_long_is_unknown_once() -> None:
    translator = BatchTranslator("nvml", gap_after_s=60.0)

    fell = rates(translator, {0.0: [5.0], 1.0: [1.0], 2.0: [2.0]})
    silent = rates(translator, {200.0: [9.0], 201.0: [10.0]})

    assert fell == [None, None, 1.0]
    assert silent == [None, 1.0]


def test_counters_outlive_a_new_layout_of_the_same_entities() -> None:
    translator = BatchTranslator("nvml")
    other = Layout(blocks=(Block(entity="n1/gpu1", names=("pcie.replays",)), *REPLAYS.blocks))

    rates(translator, {0.0: [1.0]})
    both = rates(translator, {1.0: [7.0, 2.0]}, other)

    assert both == [None, 1.0]


def test_an_empty_batch_is_no_table() -> None:
    assert BatchTranslator("nvml").frames(batch(REPLAYS, {})) == []


def test_an_unknown_name_is_reported_and_left_out() -> None:
    translator = BatchTranslator("nvml")
    layout = Layout(
        blocks=(
            Block(entity="n1/gpu0", names=("memory.used", "magic")),
            Block(entity="n1/gpu1", names=("magic",)),
        )
    )

    (frame,) = translator.frames(batch(layout, {1.0: [5.0, 6.0, 7.0]}))

    assert translator.unknown == {"magic"}
    assert frame.columns == [T_S, ENTITY, "gpu.memory.used_bytes"]


@given(
    entities=st.integers(1, 3),
    batches=st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=5), min_size=1, max_size=4),
    values=st.lists(
        st.one_of(st.just(float("nan")), st.just(float("inf")), st.floats(0, 1e12)),
        min_size=1,
        max_size=40,
    ),
)
def test_batches_and_tables_come_to_the_same(
    entities: int, batches: list[list[int]], values: list[float]
) -> None:
    names = [f"n1/gpu{i}" for i in range(entities)]
    layout = Layout(blocks=tuple(Block(entity=name, names=NAMES) for name in names))
    translator, normaliser = BatchTranslator("nvml"), Normaliser(source="test", vocabulary="nvml")
    dice = iter(values * 1000)
    t_s = 0.0

    for steps in batches:
        rows = {}
        for step in steps:
            t_s += step
            rows[t_s] = [next(dice) for _ in range(layout.width)]
        (fast,) = translator.frames(batch(layout, rows))
        raw = pl.DataFrame(
            [
                (time, name, *row[i * len(NAMES) : (i + 1) * len(NAMES)])
                for i, name in enumerate(names)
                for time, row in rows.items()
            ],
            schema={T_S: pl.Float64, ENTITY: pl.String, **dict.fromkeys(NAMES, pl.Float64)},
            orient="row",
        )
        slow, _ = normaliser.normalise(raw)
        assert_frame_equal(fast, slow, check_column_order=False, rel_tol=1e-12)

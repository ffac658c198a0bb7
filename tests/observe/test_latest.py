"""The newest value of everything is at hand, and what is silent is not shown."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from factories import samples
from steward.observe.latest import Latest


def shown(latest: Latest, since_s: float = 0.0) -> dict[tuple[str, str], float]:
    return {
        (column.metric.name, entity): value
        for column in latest.columns(since_s=since_s)
        for entity, value in zip(column.entities, column.values.tolist(), strict=True)
    }


rows = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.sampled_from(["n1/gpu0", "n1/gpu1", "n2/gpu0"]),
        st.none() | st.floats(0, 1),
        st.none() | st.floats(0, 700),
    ),
    max_size=30,
)


@settings(max_examples=30)
@given(st.lists(rows, max_size=4))
def test_each_value_is_the_newest_that_was_reported(frames: list[list[tuple[int, str, float, float]]]) -> None:  # noqa: E501  # fmt: skip
    latest = Latest()
    newest: dict[tuple[str, str], tuple[float, float]] = {}
    names = ("gpu.busy_share", "gpu.power_watts")
    for frame in frames:
        latest.take(
            [
                pl.DataFrame(
                    [(float(t), *rest) for t, *rest in frame],
                    schema={"t_s": pl.Float64, "entity": pl.String}
                    | dict.fromkeys(names, pl.Float64),
                    orient="row",
                )
            ]
        )
        for t, entity, *values in sorted(frame, key=lambda row: row[0]):
            for name, value in zip(names, values, strict=True):
                if value is not None and newest.get((name, entity), (-1, 0))[0] <= t:
                    newest[name, entity] = (t, value)

    assert shown(latest) == {key: value for key, (_, value) in newest.items()}
    assert shown(latest, 10.0) == {key: value for key, (t, value) in newest.items() if t >= 10}


def test_unknown_columns_and_empty_frames_are_no_trouble() -> None:
    latest = Latest()

    latest.take(
        [samples(1.0, {"n1": {"who.knows": 1.0}}), samples(1.0, {"n1": {"host.load_1m": None}})]
    )

    assert shown(latest) == {}


def test_only_so_many_entities_are_remembered_and_the_rest_is_counted() -> None:
    latest = Latest(most_entities=3)

    latest.take([samples(1.0, {f"n{i}": {"host.load_1m": 1.0} for i in range(5)})])
    assert (len(shown(latest)), latest.dropped) == (3, 2)

    latest.take([samples(200_000.0, {"new": {"host.load_1m": 2.0}})])
    latest.take([samples(400_000.0, {"newer": {"host.load_1m": 3.0}})])
    assert shown(latest, 300_000.0) == {("host.load_1m", "newer"): 3.0}


def test_tables_grow_with_entities_and_metrics() -> None:
    latest = Latest()
    many = {f"n{i}": {"host.load_1m": float(i)} for i in range(500)}

    latest.take([samples(1.0, many)])

    found = shown(latest)
    assert len(found) == 500
    assert np.isclose(found["host.load_1m", "n499"], 499.0)

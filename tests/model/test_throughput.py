from __future__ import annotations

import numpy as np

from steward.model.throughput import throughputs_of

TABLE = throughputs_of(
    "measured",
    solo=[
        ("v100", "lm", 1, 4.0, True),
        ("v100", "lm", 2, 7.0, True),
        ("k80", "lm", 1, 1.0, True),
        ("v100", "lm", 2, 5.0, False),
        ("v100", "gan", 1, 2.0, True),
    ],
    pairs=[("v100", ("lm", 1), ("gan", 1), 3.0, 1.5)],
    reference="v100",
)


def test_rates_stand_by_kind_and_type_and_what_was_not_measured_is_unknown() -> None:
    assert TABLE.kinds == (("lm", 1), ("lm", 2), ("gan", 1))
    assert TABLE.types == ("v100", "k80")
    assert TABLE.solo[0].tolist() == [4.0, 1.0]
    assert np.isnan(TABLE.solo[1, 1])
    assert TABLE.spread[1, 0] == 5.0


def test_a_pair_counts_both_ways_round() -> None:
    assert TABLE.pairs[0, 0, 2] == 3.0
    assert TABLE.pairs[0, 2, 0] == 1.5
    assert np.isnan(TABLE.pairs[1]).all()


def test_an_unmeasured_size_counts_as_the_largest_smaller_one() -> None:
    kinds = TABLE.kind_of(["lm", "lm", "gan", "unknown", "lm"], np.array([2.0, 8.0, 1.0, 1.0, 0.5]))

    assert kinds.tolist() == [1, 1, 2, -1, -1]


def test_types_are_found_whatever_their_case() -> None:
    assert TABLE.columns_of(["K80", "V100", "H200"]).tolist() == [1, 0, -1]


def test_the_first_type_is_the_reference_unless_one_is_named() -> None:
    assert throughputs_of("t", solo=[("a", "m", 1, 1.0, True)]).reference == "a"

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from factories import job, node, view
from steward.learn.estimators.use_levels import UseLevels
from steward.model.forecast import ForecastColumn
from steward.model.job import Job
from steward.model.view import ClusterView

RUNS = job("j1", on=("n1/gpu0",))


def seen(t_s: float, busy: float, of: Job = RUNS) -> ClusterView:
    made = view(node("n1"), jobs=(of,), t_s=t_s)
    return replace(made, gpus=replace(made.gpus, owner_busy_share=np.array([busy, np.nan])))


def learned(*shares: float, levels: UseLevels | None = None, from_s: float = 0.0) -> UseLevels:
    """Return what was learned of a look every minute."""
    made = levels or UseLevels()
    for number, busy in enumerate(shares):
        made.learn(seen(from_s + 60.0 * number, busy), ())
    return made


def belief(levels: UseLevels, at: ClusterView) -> ForecastColumn:
    (column,) = levels.predict(at)
    return column


def test_a_steady_level_is_known_after_ten_minutes() -> None:
    early = belief(learned(*[0.2] * 10), seen(600.0, 0.2))
    known = belief(learned(*[0.2] * 11), seen(600.0, 0.2))

    assert np.isnan(early.mid[0])
    assert known.mid[0] == pytest.approx(0.2)
    assert known.high[0] == pytest.approx(0.2)
    assert np.isnan(known.mid[1])  # nobody has it


def test_uneven_use_raises_what_it_stays_below() -> None:
    known = belief(learned(*[0.0, 0.6] * 20), seen(2400.0, 0.0))

    assert known.mid[0] == pytest.approx(0.3, abs=0.05)
    assert known.low[0] == 0.0
    assert known.high[0] > 0.75


def test_older_use_fades() -> None:
    known = belief(learned(*[1.0] * 30, *[0.1] * 30), seen(3600.0, 0.1))

    assert known.mid[0] < 0.15


def test_another_owner_or_a_gap_begins_anew() -> None:
    levels = learned(*[0.9] * 20)
    levels.learn(seen(1200.0, 0.1, job("j2", on=("n1/gpu0",))), ())
    assert np.isnan(belief(levels, seen(1200.0, 0.1)).mid[0])

    gap = learned(*[0.9] * 20, float("nan"), *[0.1] * 11)
    assert belief(gap, seen(1860.0, 0.1)).mid[0] == pytest.approx(0.1)


def test_another_cluster_and_a_clock_that_goes_back_begin_anew() -> None:
    levels = learned(*[0.9] * 20)
    other = view(node("n2"), jobs=(job("j1", on=("n2/gpu0",)),))
    assert np.isnan(belief(levels, other).mid).all()

    levels.learn(seen(0.0, 0.9), ())
    assert np.isnan(belief(levels, seen(0.0, 0.9)).mid[0])

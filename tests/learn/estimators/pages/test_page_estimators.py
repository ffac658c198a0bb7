from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from memory_views import moment_of, snapshot, view_of
from steward.learn.estimators.pages.arrivals import PageArrivals
from steward.learn.estimators.pages.blocks import BlockMigration
from steward.learn.estimators.pages.kv_reuse import KvReuse
from steward.learn.estimators.pages.migration import PageMigration
from steward.learn.estimators.pages.reuse import PageReuse
from steward.model.memory.ranking import ARMS
from steward.model.memory.view import LinkState, MemoryView, Moves
from steward.model.serving.kv_tiers import KvView


def epochs(counts: list[list[int]]) -> list[MemoryView]:
    """Return epochs of far pages with these accesses."""
    idle = np.zeros(len(counts[0]), np.int32)
    found = []
    for number, row in enumerate(counts):
        view = view_of([1] * len(row), near=2, counts=row, epoch=number)
        idle = np.where(np.array(row) > 0, 0, idle + 1).astype(np.int32)
        found.append(MemoryView(**{**{n: getattr(view, n) for n in view.__slots__}, "idle": idle}))
    return found


def test_pages_that_keep_being_used_are_expected_to_be_used_again() -> None:
    reuse = PageReuse()
    for view in epochs([[8, 8, 0, 0]] * 60):
        reuse.learn(view)
    expected = reuse.expected(4)

    assert expected[0] == pytest.approx(expected[1])
    assert expected[0] > 50.0
    assert expected[2] < 1.0


def test_pages_of_one_burst_are_not_expected_again() -> None:
    reuse = PageReuse()
    counts = [[8 if page == number else 0 for page in range(60)] for number in range(60)]
    for view in epochs(counts):
        reuse.learn(view)

    assert reuse.expected(60)[59] < 8.0  # used just now, and never again so far


def test_a_counter_that_was_reset_is_an_idle_epoch_and_no_fault() -> None:
    reuse = PageReuse()
    for view in epochs([[8], [0], [8], [0]]):
        reuse.learn(view)

    assert np.isfinite(reuse.expected(1)).all()


def test_estimators_predict_before_they_learned() -> None:
    view = view_of([0, 1], near=1)
    found = PageMigration().predict(view)

    assert found.accesses.tolist() == [0.0, 0.0]
    assert found.arms is not None
    assert len(found.arms.mean) == len(ARMS)
    assert BlockMigration().predict(moment_of(snapshot()))


def test_new_pages_are_counted_once() -> None:
    arrivals = PageArrivals()
    first, second = (view_of([0, 1], near=1, counts=row) for row in ([3, 0], [1, 2]))

    assert arrivals.learn(first, np.zeros(2)).tolist() == [0]
    assert arrivals.learn(second, np.zeros(2)).tolist() == [1]
    assert arrivals.pages == pytest.approx(1.0)


def test_saved_stall_counts_loaded_times_by_how_many_accesses_fit_into_them() -> None:
    arrivals = PageArrivals()
    slow = LinkState(far_access_s=9e-6, measured_s=1.0)
    fast = LinkState(far_access_s=1e-6, measured_s=1.0)
    for link in (slow, fast):
        arrivals.learn(view_of([1], near=1, link=link), np.zeros(1))

    assert 1e-6 < arrivals.saved_s < 2.5e-6  # not the mean of both


def run(migration: PageMigration, *, pays: bool) -> None:
    """Promote page 1 again and again, which is used a lot, or never."""
    for epoch in range(200):
        view = view_of([0, 0], near=2, counts=[0, 500 if pays else 0], epoch=epoch)
        migration.learn(view)
        migration.predict(view)
        moves = Moves(promote=np.array([1]), demote=np.zeros(0, np.int64), arm=3)
        migration.took(view, moves)


def test_an_arm_whose_moves_pay_is_believed_to_and_one_whose_moves_do_not_is_not() -> None:
    good, bad = PageMigration(), PageMigration()
    run(good, pays=True)
    run(bad, pays=False)

    assert good.saved_s > 0.0 > bad.saved_s


def test_a_learned_state_is_kept_and_one_that_does_not_fit_refused() -> None:
    first = PageMigration()
    run(first, pays=True)
    saved = json.loads(json.dumps(first.save_state()))
    again = PageMigration()
    again.restore_state(saved)

    assert again.save_state() == saved
    with pytest.raises(ValueError, match="other arms"):
        again.restore_state({**saved, "arms": ["x"]})
    with pytest.raises(ValueError, match="differently"):
        again.reuse.restore_state({**saved["reuse"], "discount": 0.5})
    assert pickle.loads(pickle.dumps(first)).save_state() == saved  # noqa: S301 - our own


def test_other_pages_than_before_begin_anew() -> None:
    migration = PageMigration()
    migration.learn(view_of([1, 1], near=1, counts=[5, 0]))
    migration.learn(view_of([1, 1, 1], near=1, counts=[5, 0, 1], epoch=1))

    assert len(migration.predict(view_of([1, 1, 1], near=1)).accesses) == 3


def test_the_loops_estimator_learns_from_moments_and_what_was_moved() -> None:
    estimator = BlockMigration()
    moment = moment_of(snapshot((512, 0, 9), (0, 512, 0)))
    estimator.learn(moment)
    columns = estimator.predict(moment)
    expects = moment.with_forecasts(columns).expects()
    again = BlockMigration()
    again.restore_state(estimator.save_state())

    assert expects is not None
    assert expects.arms is not None
    assert estimator.estimate(None) == ()  # type: ignore[arg-type]
    assert again.save_state() == estimator.save_state()


def test_prompt_blocks_that_are_used_again_are_worth_more() -> None:
    policy = KvReuse()
    for look in range(40):
        uses = np.array([3, 1 if look == 0 else 0, 0])
        last_s = np.array([5.0 * look, 0.0, -np.inf])
        values = policy.values(KvView(t_s=5.0 * look, uses=uses, last_s=last_s))

    assert values[0] > values[1] >= 0.0
    assert values[2] == 0.0

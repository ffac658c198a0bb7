from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.learn.outcomes import BanditSettings, ChoiceLog, OutcomeBandit, compare, estimates
from steward.learn.outcomes.evaluation import effective_size, median_of_means, reward_model
from steward.learn.outcomes.thompson import ArmPosterior, best_shares_of_many

HOURS = BanditSettings(block_s=3600.0)
GOOD = np.array([[0.0, 0.5], [0.0, -0.4]])  # reward by kind of context and arm


def bandit(**changes: object) -> OutcomeBandit:
    given = BanditSettings(block_s=3600.0, **changes)  # type: ignore[arg-type]
    return OutcomeBandit(arms=("nothing", "act"), baseline=1, size=2, settings=given)


def live(
    made: OutcomeBandit,
    rounds: int,
    rewards: np.ndarray = GOOD,
    *,
    seed: int = 0,
    from_s: float = 0,
) -> tuple[list[int], list[int]]:
    """Return the kinds of context and the arms that were chosen."""
    random, kinds, arms = np.random.default_rng(seed), [], []
    for number in range(rounds):
        kind = int(random.integers(2))
        context = np.array([1.0, float(kind)])
        chosen = made.choose(context, f"{seed}/{number}")
        noise = 0.1 * random.normal() if chosen.arm else 0.0
        made.learn(context, chosen, rewards[kind, chosen.arm] + noise, from_s + 300.0 * number)
        kinds.append(kind)
        arms.append(chosen.arm)
    return kinds, arms


def test_it_learns_where_nothing_is_better_and_is_trusted_on_evidence() -> None:
    made = bandit()

    kinds, arms = live(made, 1500)

    late = [(kind, arm) for kind, arm in zip(kinds[-300:], arms[-300:], strict=True)]
    assert made.trusted
    assert np.mean([arm for kind, arm in late if kind == 0]) > 0.9
    assert np.mean([arm for kind, arm in late if kind == 1]) < 0.1
    assert made.comparison is not None
    assert made.comparison.effective >= 100
    assert made.comparison.low > 0


def test_it_stays_with_the_baseline_where_that_is_best() -> None:
    made = bandit()

    _, arms = live(made, 600, np.array([[0.0, 0.5], [0.0, 0.4]]))

    assert not made.trusted
    assert np.mean(arms) > 0.9


def test_a_drift_takes_the_trust_back() -> None:
    made = bandit()
    live(made, 1500)
    assert made.trusted

    live(made, 60, GOOD[::-1], seed=1, from_s=1e6)

    assert len(made.drifts_s) == 1
    assert made.drifts_s[0] >= 1e6
    assert not made.trusted


def test_exploring_costs_no_more_than_the_gate_allows() -> None:
    made = bandit(explore_share=0.5, allowance=1.0)

    live(made, 400, np.array([[-1.0, 0.5], [-1.0, 0.5]]))

    allowed = 1.0 + 0.05 * made.earned
    assert made.gated > 100
    assert made.spent <= allowed + 1.5  # one choice may pass the limit


def test_a_protected_choice_is_the_baseline_and_teaches_nothing() -> None:
    made = bandit(explore_share=0.9)

    for number in range(50):
        chosen = made.choose(np.ones(2), str(number), protected=True)
        made.learn(np.ones(2), chosen, 0.7, 0.0)
        assert chosen.shares == (0.0, 1.0)
        assert chosen.arm == 1

    assert len(made.log()) == 0
    assert made.arm_means()[1][1] == 0.0


def test_a_restored_bandit_chooses_the_same() -> None:
    made, restored = bandit(), bandit()
    live(made, 300)

    restored.restore_state(json.loads(json.dumps(made.save_state())))

    keys = [str(number) for number in range(30)]
    context = np.array([1.0, 0.0])
    assert [restored.choose(context, key) for key in keys] == [
        made.choose(context, key) for key in keys
    ]


def test_a_state_of_other_arms_is_refused() -> None:
    other = OutcomeBandit(arms=("a", "b"), baseline=0, size=2)

    with pytest.raises(ValueError, match="other arms"):
        bandit().restore_state(other.save_state())


@given(
    context=st.lists(st.floats(-3, 3), min_size=2, max_size=2),
    rewards=st.lists(st.floats(-5, 5), max_size=12),
)
@settings(max_examples=20)
def test_probabilities_are_those_of_a_choice(context: list[float], rewards: list[float]) -> None:
    made = bandit()
    for number, reward in enumerate(rewards):
        made.learn(np.array(context), made.choose(np.array(context), str(number)), reward, number)

    shares = made.shares(np.array(context), "key")

    assert shares.sum() == pytest.approx(1.0)
    assert (shares >= 0.05 / 2 - 1e-12).all()


def test_learning_at_once_is_learning_one_by_one() -> None:
    random = np.random.default_rng(3)
    contexts, rewards = random.normal(size=(40, 3)), random.normal(size=40)
    one_by_one, at_once = ArmPosterior(size=3, fade=0.9), ArmPosterior(size=3, fade=0.9)
    for context, reward in zip(contexts, rewards, strict=True):
        one_by_one.add(context, float(reward))

    at_once.fit(contexts, rewards)

    assert at_once.coefficients == pytest.approx(one_by_one.coefficients)
    assert at_once.weight == pytest.approx(one_by_one.weight)


def test_the_clearly_better_arm_is_nearly_always_the_best_of_draws() -> None:
    means = np.array([[0.0, 1.0], [0.0, 0.0]])

    shares = best_shares_of_many(means, np.full((2, 2), 0.1), "key", draws=1000)

    assert shares[0, 1] > 0.99
    assert shares[1, 1] == pytest.approx(0.5, abs=0.08)


def logged(rows: int, *, seed: int = 0) -> ChoiceLog:
    random = np.random.default_rng(seed)
    kinds = random.integers(2, size=rows)
    act = random.random(rows) < 0.8
    return ChoiceLog(
        contexts=np.column_stack((np.ones(rows), kinds)).astype(float),
        arms=act.astype(int),
        chance=np.where(act, 0.8, 0.2),
        rewards=GOOD[kinds, act.astype(int)] + 0.1 * random.normal(size=rows),
        block=np.arange(rows) // 50,
    )


def test_every_estimator_finds_what_another_policy_would_have_earned() -> None:
    log = logged(4000)
    by_kind = np.eye(2)[1 - log.contexts[:, 1].astype(int)]
    true = float(np.mean(GOOD[log.contexts[:, 1].astype(int), by_kind.argmax(axis=1)]))

    found = estimates(log, by_kind, reward_model(log, 2))

    assert [each.method for each in found] == ["IPS", "SNIPS", "DR", "SWITCH"]
    for each in found:
        assert each.mean == pytest.approx(true, abs=0.03)


def test_the_range_of_a_comparison_holds_the_truth_in_most_logs() -> None:
    covered = 0
    for seed in range(40):
        log = logged(600, seed=seed)
        kinds = log.contexts[:, 1].astype(int)
        found = compare(log, np.eye(2)[1 - kinds], np.tile([0.0, 1.0], (600, 1)))
        true = float(np.mean(np.where(kinds == 1, 0.4, 0.0)))
        covered += found.low <= true <= found.high

    assert covered >= 33


def test_a_comparison_without_choices_or_with_one_block_proves_nothing() -> None:
    empty = logged(0)
    one = logged(40)

    assert not compare(empty, np.zeros((0, 2)), np.zeros((0, 2))).holds(0.0)
    assert not compare(one, np.tile([1.0, 0.0], (40, 1)), np.tile([0.0, 1.0], (40, 1))).holds(0.0)


def test_a_log_without_probabilities_is_refused() -> None:
    with pytest.raises(StewardError, match="no probability"):
        ChoiceLog(
            contexts=np.ones((1, 2)),
            arms=np.zeros(1, int),
            chance=np.zeros(1),
            rewards=np.zeros(1),
            block=np.zeros(1, int),
        )


def test_unequal_weights_are_worth_fewer_choices() -> None:
    assert effective_size(np.ones(50)) == pytest.approx(50.0)
    assert effective_size(np.array([100.0, *np.ones(49)])) < 3.0
    assert effective_size(np.zeros(3)) == 0.0


def test_a_wild_value_does_not_move_the_median_of_means() -> None:
    assert median_of_means(np.array([*np.ones(99), 1e9])) == pytest.approx(1.0)

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from factories import believing, job, loan, node, outcome, view
from steward.learn.estimators.lending_choice import (
    ARMS,
    FEATURES,
    LATER,
    LEND,
    NOTHING,
    LendingChoice,
)
from steward.learn.outcomes import BanditSettings, OutcomeBandit
from steward.model.forecast import CHOICE_LEND, CHOICE_SHARES, About
from steward.model.job import Job
from steward.model.view import ClusterView

GPU = "n1/gpu0"


def moment(t_s: float, idle_s: float | None, *, owner: Job | None = None) -> ClusterView:
    seen = view(node("n1", 2), jobs=[owner or job("j1", on=[GPU])])
    ages = {} if idle_s is None else {GPU: idle_s}
    return replace(believing(seen, idle_s=ages), t_s=t_s)


def may_lend(seen: ClusterView, made: LendingChoice) -> float:
    (column,) = [each for each in made.predict(seen) if each.quantity == CHOICE_LEND]
    return float(column.mid[0])


def always(arm: int, *, later_s: float = 900.0) -> LendingChoice:
    """Return an estimator that takes this arm for every spell."""
    settings = BanditSettings(explore_share=0.0)
    only = OutcomeBandit(arms=ARMS, baseline=arm, size=len(FEATURES), settings=settings)
    return LendingChoice(later_s=later_s, bandit=only)


def test_a_gpu_has_no_choice_before_it_was_idle_for_long() -> None:
    made = LendingChoice()

    assert np.isnan(may_lend(moment(0.0, 200.0), made))
    assert np.isnan(may_lend(view(), made))


def test_the_probabilities_of_all_arms_stand_beside_the_choice() -> None:
    columns = LendingChoice().predict(moment(1000.0, 400.0))

    shares = [each.mid[0] for each in columns if each.quantity in CHOICE_SHARES]
    assert len(shares) == len(ARMS)
    assert sum(shares) == pytest.approx(1.0)
    assert shares[LEND] == max(shares)
    assert {each.about for each in columns} == {About.GPUS}


def test_a_choice_is_kept_for_the_spell() -> None:
    made = LendingChoice()

    found = {may_lend(moment(1000.0 + 10 * i, 400.0 + 10 * i), made) for i in range(50)}

    assert len(found) == 1


def test_a_later_loan_is_allowed_once_the_spell_has_lasted() -> None:
    made = always(LATER)

    assert may_lend(moment(1000.0, 400.0), made) == 0.0
    assert may_lend(moment(1899.0, 1299.0), made) == 0.0
    assert may_lend(moment(1900.0, 1300.0), made) == 1.0


@pytest.mark.parametrize("change", [{"held": True}, {"deadline_s": 9e9}])
def test_a_protected_job_is_never_explored_on_nor_learnt_from(change: dict[str, object]) -> None:
    made = LendingChoice()
    owner = replace(job("j1", on=[GPU]), **change)  # type: ignore[arg-type]
    for spell in range(40):
        t_s = 10_000.0 * spell
        assert may_lend(moment(t_s, 400.0, owner=owner), made) == 1.0
        made.learn(moment(t_s + 600.0, None, owner=owner), ())

    assert made.bandit.protected == 40
    assert len(made.bandit.log()) == 0


def test_a_spell_earns_the_share_of_its_idle_time_that_its_loans_gained() -> None:
    made = always(LEND)
    made.predict(moment(1000.0, 300.0))
    lent = replace(moment(1300.0, 600.0), loans=(replace(loan(), owner=job("j1").id),))
    made.learn(lent, ())
    made.learn(moment(2000.0, 1300.0), ())
    made.learn(moment(2010.0, None), ())
    assert len(made.bandit.log()) == 0  # its loan has not been measured

    measured = replace(outcome(), decision=loan().id, final=True)
    made.learn(moment(2020.0, None), [measured])

    log = made.bandit.log()
    assert log.rewards.tolist() == [pytest.approx(min(1.0, measured.gained.mid / 1000.0))]
    assert log.chance.tolist() == [1.0]


def test_a_spell_without_a_loan_earned_nothing() -> None:
    made = always(NOTHING)
    made.predict(moment(1000.0, 300.0))
    made.learn(moment(1500.0, 800.0), ())
    made.learn(moment(1510.0, None), ())

    assert made.bandit.log().rewards.tolist() == [0.0]


def test_a_loan_whose_outcome_never_comes_is_left_out_and_counted() -> None:
    made = LendingChoice()
    made.predict(moment(1000.0, 300.0))
    lent = replace(moment(1300.0, 600.0), loans=(replace(loan(), owner=job("j1").id),))
    made.learn(lent, ())
    made.learn(moment(1400.0, None), ())
    made.learn(moment(99_000.0, None), ())

    assert made.unmeasured == 1
    assert len(made.bandit.log()) == 0

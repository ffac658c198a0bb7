from __future__ import annotations

from dataclasses import replace

import numpy as np

from factories import believing, job, loan, node, view
from steward.decide.scheduling.give_back import GiveBack
from steward.model.actions import CallBack
from steward.model.view import ClusterView

GPU = "n1/gpu0"


def on_loan(owner_busy: float | None, *, t_s: float = 1000.0) -> ClusterView:
    jobs = [job("j1", on=[GPU]), job("j2", on=[GPU])]
    return view(node(), jobs=jobs, loans=[loan()], busy={GPU: owner_busy}, t_s=t_s)


def test_a_gpu_is_called_back_when_its_owner_uses_it_again() -> None:
    seen = believing(on_loan(0.7), idle_s={})

    (made,) = GiveBack().decide(seen)

    assert made.action == CallBack(loan="d-1", gpus=(GPU,), owner="j1", borrower="j2")
    assert made.undo is None
    assert "j1 uses its GPUs again (70% busy)" in made.because


def test_a_gpu_is_called_back_when_its_owner_goes_to_work_on_the_host() -> None:
    (made,) = GiveBack().decide(believing(on_loan(0.0), idle_s={}))

    assert "at work on its host" in made.because


def test_a_gpu_whose_owner_stays_idle_stays_lent() -> None:
    assert GiveBack().decide(believing(on_loan(0.0), idle_s={GPU: 700.0})) == ()
    assert GiveBack().decide(on_loan(0.0)) == ()


def test_a_gpu_is_called_back_when_nobody_can_see_its_owner_for_a_while() -> None:
    fresh = believing(on_loan(None, t_s=50.0))
    later = believing(on_loan(None, t_s=100.0))

    assert GiveBack().decide(fresh) == ()
    (made,) = GiveBack().decide(later)
    assert "nobody can see" in made.because


def test_a_call_back_is_the_same_decision_in_every_turn_and_nothing_silences_it() -> None:
    first, later = believing(on_loan(0.7)), believing(on_loan(0.7, t_s=1010.0))
    spoken = np.array([True, False])

    (made,) = GiveBack().decide(first)
    (again,) = GiveBack().decide(replace(later, gpus=replace(later.gpus, reserved=spoken)))

    assert made.id == again.id


def test_a_loan_of_gpus_that_left_the_cluster_is_not_called_back() -> None:
    seen = replace(believing(view()), loans=(loan(gpus=("gone/gpu0",)),))

    assert GiveBack().decide(seen) == ()


def test_a_loan_whose_borrower_does_not_start_is_called_back() -> None:
    waiting = view(node(), jobs=[job("j1", on=[GPU]), job("j2")], t_s=700.0)
    soon = view(node(), jobs=[job("j1", on=[GPU]), job("j2")], t_s=500.0)

    (made,) = GiveBack().decide(replace(waiting, loans=(loan(),)))

    assert "j2 has not started within 600 s" in made.because
    assert GiveBack().decide(replace(soon, loans=(loan(),))) == ()


def test_a_loan_whose_owner_nobody_knows_yet_is_left_to_the_moment() -> None:
    assert GiveBack().decide(replace(view(node()), loans=(loan(),))) == ()


def test_a_loan_ends_when_its_time_is_over_or_its_engine_wants_it_back() -> None:
    jobs = [job("j1", on=[GPU]), job("j2", on=[GPU])]

    def reasons(**given: object) -> list[str]:
        made = replace(loan(), **given)  # type: ignore[arg-type]
        lent = believing(view(jobs=jobs, loans=[made]), idle_s={GPU: 900.0})
        return [each.because for each in GiveBack().decide(lent)]

    assert reasons() == []
    assert reasons(until_s=1500.0) == []
    assert reasons(until_s=900.0) == ["the 900 s that it was lent for are over"]
    assert reasons(wanted="j1 woke up") == ["j1 woke up"]


def test_a_shared_loan_goes_on_while_its_owner_works_and_ends_when_nobody_sees_it() -> None:
    shared = replace(loan(), shared=True)
    jobs = [job("j1", on=[GPU]), job("j2", on=[GPU])]

    assert GiveBack().decide(view(jobs=jobs, loans=[shared], busy={GPU: 0.9})) == ()
    (made,) = GiveBack().decide(view(jobs=jobs, loans=[shared], busy={GPU: None}))

    assert "nobody can see" in made.because

from __future__ import annotations

from dataclasses import replace

import pytest

from factories import finding, job, loan, node, view
from steward.decide.treating.treat import Treat
from steward.model.actions import CallBack, Drain, Preempt, Resume, Tell, Undrain
from steward.model.finding import Finding
from steward.model.job import Checkpointing
from steward.model.treatment import Effect, Treatment
from steward.model.view import ClusterView

GPU = "n1/gpu0"
EFFECT = Effect(expr="gpu_busy_share", direction="up", at_least=0.2)


def treated(action: str, *, undo: str = "", weight: float = 0.5, subject: str = GPU) -> Finding:
    treatment = Treatment(action=action, advice="do it", effect=EFFECT, undo=undo)
    return replace(finding("j1", GPU), treatment=treatment, weight=weight, subject=subject)


def seen(*findings: Finding, **more: object) -> ClusterView:
    jobs = [job("j1", on=[GPU], user="ann"), job("j2")]
    return view(node("n1", 2), jobs=jobs, **more).with_findings(findings)  # type: ignore[arg-type]


def test_to_tell_goes_to_the_owner_of_the_job_once_per_finding() -> None:
    (made,) = Treat().decide(seen(treated("tell")))
    (again,) = Treat().decide(replace(seen(treated("tell")), t_s=5000.0))

    assert made.action == Tell(to="ann", about=GPU, text="do it", job=made.action.affects)
    assert made.action.affects == "j1"
    assert made.action.acts_on is None
    assert made.id == again.id
    assert made.treatment is not None
    assert made.treatment.effect == EFFECT
    assert (made.subject, made.tenant, made.undo) == (GPU, "a", None)


def test_who_cannot_be_found_is_not_told_but_the_operators_are() -> None:
    about_a_node = replace(treated("tell", subject="n1"), job=None, gpus=(), tenant=None)

    (made,) = Treat().decide(seen(about_a_node))

    assert isinstance(made.action, Tell)
    assert made.action.to == "operators"


def test_a_tenant_is_told_where_nobody_knows_the_user() -> None:
    jobs = [job("j1", on=[GPU])]
    (made,) = Treat().decide(view(jobs=jobs).with_findings((treated("tell"),)))

    assert isinstance(made.action, Tell)
    assert made.action.to == "a"


def test_draining_names_the_node_and_all_its_gpus() -> None:
    (made,) = Treat().decide(seen(treated("drain")))

    assert made.action == Drain(node=node("n1").id, gpus=(GPU, "n1/gpu1"))  # type: ignore[arg-type]
    assert made.action.acts_on is None
    assert made.action.affects is None
    assert isinstance(made.undo, Undrain)


def test_seconds_of_trouble_are_told_and_drain_no_node() -> None:
    young = replace(treated("drain"), since_s=950.0)

    (made,) = Treat().decide(seen(young))
    (later,) = Treat().decide(replace(seen(young), t_s=1100.0))

    assert isinstance(made.action, Tell)
    assert isinstance(later.action, Drain)
    assert made.id != later.id


def test_a_job_that_can_save_itself_is_preempted() -> None:
    (made,) = Treat().decide(seen(treated("preempt")))

    assert isinstance(made.action, Preempt)
    assert made.action.gpus == (GPU,)
    assert isinstance(made.undo, Resume)


def test_a_loan_is_called_back() -> None:
    (made,) = Treat().decide(seen(treated("call-back"), loans=[loan()]))

    assert isinstance(made.action, CallBack)
    assert made.action.loan == loan().id


def test_loans_of_others_are_left_alone() -> None:
    other = replace(treated("call-back"), job=None, gpus=())

    (made,) = Treat().decide(seen(other, loans=[loan()]))

    assert isinstance(made.action, Tell)


@pytest.mark.parametrize("action", ["call-back", "start", "preempt", "drain"])
def test_what_cannot_be_done_is_said(action: str) -> None:
    stuck = job("j1", on=[GPU], checkpointing=Checkpointing())
    elsewhere = treated(action, subject="job:j1" if action == "drain" else GPU)

    (made,) = Treat().decide(view(jobs=[stuck]).with_findings((elsewhere,)))

    assert isinstance(made.action, Tell)


def test_preempting_a_job_that_is_gone_is_said_to_the_operators() -> None:
    (made,) = Treat().decide(view().with_findings((replace(treated("preempt"), job=None),)))

    assert isinstance(made.action, Tell)


def test_lending_is_left_to_who_lends_and_other_findings_are_left_alone() -> None:
    assert Treat().decide(seen(treated("lend"), finding("j1", GPU))) == ()


def test_a_rule_that_was_wrong_too_often_only_advises() -> None:
    made = Treat().decide(seen(treated("tell", weight=0.39), treated("drain", weight=0.4)))

    assert [each.trusted for each in made] == [False, True]

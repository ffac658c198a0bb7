from __future__ import annotations

from dataclasses import replace

from managed_jobs import managed, spec
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.job import Checkpointing
from steward.model.job_loan import JobLoan, yielding_of
from steward.model.managed_job import SavedState
from steward.model.yielding import Measured

LOAN = JobLoan(
    id=DecisionId("d-1"),
    owner=JobId("1"),
    borrower=JobId("2"),
    gpus=(GpuId("n1/gpu0"),),
    way="beside",
    phase="starting",
    asked_s=10.0,
    promised_s=5.0,
    may_end=True,
)


def test_a_loan_is_seen_and_counted_from_when_the_borrower_runs_until_it_is_gone() -> None:
    lent = replace(LOAN, phase="lent", since_s=20.0, until_s=90.0, wanted="it is time")
    back = replace(lent, phase="restoring", called_s=50.0, free_s=53.0)
    left = replace(lent, phase="over", over_s=60.0)

    assert LOAN.seen is LOAN.span is LOAN.took_s is back.seen is left.seen is None
    assert lent.seen is not None
    assert (lent.seen.since_s, lent.seen.until_s, lent.seen.wanted) == (20.0, 90.0, "it is time")
    assert lent.span is not None
    assert lent.span.until_s is None
    assert back.span is not None
    assert (back.span.until_s, back.took_s) == (53.0, 3.0)
    assert left.span is not None
    assert left.span.until_s == 60.0
    assert left.is_over


def test_each_change_can_add_a_line() -> None:
    noted = LOAN.noted(11.0, "begun").noted(12.0, "runs", phase="lent")

    assert [(each.t_s, each.text) for each in noted.notes] == [(11.0, "begun"), (12.0, "runs")]
    assert noted.phase == "lent"


def test_what_is_promised_goes_by_a_jobs_own_saves_and_what_its_user_allows() -> None:
    known = [Measured(kind="call-back", seconds=each, t_s=1.0) for each in (1.0, 2.0, 3.0)]
    saves = replace(
        managed(spec(requeue=True)),
        checkpointing=Checkpointing(able=True, save_s=1.0),
        checkpoints=(
            SavedState(t_s=5.0, attempt=1, step=1, path="a", size_bytes=10**9, verified=True),
            SavedState(t_s=9.0, attempt=1, step=2, path="b", seconds=2.0),
        ),
    )

    made = yielding_of(saves, known, step_s=1.0, grace_s=3.0)

    assert made.promised_s == 5.0 + 1.0 + 5.0 + 3.0
    assert (made.p50_s, made.p95_s, made.measured) == (2.0, 3.0, 3)
    assert (made.endable, made.stoppable, made.saved_s) == (True, True, 5.0)
    assert yielding_of(managed(spec()), ()).promised_s is None

"""What squeue lists decides how far a move is, or a change of what a job asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from act.slurm.test_job_plans import NOW_S, after, entry, running
from factories import decision
from steward.act.slurm.job_plans import JobPlans
from steward.act.slurm.plan import Plan
from steward.act.slurm.restart_plans import RestartPlans
from steward.clients.slurm.asked_gpus import AskedGpus
from steward.clients.slurm.queue_entry import QueueEntry
from steward.model.actions import Migrate, Resize
from steward.model.identity import GpuId, JobId

ASKED = AskedGpus(field="TresPerNode", kind="gres:gpu:", count=2, nodes=1)
HERE = (GpuId("n1/gpu0"), GpuId("n1/gpu1"))
MOVE = Migrate(job=JobId("7"), source=HERE, target=(GpuId("n2/gpu0"), GpuId("n2/gpu1")))
HELD = "job_requeued_in_held_state"


def plans(asked: AskedGpus | None = ASKED, excluded: tuple[str, ...] = ()) -> RestartPlans:
    return RestartPlans(
        plans=JobPlans(start_within_s=60.0),
        asked_gpus=lambda _: asked,
        excluded_nodes=lambda _: excluded,
    )


def moved(job: QueueEntry, *, t_s: float = NOW_S, action: Migrate = MOVE, **changes: Any) -> Plan:
    return plans(**changes).migrate(job, decision(action=action), action, t_s)


def begun() -> QueueEntry:
    """Return a job that was asked to save, as it is noted on it."""
    job = running()
    return after(job, moved(job))


def waiting(**changes: Any) -> QueueEntry:
    values: dict[str, Any] = {"state": "PENDING", "reason": HELD, "restarts": 1, "submit_s": 1040}
    return replace(begun(), **{"nodes": (), **values, **changes})


def test_a_job_is_asked_to_save_and_requeued_held() -> None:
    first = moved(running())
    later = moved(begun(), t_s=NOW_S + 40.0)

    assert first.commands[0] == ("scancel", "--batch", "--signal=USR2", "7")
    assert later.commands == (("scontrol", "requeuehold", "Incomplete", "7"),)
    assert [each[1] for each in first.later] == ["update", "release"]


def test_it_is_kept_off_the_nodes_that_it_leaves_and_released() -> None:
    plan = moved(waiting(), t_s=NOW_S + 45.0, excluded=("n9",))

    assert plan.commands == (
        ("scontrol", "update", "JobId=7", "ExcNodeList=n1,n9", "StartTime=now+5"),
        ("scontrol", "release", "7"),
    )
    assert plan.result == "begun"


@pytest.mark.parametrize(
    ("job", "after_s", "result", "words"),
    [
        (waiting(reason="BeginTime"), 45.0, "begun", "waits in Slurm: BeginTime"),
        (waiting(reason="Resources"), 200.0, "failed", "did not start job 7 within 60 s"),
        (waiting(reason="JobHeldUser"), 45.0, "failed", "was held"),
        (waiting(state="RUNNING", reason="", nodes=("n2",)), 50.0, "done", "runs on n2"),
        (waiting(state="RUNNING", reason="", nodes=("n1",)), 50.0, "failed", "on n1 again"),
        (waiting(state="COMPLETED", reason=""), 50.0, "failed", "ended by itself"),
    ],
)
def test_it_is_followed_until_it_runs_elsewhere(
    job: QueueEntry, after_s: float, result: str, words: str
) -> None:
    plan = moved(job, t_s=NOW_S + after_s)

    assert (plan.result, words in plan.text, plan.commands) == (result, True, ()), plan.text


def test_slurm_moves_no_job_within_its_nodes() -> None:
    within = replace(MOVE, target=(GpuId("n1/gpu2"), GpuId("n1/gpu3")))

    assert "to other nodes alone" in moved(running(), action=within).text


def test_a_job_asks_for_another_number_of_gpus_while_it_waits() -> None:
    action = Resize(job=JobId("7"), now=HERE, then=HERE[:1])
    made = decision(action=action)

    first = plans().resize(running(), made, action, NOW_S)
    waits = plans().resize(waiting(), made, action, NOW_S + 45.0)
    smaller = replace(ASKED, count=1)
    runs = waiting(state="RUNNING", reason="", nodes=("n2",))
    last = plans(smaller).resize(runs, made, action, NOW_S + 50.0)

    assert first.commands[0][:2] == ("scancel", "--batch")
    assert waits.commands[0] == (
        *("scontrol", "update", "JobId=7", "TresPerNode=gres:gpu:1", "StartTime=now+5"),
    )
    assert last.result == "done"


@pytest.mark.parametrize("asked", [None, replace(ASKED, count=3), replace(ASKED, nodes=2)])
def test_a_job_that_asks_otherwise_keeps_its_size(asked: AskedGpus | None) -> None:
    action = Resize(job=JobId("7"), now=HERE, then=HERE[:1])

    plan = plans(asked).resize(running(), decision(action=action), action, NOW_S)

    assert (plan.result, plan.commands) == ("failed", ())
    assert entry().waits

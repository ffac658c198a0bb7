"""What squeue lists decides which commands a decision about a job needs next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from factories import decision, preempt, start
from steward.act.slurm.job_plans import JobPlans
from steward.act.slurm.plan import Plan, other_job, refused_owner
from steward.clients.slurm.changes import Command
from steward.clients.slurm.job_mark import JobMark
from steward.clients.slurm.queue_entry import QueueEntry
from steward.clients.slurm.rights import Level, Rights
from steward.model.actions import Reprioritise, Resize, Save
from steward.model.identity import GpuId, JobId

OWNER = Rights(user="ada", level=Level.OWNER, why="AdminLevel=None")
OPERATOR = Rights(user="steward", level=Level.OPERATOR, why="AdminLevel=Operator")
PLANS = JobPlans()
NOW_S = 1001.0  # decisions of the factories are made at 1000


def entry(comment: str = "", **changes: Any) -> QueueEntry:
    values: dict[str, Any] = {
        "id": "7",
        "address": "7",
        "state": "PENDING",
        "reason": "Resources",
        "user": "ada",
        "partition": "gpu",
        "submit_s": 900,
        "restarts": 0,
        "batch": True,
        "requeue": True,
        "nice": 0,
        "priority": 100,
        "nodes": (),
        "name": "train",
        "mark": JobMark.read(comment),
    }
    return QueueEntry(**{**values, **changes})


def running(comment: str = "steward:saves=30", **changes: Any) -> QueueEntry:
    return entry(comment, **{"state": "RUNNING", "reason": "", "nodes": ("n1",), **changes})


def started(
    job: QueueEntry, *, rights: Rights = OPERATOR, top: int = 0, t_s: float = NOW_S
) -> Plan:
    return PLANS.start(job, start(job="7"), rights, t_s, top=top)


def after(job: QueueEntry, plan: Plan, **changes: Any) -> QueueEntry:
    """Return the job with the comment that a plan's commands set, changed by what came since."""
    parts = [part for command in plan.commands for part in command if part.startswith("Comment=")]
    return replace(job, mark=JobMark.read(parts[-1].removeprefix("Comment=")), **changes)


# -- start and resume ----------------------------------------------------------------------------


def test_a_job_that_is_held_for_steward_is_released_and_then_noted() -> None:
    plan = started(entry("night steward:hold", reason="JobHeldUser", priority=0))

    assert plan.result == "begun"
    assert plan.commands == (
        ("scontrol", "release", "7"),
        ("scontrol", "update", "JobId=7", "Comment=night steward:did=d-start@900~1001"),
    )


@pytest.mark.parametrize(
    ("comment", "reason"),
    [
        ("", "JobHeldUser"),
        ("", ""),  # submitted with --hold a moment ago
        ("steward:hold", "JobHeldAdmin"),
        ("", "job requeued in held state"),
        ("steward:did=d-0@1~2", "job requeued in held state"),
    ],
)
def test_what_a_person_holds_is_not_released(comment: str, reason: str) -> None:
    plan = started(entry(comment, reason=reason, priority=0))

    assert (plan.result, plan.commands) == ("failed", ())
    assert f"held by a person ({reason})" in plan.text


def test_a_job_that_steward_left_held_is_released_and_does_not_wait_two_minutes() -> None:
    held = entry("steward:did=d-0@1~2+held", reason="job requeued in held state", priority=0)

    release, update = started(held).commands

    assert release == ("scontrol", "release", "7")
    assert "StartTime=now" in update


def test_a_job_that_its_owner_holds_again_gives_back_the_nice_value_of_its_start() -> None:
    job = entry(reason="Priority", priority=50)
    raised = after(job, started(job, top=100), nice=-51, reason="JobHeldUser", priority=0)

    again = started(raised, top=100)

    assert again.result == "failed"
    assert [part for part in again.commands[0] if part.startswith("Nice=")] == ["Nice=0"]


def test_a_job_held_again_after_its_release_stays_held() -> None:
    job = entry("steward:hold", reason="JobHeldUser", priority=0)

    again = started(after(job, started(job)))

    assert (again.result, again.commands) == ("failed", ())
    assert "held again" in again.text


def test_a_requeued_job_starts_without_its_two_minutes() -> None:
    (update,) = started(entry(reason="BeginTime", restarts=1)).commands

    assert update[:4] == ("scontrol", "update", "JobId=7", "StartTime=now+5")


@pytest.mark.parametrize("submit_s", [1, 999, 9000])  # by a clock that is not ours
def test_a_job_is_not_launched_in_the_second_in_which_it_was_killed(submit_s: int) -> None:
    (update,) = started(entry(reason="BeginTime", restarts=1, submit_s=submit_s)).commands

    assert update[3] == "StartTime=now+5"


def test_a_job_that_has_rested_since_its_stop_starts_at_once() -> None:
    job = entry(reason="BeginTime", restarts=1, submit_s=1000)

    (update,) = PLANS.start(job, start(job="7"), OWNER, NOW_S, top=0, rest_s=0).commands

    assert update[3] == "StartTime=now"


def test_slurm_may_start_a_stopped_job_again_whose_two_minutes_are_not_over() -> None:
    waits = PLANS.go_on(entry(reason="BeginTime", restarts=1), 3)
    held = PLANS.go_on(entry(reason="JobHeldUser", restarts=1), 3)
    stopped_by_others = PLANS.go_on(entry(reason="BeginTime", restarts=1), None)

    assert waits.commands == (("scontrol", "update", "JobId=7", "StartTime=now+3"),)
    assert held.commands == stopped_by_others.commands == ()


def test_an_operator_raises_a_job_above_the_first_in_line() -> None:
    (update,) = started(entry(reason="Priority", nice=5), top=130).commands

    assert "Nice=-26" in update  # 31 more than now: 131
    assert "+nice5" in update[-1]


def test_a_job_stays_first_in_line_while_it_waits() -> None:
    job = entry(reason="", nice=5)
    let_go = after(job, started(job), reason="Priority")  # it had not been looked at by then

    raised = started(let_go, top=130, t_s=1010.0)
    first = after(let_go, raised, nice=-26, priority=131)
    overtaken = started(first, top=140, t_s=1020.0)

    assert raised.result == "begun"
    assert raised.commands[0][3:] == (
        "Nice=-26",
        "Comment=steward:did=d-start@900~1001+nice5",  # since when it was let go, and from where
    )
    assert started(first, top=130, t_s=1015.0).commands == ()
    assert overtaken.commands[0][3] == "Nice=-36"
    assert "+nice5" in overtaken.commands[0][4]


def test_an_owner_who_may_not_raise_a_job_waits_on() -> None:
    job = entry(reason="")
    let_go = after(job, started(job, rights=OWNER), reason="Priority")

    plan = started(let_go, rights=OWNER, top=130, t_s=1010.0)

    assert (plan.result, plan.commands) == ("begun", ())


def test_a_job_that_is_as_nice_as_can_be_gets_no_more_than_the_first_place() -> None:
    hidden = entry(reason="Priority", priority=1, nice=2_147_483_645)  # of 5000 without its nice

    shown = started(hidden, top=6000)
    seen = after(hidden, shown, nice=0, priority=5000)
    raised = started(seen, top=6000, t_s=1010.0)

    assert "Nice=0" in shown.commands[0]
    assert "Nice=-1001" in raised.commands[0]  # 6001, and not 11001
    assert "+nice2147483645" in raised.commands[0][-1]


def test_no_nice_value_is_beyond_what_slurm_takes() -> None:
    (update,) = started(entry(reason="Priority", priority=2), top=4_294_967_295).commands

    assert "Nice=-2147483645" in update


def test_a_job_of_no_priority_at_all_is_raised_by_as_much_as_the_first_has() -> None:
    (update,) = started(entry(reason="Priority", priority=1), top=1).commands

    assert "Nice=-2" in update


def test_an_owner_gives_up_their_own_nice_and_cannot_go_below_zero() -> None:
    lowered = started(entry(reason="Priority", nice=50), rights=OWNER, top=130)
    plain = started(entry(reason="Priority"), rights=OWNER, top=130)

    assert "Nice=19" in lowered.commands[0]
    assert (plain.result, plain.commands) == ("failed", ())
    assert "only an operator" in plain.text


def test_a_job_that_waits_for_another_is_left_alone() -> None:
    plan = started(entry(reason="Dependency"))

    assert plan.result == "failed"
    assert "Dependency" in plan.text


def test_a_start_that_slurm_does_not_do_ends_and_takes_its_nice_back() -> None:
    job = entry(reason="Priority", nice=5)
    raised = after(job, started(job, top=130), nice=-26, reason="Resources")

    waiting, late = started(raised, t_s=1200.0), started(raised, t_s=1301.0)

    assert (waiting.result, waiting.commands) == ("begun", ())
    assert late.result == "failed"
    assert late.commands == (("scontrol", "update", "JobId=7", "Nice=5"),)


@pytest.mark.parametrize(
    ("state", "result"),
    [("COMPLETED", "done"), ("FAILED", "done"), ("TIMEOUT", "done"), ("CANCELLED", "failed")],
)
def test_a_job_that_ended_before_it_was_seen_to_run_was_started(state: str, result: str) -> None:
    held = entry("steward:hold", reason="JobHeldUser")

    plan = started(after(held, started(held), state=state, reason=""))

    assert (plan.result, plan.commands) == (result, ())


def test_a_job_that_runs_was_started_and_one_that_ended_was_not() -> None:
    assert started(running()).result == "done"
    assert started(entry(state="COMPLETED")).result == "done"  # it has run
    assert started(entry(state="CANCELLED")).result == "failed"


# -- save ----------------------------------------------------------------------------------------

SAVE = decision("d-save", action=Save(job=JobId("7")))


def test_a_job_is_asked_to_save_once_and_goes_on() -> None:
    job = running("night steward:saves=30 steward:did=d-0@900~950+nice5")

    first = PLANS.save(job, SAVE, NOW_S)
    again = PLANS.save(after(job, first), SAVE, NOW_S + 1)

    assert first.commands == (
        ("scancel", "--batch", "--signal=USR2", "7"),
        (
            *("scontrol", "update", "JobId=7"),
            "Comment=night steward:saves=30 steward:did=d-save@900~1001+nice5",
        ),
    )
    assert (first.result, first.over) == ("done", True)
    assert (again.result, again.commands, again.over) == ("done", (), True)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (entry("steward:saves=30"), "is pending, not running"),
        (running(restarts=1, submit_s=1001), "was requeued after d-save was made"),
        (running(batch=False), "is no batch job"),
        (running(""), "has not said that it can save"),
    ],
)
def test_who_is_not_asked_to_save(job: QueueEntry, why: str) -> None:
    plan = PLANS.save(job, SAVE, NOW_S)

    assert (plan.result, plan.commands) == ("failed", ())
    assert why in plan.text


# -- preempt -------------------------------------------------------------------------------------


def stopped(job: QueueEntry, *, t_s: float = NOW_S, plans: JobPlans = PLANS) -> Plan:
    return plans.preempt(job, preempt(job="7"), t_s)


def test_a_job_that_its_time_limit_ends_before_it_has_saved_is_left_alone() -> None:
    plan = PLANS.preempt(running(end_s=1025), preempt(job="7"), NOW_S)

    assert (plan.result, plan.commands) == ("failed", ())
    assert "its time limit in 22 s" in plan.text


def test_a_save_never_lasts_past_a_time_limit_that_was_shortened_meanwhile() -> None:
    job = running(end_s=2000)
    saving = after(job, PLANS.preempt(job, preempt(job="7"), NOW_S), end_s=1020)

    still = PLANS.preempt(saving, preempt(job="7"), NOW_S + 16)
    then = PLANS.preempt(saving, preempt(job="7"), NOW_S + 17)

    assert (still.commands, still.next_s) == ((), 1018.0)
    assert then.commands == (("scontrol", "requeue", "Incomplete", "7"),)


def test_a_task_of_an_array_is_told_from_the_others_before_it_is_released() -> None:
    held = entry("steward:hold", address="7_3", reason="JobHeldUser", priority=0)

    first, release, then = started(held).commands

    assert first[2:] == ("JobId=7_3", "Comment=steward:hold steward:did=d-start@900~1001")
    assert release == ("scontrol", "release", "7_3")
    assert then[2:] == ("JobId=7_3", "Comment=steward:did=d-start@900~1001")


def test_a_task_whose_release_was_interrupted_is_released_and_not_another_one() -> None:
    held = entry("steward:hold", address="7_3", reason="JobHeldUser", priority=0)
    first, release, then = started(held).commands
    noted = replace(held, mark=JobMark.read(first[-1].removeprefix("Comment=")))

    again = started(noted)
    released = started(replace(noted, reason="Resources", priority=5))

    assert again.commands == (first, release, then)
    assert (released.result, released.commands) == ("begun", (then,))


def test_a_task_that_is_held_again_after_its_release_stays_held() -> None:
    job = entry("steward:hold", address="7_3", reason="JobHeldUser", priority=0)

    again = started(after(job, started(job)))

    assert (again.result, again.commands) == ("failed", ())


def test_a_job_saves_is_requeued_and_is_back_in_the_queue() -> None:
    job = running()
    asked = stopped(job)
    saving = stopped(after(job, asked), t_s=1030.0)
    over = stopped(after(job, asked), t_s=1031.0)
    completing = stopped(after(job, asked, state="COMPLETING"), t_s=1032.0)
    back = stopped(after(job, asked, state="PENDING", submit_s=1031, restarts=1), t_s=1033.0)

    assert asked.commands[0] == ("scancel", "--batch", "--signal=USR2", "7")
    assert (saving.result, saving.commands) == ("begun", ())
    assert over.commands == (("scontrol", "requeue", "Incomplete", "7"),)
    assert (completing.result, completing.commands) == ("begun", ())
    assert (back.result, back.commands) == ("done", ())


@pytest.mark.parametrize(
    ("nice", "commands"),
    [
        (-26, (("scontrol", "update", "JobId=7", "Nice=5"),)),
        (5, ()),  # a person has done so already
    ],
)
def test_a_job_that_was_raised_to_start_is_not_first_in_line_after_its_stop(
    nice: int, commands: tuple[Command, ...]
) -> None:
    job = running("steward:saves=30 steward:did=d-0@900~950+nice5", nice=-26)

    asked = after(job, stopped(job))
    back = stopped(replace(asked, state="PENDING", submit_s=1031, restarts=1, nice=nice))

    assert (back.result, back.commands) == ("done", commands)


def test_a_job_has_at_least_the_time_to_save_that_it_asked_for() -> None:
    job = running()
    asked = after(job, stopped(job, t_s=1001.9))

    assert stopped(asked, t_s=1031.8).commands == ()
    assert stopped(asked, t_s=1032.0).commands


def test_when_a_job_has_had_its_time_to_save_is_known_before() -> None:
    job = running()
    asked = stopped(job, t_s=1001.25)

    saving = stopped(after(job, asked), t_s=1011.0)

    assert asked.next_s == 1031.3
    assert saving.next_s == pytest.approx(1031.3)
    assert "requeued in 30 s" in asked.text
    assert stopped(after(job, asked), t_s=1031.3).next_s == 1032.8  # nodes may be free then


def test_nodes_are_not_free_while_a_job_completes() -> None:
    job = running()

    freeing = stopped(after(job, stopped(job), state="COMPLETING", submit_s=1031), t_s=1032.0)

    assert freeing.result == "begun"
    assert started(entry(state="COMPLETING")).result == "begun"


def test_a_job_that_has_started_again_is_not_stopped_twice() -> None:
    job = running()

    again = stopped(after(job, stopped(job), submit_s=1031, restarts=1), t_s=1200.0)
    decided_before = stopped(running(submit_s=1031, restarts=1), t_s=1200.0)

    assert (again.result, again.commands) == ("done", ())
    assert (decided_before.result, decided_before.commands) == ("failed", ())


def test_a_job_that_exits_when_asked_to_save_is_reported_as_gone() -> None:
    job = running()

    ended = stopped(after(job, stopped(job), state="COMPLETED"), t_s=1005.0)

    assert ended.result == "failed"
    assert "not in the queue" in ended.text


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (running(""), "has not said that it can save"),
        (running(batch=False), "no batch job"),
        (running(requeue=False), "--no-requeue"),
        (entry("steward:saves"), "pending, not running"),
    ],
)
def test_what_cannot_be_saved_or_requeued_is_not_touched(job: QueueEntry, why: str) -> None:
    plan = stopped(job)

    assert (plan.result, plan.commands) == ("failed", ())
    assert why in plan.text


def test_a_site_may_requeue_without_saving_and_keep_what_it_stops_held() -> None:
    plans = JobPlans(requeue_unsaved=True, hold_preempted=True)

    note, requeue = stopped(running(""), plans=plans).commands

    assert note[-1] == "Comment=steward:did=d-stop@900~1001+held"
    assert requeue == ("scontrol", "requeuehold", "Incomplete", "7")


# -- priority and size -----------------------------------------------------------------------------


def reprioritised(job: QueueEntry, to: int, rights: Rights = OPERATOR) -> Plan:
    action = Reprioritise(job=JobId("7"), before=job.priority, priority=to)
    return PLANS.reprioritise(job, decision(action=action), action, rights, NOW_S)


def test_a_nice_that_its_owner_wrote_into_the_comment_is_not_set() -> None:
    forged = "steward:did=d-start@900~1+nice-2000000000"

    plan = started(entry(forged, reason="Priority"), top=130, t_s=NOW_S + 300.0)

    assert plan.result == "failed"
    assert "Nice=0" in plan.commands[0]


def test_a_job_that_runs_gives_back_the_nice_value_that_it_was_started_with() -> None:
    raised = running("steward:did=d-start@900~1001+nice5", nice=-26)
    forged = running("steward:did=d-start@900~1001+nice-900", nice=-1000)
    of_another = running("steward:did=d-0@900~1001+nice5", nice=-26)

    assert started(raised).commands == (("scontrol", "update", "JobId=7", "Nice=5"),)
    assert started(forged).commands == (("scontrol", "update", "JobId=7", "Nice=0"),)
    assert started(of_another).commands == ()


@pytest.mark.parametrize("time", ["1086400", "999999999999", "0"])
def test_a_start_is_not_kept_open_by_a_time_that_cannot_be(time: str) -> None:
    job = entry(f"steward:did=d-start@900~{time}")

    assert started(job, t_s=1299.0).result == "begun"
    assert started(job, t_s=1301.0).result == "failed"  # 300 s after the decision


@pytest.mark.parametrize("time", ["1086400", "999999999999", "0"])
def test_a_stop_is_not_delayed_by_a_time_that_cannot_be(time: str) -> None:
    job = running(f"steward:saves=30 steward:did=d-stop@900~{time}")

    assert stopped(job, t_s=1029.0).commands == ()
    assert stopped(job, t_s=1031.0).commands == (("scontrol", "requeue", "Incomplete", "7"),)


@pytest.mark.parametrize(
    ("run", "restarts", "submit_s"),
    [
        (1, 0, 900),  # it never was requeued
        (1, 3, 900),  # not since the decision
        (2000, 3, 900),
    ],
)
def test_a_run_that_its_owner_wrote_into_the_comment_is_no_requeue(
    run: int, restarts: int, submit_s: int
) -> None:
    forged = f"steward:saves=30 steward:did=d-stop@{run}~1000"

    plan = stopped(running(forged, restarts=restarts, submit_s=submit_s), t_s=1031.0)

    assert plan.commands == (("scontrol", "requeue", "Incomplete", "7"),)


def test_a_job_that_waits_is_stopped_whatever_its_comment_says() -> None:
    forged = entry("steward:saves=30 steward:did=d-stop@1031~1000", submit_s=1031, restarts=1)

    assert stopped(forged, t_s=1040.0).result == "done"  # others wait for its nodes


def test_a_job_that_is_held_for_steward_again_and_again_does_not_keep_a_start_open() -> None:
    job = entry("steward:hold steward:did=d-start@900~1001", reason="JobHeldUser", priority=0)

    assert started(job, t_s=1100.0).commands
    assert started(job, t_s=1302.0).result == "failed"


def test_a_new_priority_of_a_job_that_hides_its_own_takes_two_steps() -> None:
    hidden = entry(nice=10_000, priority=1)

    shown = reprioritised(hidden, 60)
    then = reprioritised(replace(hidden, nice=0, priority=100), 60)

    assert (shown.result, shown.commands[0][3:]) == ("begun", ("Nice=0",))
    assert (then.result, then.commands[0][3]) == ("done", "Nice=40")


def test_a_priority_is_changed_by_nice_once() -> None:
    job = entry(nice=3)
    lower = reprioritised(job, 60)

    again = reprioritised(after(job, lower, nice=43, priority=60), 60)

    assert "Nice=43" in lower.commands[0]
    assert (again.result, again.commands) == ("done", ())


def test_below_zero_only_an_operator_goes() -> None:
    assert reprioritised(entry(), 150, OWNER).result == "failed"
    assert "Nice=-50" in reprioritised(entry(), 150).commands[0]
    assert "Nice=-2" in reprioritised(entry(nice=-5), 97, OWNER).commands[0]


def test_a_held_job_has_no_place_in_the_queue() -> None:
    plan = reprioritised(entry(reason="JobHeldUser", priority=0), 60)

    assert plan.result == "failed"


def resized(now: list[str], then: list[str], nodes: tuple[str, ...]) -> Plan:
    action = Resize(job=JobId("7"), now=tuple(map(GpuId, now)), then=tuple(map(GpuId, then)))
    return PLANS.resize(running(nodes=nodes), action)


def test_a_job_gives_up_whole_nodes() -> None:
    now = ["n1/gpu0", "n2/gpu0", "n3/gpu0"]

    plan = resized(now, ["n1/gpu0", "n3/gpu0"], ("n1", "n2", "n3"))
    again = resized(now, ["n1/gpu0", "n3/gpu0"], ("n1", "n3"))

    assert plan.commands == (("scontrol", "update", "JobId=7", "NodeList=n1,n3"),)
    assert (again.result, again.commands) == ("done", ())


@pytest.mark.parametrize(
    ("now", "then", "why"),
    [
        (["n1/gpu0", "n1/gpu1"], ["n1/gpu0"], "not single GPUs"),
        (["n1/gpu0", "n1/gpu1", "n2/gpu0"], ["n1/gpu0"], "whole nodes"),
        (["n1/gpu0", "n2/gpu0"], ["n2/gpu0"], "batch script runs"),
        (["n1/gpu0"], ["n1/gpu0", "n3/gpu0"], "more nodes"),
    ],
)
def test_what_slurm_cannot_resize_is_refused(now: list[str], then: list[str], why: str) -> None:
    nodes = tuple(sorted({gpu.partition("/")[0] for gpu in now}))

    plan = resized(now, then, nodes)

    assert (plan.commands, why in plan.text) == ((), True), plan.text


# -- whose job -----------------------------------------------------------------------------------


def test_an_id_that_was_given_again_is_another_job() -> None:
    made = start(job="7")

    assert other_job(entry(submit_s=1003), made) is None  # clocks differ
    assert other_job(entry(submit_s=5000, restarts=1), made) is None  # requeued since
    assert other_job(entry(submit_s=5000), made) is not None


def test_other_peoples_jobs_need_an_operator() -> None:
    assert refused_owner(entry(user="ada"), OWNER) is None
    assert refused_owner(entry(user="bob"), OPERATOR) is None
    refused = refused_owner(entry(user="bob"), OWNER)
    assert refused is not None
    assert "bob's" in refused.text

"""The Slurm engine looks once a turn, runs what its plan says, and reports in words."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from factories import decision, drain, preempt, start
from fake_slurm import FakeSlurm, as_asked
from patience import LONG_S
from steward.act.actuators.slurm import Slurm
from steward.clients.slurm.program import SEPARATOR
from steward.clock import ManualClock
from steward.errors import PermanentError, TemporaryError
from steward.model.actions import Drain, Reprioritise, Reset, Save, Tell
from steward.model.decision import Decision
from steward.model.identity import DecisionId, GpuId, JobId

T_S = 1794967300.0  # after the recorded jobs were submitted


@pytest.fixture
def fake(tmp_path: Path) -> FakeSlurm:
    slurm = FakeSlurm(tmp_path)
    slurm.controller()
    slurm.counts_squeue()
    slurm.command("scancel", "true")
    return slurm


def engine(fake: FakeSlurm, **options: bool) -> Slurm:
    folder = f"{fake.folder}:/bin:/usr/bin"
    return Slurm(folder=folder, timeout_s=LONG_S, clock=ManualClock(T_S), **options)


def at(made: Decision, **changes: object) -> Decision:
    return decision(made.id, action=made.action, t_s=T_S, **changes)


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="the recorded jobs are root's")


@as_root
def test_a_start_runs_its_commands_in_their_order(fake: FakeSlurm) -> None:
    said = engine(fake).carry_out(at(start(job="18")), T_S)

    assert said.result == "begun"
    assert fake.calls() == [
        "release 18",
        "update JobId=18 Comment=steward:did=d-start@1794967252~1794967300",
    ]


ARRAY = {
    "JobID": "41",
    "JobArrayID": "41_[2-3%2]",
    "State": "PENDING",
    "Reason": "JobHeldUser",
    "UserName": "root",
    "Partition": "gpu",
    "SubmitTime": "1794967252",
    "EndTime": "N/A",
    "RestartCnt": "0",
    "BatchFlag": "1",
    "Requeue": "1",
    "Nice": "0",
    "PriorityLong": "0",
    "NodeList": "",
    "Name": "sweep",
    "Comment": "steward:hold",
}
TASK = {**ARRAY, "JobArrayID": "41_2"}


def lists(fake: FakeSlurm, together: list[dict[str, str]], alone: dict[str, str]) -> None:
    """Let squeue list jobs, an array as its tasks one by one, and a task of it alone."""
    lines = ["".join(f"{cell} {SEPARATOR}" for cell in each.values()) for each in together]
    one = "".join(f"{cell} {SEPARATOR}" for cell in alone.values())
    names = ("JobID", "JobArrayID", "State", "Reason", "Comment")
    single = [each for each in together if "[" not in each["JobArrayID"]]
    taken = {each["JobArrayID"] for each in single}
    free = [{**TASK, "JobArrayID": f"41_{index}"} for index in (3, 2)]
    rows = [*single, *(each for each in free if each["JobArrayID"] not in taken)]
    tasks = [SEPARATOR.join((*(str(each[name]) for name in names), "")) for each in rows]
    for name, text in (("all", lines), ("one", [one]), ("tasks", tasks)):
        (fake.folder / f"{name}.txt").write_text("\n".join(text) + "\n")
    fake.command(
        "squeue",
        f"""case "$*" in
*--array*) cat {fake.folder}/tasks.txt;;
*--jobs=41_2*) cat {fake.folder}/one.txt;;
*) cat {fake.folder}/all.txt;;
esac""",
    )


@as_root
def test_of_an_array_that_waits_one_task_is_released_for_each_start(fake: FakeSlurm) -> None:
    lists(fake, [ARRAY], TASK)

    said = engine(fake).carry_out(at(start(job="41")), T_S)

    assert (said.result, said.job) == ("begun", "41")
    assert "task 41_2" in said.text
    assert [call for call in fake.calls() if "release" in call] == ["release 41_2"]
    assert all("JobId=41_2 " in call for call in fake.calls() if "update" in call)


@as_root
def test_a_start_of_an_array_is_done_when_its_task_runs_and_names_it(fake: FakeSlurm) -> None:
    did = "steward:did=d-start@1794967252~1794967300"
    runs = {**TASK, "JobID": "42", "State": "RUNNING", "NodeList": "n1", "Comment": did}
    lists(fake, [{**ARRAY, "JobArrayID": "41_3"}, runs], TASK)

    said = engine(fake).progress(at(start(job="41")), T_S)

    assert (said.result, said.job) == ("done", "42")  # at once: another start is about task 3
    assert fake.calls() == []


@as_root
def test_tasks_that_go_are_counted_where_slurm_does_not_give_the_limit_as_a_reason(
    fake: FakeSlurm,
) -> None:
    array = {**ARRAY, "JobArrayID": "41_[2-4%2]", "Reason": "JobHeldUser"}
    runs = {**TASK, "JobID": "42", "JobArrayID": "41_0", "State": "RUNNING", "NodeList": "n1"}
    let_go = {**TASK, "JobID": "43", "JobArrayID": "41_1", "Reason": "Resources", "PriorityLong": 9}
    lists(fake, [array, runs, let_go], TASK)

    said = engine(fake).carry_out(at(start(job="41")), T_S)

    assert said.result == "failed"
    assert "as many tasks of array 41" in said.text
    assert fake.calls() == []


@as_root
def test_a_task_that_was_let_go_is_followed_though_it_reaches_the_limit(fake: FakeSlurm) -> None:
    did = "steward:did=d-start@1794967252~1794967300"
    ours = {**TASK, "JobID": "43", "Reason": "None", "PriorityLong": 9, "Comment": did}
    lists(fake, [{**ARRAY, "Reason": "JobHeldUser,JobArrayTaskLimit"}, ours], TASK)

    assert engine(fake).progress(at(start(job="41")), T_S).result == "begun"


@as_root
def test_a_task_that_runs_since_the_look_is_found_and_no_second_one_released(
    fake: FakeSlurm,
) -> None:
    did = "steward:did=d-start@1794967252~1794967300"
    runs = {**TASK, "JobID": "42", "State": "RUNNING", "Reason": "None", "Comment": did}
    lists(fake, [ARRAY, runs], {**runs, "NodeList": "n1"})
    together = fake.folder / "all.txt"  # where squeue showed it as one with those that are held
    together.write_text(together.read_text().splitlines()[0] + "\n")

    said = engine(fake).progress(at(start(job="41")), T_S)

    assert (said.result, said.job) == ("done", "42")
    assert fake.calls() == []


@as_root
def test_an_array_with_as_many_tasks_as_may_run_waits_for_them(fake: FakeSlurm) -> None:
    lists(fake, [{**ARRAY, "Reason": "JobHeldUser,JobArrayTaskLimit"}], TASK)

    said = engine(fake).carry_out(at(start(job="41")), T_S)

    assert said.result == "failed"
    assert "as many tasks of array 41" in said.text
    assert fake.calls() == []


@as_root
def test_a_dry_run_names_the_commands_and_runs_none(fake: FakeSlurm) -> None:
    said = engine(fake, dry_run=True).carry_out(at(preempt(job="17")), T_S)

    assert said.result == "failed"
    ask = "scancel --batch --signal=USR2 17; scontrol update JobId=17 "
    assert said.text.startswith(f"dry run, nothing was changed: {ask}")
    assert fake.calls() == []


@as_root
def test_the_time_to_save_begins_when_a_job_is_asked_not_when_the_turn_began(
    fake: FakeSlurm,
) -> None:
    clock = ManualClock(T_S + 80.0)  # the turn takes that long so far
    slurm = Slurm(folder=f"{fake.folder}:/bin:/usr/bin", timeout_s=LONG_S, clock=clock)

    slurm.carry_out(at(preempt(job="17")), T_S)

    (noted,) = fake.calls()
    assert f"~{T_S + 80:.0f}" in noted
    due_s = slurm.next_s()
    assert due_s is not None
    assert due_s > T_S + 80


@as_root
def test_a_job_that_is_asked_to_save_is_asked_once_and_then_done_with(fake: FakeSlurm) -> None:
    slurm, save = engine(fake), at(decision("d-save", action=Save(job=JobId("17"))))

    said = slurm.carry_out(save, T_S)

    assert Save in slurm.actions()
    assert (said.result, said.gpus) == ("done", ())
    assert "job 17 was asked to save" in said.text


@as_root
def test_a_clock_that_jumps_ahead_does_not_end_a_save(fake: FakeSlurm) -> None:
    clock, stop = ManualClock(T_S), at(preempt(job="17"))
    slurm = Slurm(folder=f"{fake.folder}:/bin:/usr/bin", timeout_s=LONG_S, clock=clock)
    slurm.carry_out(stop, T_S)
    (noted,) = fake.calls()
    columns = (fake.folder / "columns.txt").read_bytes()
    mark = noted.partition("Comment=")[2].encode()
    before = mark.partition(b" steward:did=")[0]
    (fake.folder / "columns.txt").write_bytes(columns.replace(before, mark))

    clock.jump(T_S + 3600.0)
    said = slurm.progress(stop, T_S + 1.0)  # the loop does not follow the jump

    assert said.text == "job 17 saves; it is requeued in 89 s"
    assert fake.calls() == [noted]


def listed_with(fake: FakeSlurm, comment: str, **changed: str) -> None:
    """List one running job of root's with a comment that its owner has written."""
    runs = {**ARRAY, "JobID": "17", "JobArrayID": "17", "State": "RUNNING", "Reason": "None"}
    cells = {**runs, "NodeList": "n1", "Comment": comment, **changed}
    row = "".join(f"{cell} {SEPARATOR}" for cell in cells.values())
    (fake.folder / "columns.txt").write_text(f"{row}\n")


@as_root
@pytest.mark.parametrize(
    "rewritten",
    [
        "steward:saves=30 steward:did=d-stop@1794967252~{now:.0f}",  # it was asked just now
        "steward:saves=3600 steward:did=d-stop@1794967252~{asked:.0f}",  # and needs an hour
        "steward:saves=30",  # it was never asked
        "nothing at all",
    ],
)
def test_a_stop_is_not_delayed_by_an_owner_who_rewrites_the_comment(
    fake: FakeSlurm, rewritten: str
) -> None:
    slurm, stop = engine(fake), at(preempt(job="17"))
    listed_with(fake, "steward:saves=30")
    slurm.carry_out(stop, T_S)

    for now_s in (T_S + 10, T_S + 20, T_S + 31):
        listed_with(fake, rewritten.format(now=now_s, asked=T_S))
        slurm.progress(stop, now_s)

    assert fake.calls()[1:] == ["requeue Incomplete 17"]


@as_root
def test_a_stop_is_not_skipped_by_an_owner_who_writes_that_it_is_done(fake: FakeSlurm) -> None:
    slurm, stop = engine(fake), at(preempt(job="17"))
    listed_with(fake, "steward:saves=30 steward:did=d-stop@1~1")  # of another run

    results = [slurm.progress(stop, T_S + after_s).result for after_s in (0, 31)]

    assert results == ["begun", "begun"]
    assert fake.calls()[-1] == "requeue Incomplete 17"


@as_root
def test_a_start_is_not_kept_open_by_an_owner_who_rewrites_the_comment(fake: FakeSlurm) -> None:
    slurm, made = engine(fake), at(start(job="17"))
    results = []
    for now_s in (T_S, T_S + 100, T_S + 200, T_S + 301):
        note = f"steward:did=d-start@1794967252~{now_s + 50:.0f}"
        listed_with(fake, note, State="PENDING", Reason="Resources", PriorityLong="9")
        results.append(slurm.progress(made, now_s).result)

    assert results == ["begun", "begun", "begun", "failed"]


@as_root
def test_a_nice_value_that_was_lent_for_a_start_is_taken_back_though_its_note_is_gone(
    fake: FakeSlurm,
) -> None:
    slurm, made = engine(fake), at(start(job="17"))
    behind = {"State": "PENDING", "Reason": "Priority", "PriorityLong": "100"}
    listed_with(fake, "", **behind)
    first = b"8\x1f150\x1fPriority\x1f0\x1f\x1f\n"
    (fake.folder / "waiting.txt").write_bytes(as_asked(first))
    which = 'case "$*" in *--partition=*) echo waiting.txt;; *) echo columns.txt;; esac'
    fake.command("squeue", f"cat {fake.folder}/$({which})")
    slurm.carry_out(made, T_S)

    listed_with(fake, "", Nice="-51")  # it runs
    slurm.progress(made, T_S + 5)

    assert "Nice=-51 " in fake.calls()[0]
    assert fake.calls()[1:] == ["update JobId=17 Nice=0"]


@as_root
def test_a_priority_is_changed_though_the_owner_has_written_that_it_was(fake: FakeSlurm) -> None:
    slurm = engine(fake)
    action = Reprioritise(job=JobId("17"), before=100, priority=60)
    made = decision("d-less", action=action, t_s=T_S)
    note = "steward:did=d-less@1794967252~1794967300+nice0"
    listed_with(fake, note, State="PENDING", Reason="Priority", PriorityLong="100")

    slurm.carry_out(made, T_S)
    slurm.progress(made, T_S + 1)  # not seen yet, and known to be done

    assert [call.split()[2] for call in fake.calls()] == ["Nice=40"]


@as_root
def test_what_was_stopped_for_a_start_goes_on_when_that_job_runs(fake: FakeSlurm) -> None:
    slurm, stop = engine(fake), at(preempt("d-1", job="21"))  # it is back in the queue
    others_start = at(start("d-other", job="17"))  # it runs
    its_start = replace(at(start(job="17")), after=(stop.id,))

    stopped = slurm.progress(stop, T_S)
    slurm.progress(others_start, T_S)
    before = fake.calls()
    for _ in range(2):
        slurm.progress(its_start, T_S)

    assert stopped.result == "done"
    assert before == []
    assert fake.calls() == ["update JobId=21 StartTime=now+5"]


@as_root
def test_a_start_is_done_although_what_was_stopped_for_it_cannot_go_on(fake: FakeSlurm) -> None:
    slurm, stop = engine(fake), at(preempt("d-1", job="21"))
    slurm.progress(stop, T_S)
    columns = (fake.folder / "columns.txt").read_bytes()
    kept = [line for line in columns.splitlines(keepends=True) if not line.startswith(b"21")]
    (fake.folder / "columns.txt").write_bytes(b"".join(kept))

    said = slurm.progress(replace(at(start(job="17")), after=(stop.id,)), T_S + 1.0)

    assert said.text == "job 17 runs on n1, n2"
    assert fake.calls() == []


@as_root
@pytest.mark.parametrize(("after", "nice"), [((), -21), ((DecisionId("d-stop"),), -51)])
def test_only_who_others_made_room_for_passes_the_job_for_which_slurm_keeps_room(
    fake: FakeSlurm, after: tuple[DecisionId, ...], nice: int
) -> None:
    lines = fake.recorded("squeue-columns.txt").splitlines(keepends=True)
    (held,) = [line for line in lines if line.startswith(b"18 ")]
    cells = held.replace(b"JobHeldUser", b"Priority   ").split(b"\x1f")
    cells[-5] = b"100".ljust(len(cells[-5]))  # its priority
    (fake.folder / "columns.txt").write_bytes(as_asked(b"\x1f".join(cells)))
    waiting = b"8\x1f150\x1fResources\x1f0\x1f\x1f\n9\x1f120\x1fPriority\x1f0\x1f\x1f\n"
    (fake.folder / "waiting.txt").write_bytes(as_asked(waiting))
    which = 'case "$*" in *--partition=*) echo waiting.txt;; *) echo columns.txt;; esac'
    fake.command("squeue", f"cat {fake.folder}/$({which})")

    engine(fake).carry_out(replace(at(start(job="18")), after=after), T_S)

    assert f"Nice={nice} " in fake.calls()[0]


@as_root
def test_decisions_of_one_turn_share_one_look(fake: FakeSlurm) -> None:
    slurm = engine(fake)
    for job in ("18", "17"):
        made = start(job=job) if job == "18" else preempt(job=job)
        slurm.carry_out(at(made), T_S)
    looks = fake.looks()

    for job in ("18", "17"):
        made = start(job=job) if job == "18" else preempt(job=job)
        slurm.progress(at(made), T_S + 5)

    assert looks == 2
    assert fake.looks() - looks <= 2  # one for both, one more after a command has changed a job


@as_root
def test_a_start_stays_open_until_the_collector_has_seen_it(fake: FakeSlurm) -> None:
    slurm, made = engine(fake), at(start(job="17"))  # it runs

    results = [(slurm.progress(made, T_S + s).result, slurm.next_s()) for s in (0, 29, 30)]

    assert results == [("begun", T_S + 30), ("begun", T_S + 30), ("done", T_S + 0.5)]


@as_root
def test_a_job_that_ran_and_is_over_was_started_and_keeps_nothing(fake: FakeSlurm) -> None:
    columns = (fake.folder / "columns.txt").read_bytes()
    (fake.folder / "columns.txt").write_bytes(columns.replace(b"RUNNING", b"COMPLETED"))

    said = engine(fake).progress(at(start(job="17")), T_S)

    assert (said.result, said.text) == ("done", "job 17 has run, and is completed")


def test_advice_is_given_whether_or_not_slurm_answers(fake: FakeSlurm) -> None:
    tell = Tell(to="ada", about="n1", text="use it", job=JobId("17"))
    fake.command("scontrol", "exit 1")

    plain = engine(fake).carry_out(decision(action=tell), T_S)
    noisy = engine(fake, notify=True).carry_out(decision(action=tell), T_S)

    assert (plain.result, plain.text) == ("done", "told ada: use it")
    assert (noisy.result, "not in the output of job 17" in noisy.text) == ("done", True)


def test_what_slurm_cannot_do_is_refused_with_the_reason(fake: FakeSlurm) -> None:
    slurm = engine(fake)

    with pytest.raises(PermanentError, match="cannot reset") as fault:
        slurm.carry_out(decision(action=Reset(gpus=(GpuId("n1/gpu0"),))), T_S)

    assert "preemptible partition" in fault.value.hint
    assert "suspending frees no GPU" in slurm.available().reason


def test_a_job_that_slurm_has_forgotten_is_given_up(fake: FakeSlurm) -> None:
    with pytest.raises(PermanentError, match="no job 99"):
        engine(fake).carry_out(at(start(job="99")), T_S)


def test_a_controller_that_is_down_is_asked_again(fake: FakeSlurm) -> None:
    fake.command("scontrol", 'echo "Slurmctld(primary) at x is DOWN"; exit 1')

    with pytest.raises(TemporaryError):
        engine(fake).carry_out(at(drain()), T_S)
    assert Drain in engine(fake).actions()  # what it may do is not known
    assert engine(fake).available().status == "missing"


def test_without_slurm_it_says_where_to_run(tmp_path: Path) -> None:
    state = Slurm(folder=str(tmp_path)).available()

    assert (state.status, "plugs.slurm.folder" in state.hint) == ("missing", True)

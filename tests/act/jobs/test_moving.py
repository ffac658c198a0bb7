"""Jobs that are moved to other slots, or to another number of them; with real processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from job_bed import SAVES, SLOT, states
from job_bed import JobControllerBed as Bed
from managed_jobs import python, spec
from patience import until
from steward.act.actuators.local import Local
from steward.act.jobs.controller import JobController
from steward.act.jobs.moving import MOST_TRIES
from steward.clients.local_jobs.engine import LocalEngine
from steward.errors import PermanentError, TemporaryError
from steward.model.actions import Action, Migrate, Resize
from steward.model.decision import Decision, Receipt
from steward.model.identity import DecisionId, GpuId, JobId, TenantId
from steward.model.job import JobShape
from steward.model.managed_job import Attempt, LifeState, ManagedJob

OTHER, TWO = (GpuId("n1/cpu1"),), (GpuId("n1/cpu0"), GpuId("n1/cpu1"))
ELASTIC = JobShape(gpus=1, max_gpus=2)
MIGRATED = ["running", "saving", "preempted", "starting", "migrated"]
ENDLESS = SAVES.replace("STEPS", "100000").replace(
    'at = folder / "state"', 'at = folder / "state"; print(os.environ["STEWARD_SLOTS"], flush=True)'
)


def running(bed: Bed, shape: JobShape = ELASTIC, code: str = ENDLESS) -> JobId:
    """Return a job that runs on the first slot and says that it can save."""
    id_ = bed.submit(python(code, shape=shape))
    bed.start(id_)
    until(lambda: (bed.advance(), bed.job(id_).checkpointing.able)[1])
    return id_


def move(bed: Bed, id_: JobId, gpus: tuple[GpuId, ...] = OTHER, decision: str = "m-1") -> None:
    bed.controller.move(id_, gpus, decision=DecisionId(decision), t_s=bed.t_s, why="ann asked")


def runs_there(bed: Bed, id_: JobId) -> ManagedJob:
    return bed.reaches(id_, LifeState.MIGRATED, LifeState.RESIZED)


def test_a_job_saves_stops_and_goes_on_on_another_slot(bed: Bed) -> None:
    id_ = running(bed)

    move(bed, id_)
    job = runs_there(bed, id_)

    assert states(job)[-5:] == MIGRATED
    assert job.gpus == OTHER
    assert job.events[-4].why == "ann asked; to n1/cpu1"
    assert [(each.decision, each.stop_decision) for each in job.attempts] == [
        ("d-1", "m-1"),
        ("m-1", None),
    ]
    until(lambda: bed.log(id_) == "cpu0\ncpu1\n")
    assert len(job.checkpoints) == 1


def test_both_places_are_held_until_it_runs_there(bed: Bed) -> None:
    id_, second = running(bed), bed.submit(spec("true"))

    move(bed, id_)
    assert bed.job(id_).gpus == (*SLOT, *OTHER)
    with pytest.raises(PermanentError, match=r"held: n1/cpu1 by job 1"):
        bed.start(second, "d-2", OTHER)
    runs_there(bed, id_)
    bed.start(second, "d-2", SLOT)

    bed.reaches(second, LifeState.FINISHED)


@pytest.mark.parametrize(
    ("shape", "gpus", "words"),
    [
        (ELASTIC, SLOT, "no other place"),
        (ELASTIC, (*OTHER, *OTHER), "no other place"),
        (ELASTIC, (*TWO, GpuId("n1/cpu2")), "it runs on 1 to 2 GPUs, not on 3"),
        (JobShape(gpus=1), TWO, "it runs on 1 GPUs, not on 2"),
    ],
)
def test_a_place_that_it_cannot_go_to_is_refused(
    bed: Bed, shape: JobShape, gpus: tuple[GpuId, ...], words: str
) -> None:
    id_ = running(bed, shape)

    with pytest.raises(PermanentError, match=words):
        move(bed, id_, gpus)

    assert bed.job(id_).attempts[-1].stop == ""


def test_a_job_that_cannot_save_waits_or_is_being_stopped_is_not_moved(bed: Bed) -> None:
    waits, plain = bed.submit(spec("true")), bed.submit(spec("sleep", "1000"))
    bed.start(plain, "d-2")
    bed.reaches(plain, LifeState.RUNNING)

    with pytest.raises(PermanentError, match="it is waiting, not running"):
        move(bed, waits)
    with pytest.raises(PermanentError, match="it cannot save its work"):
        move(bed, plain)
    bed.controller.cancel(plain, t_s=bed.t_s, why="ann cancelled it")
    with pytest.raises(PermanentError, match="it is being cancelled"):
        move(bed, plain)
    assert bed.job(plain).attempts[-1].stop == "cancel"


def test_a_place_that_another_job_holds_is_refused(bed: Bed) -> None:
    id_, second = running(bed), bed.submit(spec("sleep", "1000"))
    bed.start(second, "d-2", OTHER)

    with pytest.raises(PermanentError, match=f"held: n1/cpu1 by job {second}"):
        move(bed, id_)


def test_the_same_decision_moves_a_job_once_and_another_waits_until_that_is_done(bed: Bed) -> None:
    id_ = running(bed)

    move(bed, id_)
    with pytest.raises(PermanentError, match="it is being moved"):
        move(bed, id_, (GpuId("n1/cpu2"),), "m-2")
    move(bed, id_)
    runs_there(bed, id_)
    move(bed, id_)

    assert len(bed.job(id_).attempts) == 2
    until(lambda: bed.log(id_) == "cpu0\ncpu1\n")


def test_a_job_is_resized_within_what_it_can_take_and_back(bed: Bed) -> None:
    id_ = running(bed)

    move(bed, id_, TWO)
    job = runs_there(bed, id_)
    assert (job.state, job.gpus) == (LifeState.RESIZED, TWO)
    until(lambda: bed.log(id_) == "cpu0\ncpu0,cpu1\n")
    until(lambda: (bed.advance(), bed.job(id_).checkpointing.able)[1])
    move(bed, id_, OTHER, "m-2")
    until(lambda: (bed.advance(), bed.job(id_).gpus == OTHER and bed.job(id_).state.runs)[1])

    assert states(bed.job(id_)).count("resized") == 2
    until(lambda: bed.log(id_) == "cpu0\ncpu0,cpu1\ncpu1\n")


def test_a_job_that_ends_while_it_is_asked_to_move_has_finished(bed: Bed) -> None:
    done = "(folder / 'done.json').write_text('{\"step\": 1}')"
    code = ENDLESS.partition("while step")[0]
    code += f"while not (folder / 'request.json').exists(): time.sleep(0.01)\n{done}"
    id_ = running(bed, code=code)

    move(bed, id_)
    job = bed.reaches(id_, LifeState.FINISHED)

    assert len(job.attempts) == 1
    assert job.gpus == ()


def test_a_job_that_cannot_save_now_stays_where_it_is(bed: Bed) -> None:
    bed.controller.stopping.save_within_s = 1.0
    id_ = running(bed, code=ENDLESS.partition("while step")[0] + "time.sleep(1000)")

    move(bed, id_)
    bed.t_s += 2.0
    job = bed.reaches(id_, LifeState.RUNNING)

    assert (job.gpus, job.events[-1].why) == (SLOT, "it did not save within 1 s")
    assert progress(bed, id_).result == "failed"
    assert "did not save" in progress(bed, id_).text


# -- steward killed, at each point -----------------------------------------------------------------


def killed_before_it_asked(bed: Bed, id_: JobId) -> None:
    class Dies(LocalEngine):
        def ask_to_save(self, *_: object) -> None:
            raise KeyboardInterrupt

    die_in(bed, Dies(bed.folder / "jobs", grace_s=0.3), lambda: move(bed, id_))


def killed_while_it_saves(bed: Bed, id_: JobId) -> None:
    move(bed, id_)


def killed_before_the_next_attempt(bed: Bed, id_: JobId) -> None:
    class Dies(LocalEngine):
        def launch(self, job: ManagedJob, attempt: Attempt) -> None:
            raise KeyboardInterrupt

    move(bed, id_)
    until((bed.folder / "jobs" / id_ / "attempt-1" / "exit.json").exists)
    die_in(bed, Dies(bed.folder / "jobs", grace_s=0.3), bed.advance)


def die_in(bed: Bed, engine: LocalEngine, act: Callable[[], None]) -> None:
    bed.controller = JobController(bed.controller.store, engine)
    with pytest.raises(KeyboardInterrupt):
        act()


@pytest.mark.parametrize(
    "kill", [killed_before_it_asked, killed_while_it_saves, killed_before_the_next_attempt]
)
def test_a_steward_that_is_killed_carries_a_move_on(
    bed: Bed, kill: Callable[[Bed, JobId], None]
) -> None:
    id_ = running(bed)
    kill(bed, id_)
    bed.restart()

    job = runs_there(bed, id_)

    assert job.gpus == OTHER
    until(lambda: bed.log(id_) == "cpu0\ncpu1\n")  # it ran once there


def test_a_place_where_nothing_can_be_started_sends_the_job_into_the_queue(bed: Bed) -> None:
    class NoProcess(LocalEngine):
        def launch(self, job: ManagedJob, attempt: Attempt) -> None:
            raise TemporaryError("no process can be started: out of memory")

    id_ = running(bed)
    move(bed, id_)
    engine = NoProcess(bed.folder / "jobs", grace_s=0.3)
    bed.controller.engine = bed.controller.following.engine = engine

    job = bed.reaches(id_, LifeState.WAITING)

    assert len(job.attempts) == 1 + MOST_TRIES
    assert progress(bed, id_).result == "failed"


def test_a_job_that_is_lost_while_it_moves_goes_into_the_queue(bed: Bed) -> None:
    id_ = running(bed)
    job = bed.job(id_)
    lost = replace(job.attempts[-1], stop="move", next_gpus=OTHER)
    bed.controller.store.put(job.with_attempt(lost).moved(bed.t_s, LifeState.LOST, "test"))

    assert bed.reaches(id_, LifeState.WAITING).gpus == ()
    bed.controller.engine.stop(id_, 1, force=True)


def test_a_person_who_preempts_or_cancels_a_job_that_moves_is_obeyed(bed: Bed) -> None:
    one = running(bed)
    move(bed, one)
    bed.controller.preempt(one, decision=DecisionId("p-1"), t_s=bed.t_s, why="room")
    assert len(bed.reaches(one, LifeState.PREEMPTED).attempts) == 1
    assert progress(bed, one).result == "failed"

    bed.start(one, "d-2")
    until(lambda: (bed.advance(), bed.job(one).state is LifeState.RESUMED)[1])
    move(bed, one, decision="m-2")
    bed.controller.cancel(one, t_s=bed.t_s, why="ann cancelled it")

    assert bed.reaches(one, LifeState.CANCELLED).events[-1].why == "ann cancelled it"


# -- as decisions ----------------------------------------------------------------------------------


def decided(action: Action) -> Decision:
    return Decision(
        id=DecisionId("m-1"),
        t_s=1.0,
        action=action,
        because="room for a gang",
        policy="test",
        check_after_s=60.0,
        tenant=TenantId("lab"),
    )


def progress(bed: Bed, id_: JobId) -> Receipt:
    action = Migrate(job=id_, source=SLOT, target=OTHER)
    return Local(bed.controller).progress(decided(action), bed.t_s)


@pytest.mark.parametrize(
    ("target", "state"), [(OTHER, LifeState.MIGRATED), (TWO, LifeState.RESIZED)]
)
def test_a_decision_to_migrate_or_resize_is_carried_out_and_followed(
    bed: Bed, target: tuple[GpuId, ...], state: LifeState
) -> None:
    id_, local = running(bed), Local(bed.controller)
    if len(target) == 1:
        decision = decided(Migrate(job=id_, source=SLOT, target=target))
    else:
        decision = decided(Resize(job=id_, now=SLOT, then=target))
    assert local.progress(decision, bed.t_s).text == f"job {id_} was not asked to move"

    first = local.carry_out(decision, bed.t_s)
    job = bed.reaches(id_, state)

    assert (first.result, first.text) == ("begun", f"job {id_} is saving")
    assert local.progress(decision, bed.t_s).result == "done"
    assert local.carry_out(decision, bed.t_s).result == "done"  # repeated: it changes nothing
    assert len(job.attempts) == 2

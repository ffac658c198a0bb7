"""Jobs that are asked to save: to go on, or to make room; with real processes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from job_bed import SAVES, states
from job_bed import JobControllerBed as Bed
from managed_jobs import python, spec
from patience import until
from steward.errors import PermanentError
from steward.model.identity import DecisionId, JobId
from steward.model.managed_job import LifeState

ONCE = """
import json, os, pathlib, time
folder = pathlib.Path(os.environ["STEWARD_JOB_FOLDER"])
def put(name, **record):
    (folder / (name + ".tmp")).write_text(json.dumps(record))
    (folder / (name + ".tmp")).rename(folder / name)
put("can_save.json", can=True, seconds=0.1)
while not (folder / "request.json").exists():
    time.sleep(0.01)
request = json.loads((folder / "request.json").read_text())
put("answer.json", id=request["id"], result="saved", step=5, checkpoint="five", bytes=1)
time.sleep(1000)
"""


def test_a_job_that_saves_is_preempted_and_resumed_where_it_was(bed: Bed) -> None:
    id_ = bed.submit(python(SAVES.replace("STEPS", "500")))
    bed.start(id_)
    until(lambda: (bed.advance(), bed.job(id_).checkpointing.able)[1])

    bed.controller.preempt(id_, decision=DecisionId("p-1"), t_s=bed.t_s, why="room for 2")
    job = bed.reaches(id_, LifeState.PREEMPTED)
    assert job.gpus == ()
    assert len(job.checkpoints) == 1
    bed.start(id_, "d-2")
    job = bed.reaches(id_, LifeState.FINISHED)

    assert states(job)[-6:] == [
        "running", "saving", "preempted", "starting", "resumed", "finished",
    ]  # fmt: skip
    assert [each.number for each in job.attempts] == [1, 2]


def test_a_request_to_save_lets_the_job_go_on(bed: Bed) -> None:
    id_ = bed.submit(python(SAVES.replace("STEPS", "100000")))
    bed.start(id_)
    until(lambda: (bed.advance(), bed.job(id_).checkpointing.able)[1])

    bed.controller.save(id_, request="s-1", t_s=bed.t_s, why="ann asked")
    job = bed.reaches(id_, LifeState.RUNNING)

    assert job.events[-1].why.startswith("saved at step")


def test_a_job_that_cannot_save_is_not_preempted_unless_its_owner_forces_it(bed: Bed) -> None:
    id_ = bed.submit(spec("sleep", "1000"))
    bed.start(id_)
    bed.reaches(id_, LifeState.RUNNING)

    with pytest.raises(PermanentError, match="cannot save"):
        bed.controller.preempt(id_, decision=DecisionId("p-1"), t_s=bed.t_s, why="room")
    bed.controller.preempt(id_, decision=DecisionId("p-2"), t_s=bed.t_s, why="room", force=True)

    bed.reaches(id_, LifeState.PREEMPTED)


def test_a_save_that_never_comes_leaves_the_job_running(bed: Bed) -> None:
    code = "import pathlib, os, time; pathlib.Path(os.environ['STEWARD_JOB_FOLDER'],"
    code += "'can_save.json').write_text('{\"can\": true}'); time.sleep(1000)"
    bed.controller.stopping.save_within_s = 1.0
    id_ = bed.submit(python(code))
    bed.start(id_)
    until(lambda: (bed.advance(), bed.job(id_).checkpointing.able)[1])

    bed.controller.preempt(id_, decision=DecisionId("p-1"), t_s=bed.t_s, why="room")
    bed.t_s += 2.0
    job = bed.reaches(id_, LifeState.RUNNING)

    assert job.events[-1].why == "it did not save within 1 s"


CANNOT = """
import json, os, pathlib, time
folder = pathlib.Path(os.environ["STEWARD_JOB_FOLDER"])
(folder / "can_save.json").write_text('{"can": true}')
while not (folder / "request.json").exists():
    time.sleep(0.01)
asked = json.loads((folder / "request.json").read_text())["id"]
answer = {"id": asked, "result": "failed", "step": 1, "why": "/mine is full"}
(folder / "answer.tmp").write_text(json.dumps(answer))
(folder / "answer.tmp").rename(folder / "answer.json")
time.sleep(1000)
"""


def test_a_save_that_fails_leaves_the_job_running_and_its_owner_sees_why(bed: Bed) -> None:
    id_ = bed.submit(python(CANNOT))
    bed.start(id_)
    until(lambda: (bed.advance(), bed.job(id_).checkpointing.able)[1])

    bed.controller.preempt(id_, decision=DecisionId("p-1"), t_s=bed.t_s, why="room")
    job = bed.reaches(id_, LifeState.RUNNING)

    assert (job.events[-1].why, job.events[-1].detail) == ("it could not save", "/mine is full")
    assert job.attempts[-1].stop == ""


def test_a_steward_that_is_killed_asks_again_to_save_and_stop(bed: Bed) -> None:
    id_ = bed.submit(python(SAVES.replace("STEPS", "100000")))
    bed.start(id_)
    until(lambda: (bed.advance(), bed.job(id_).checkpointing.able)[1])
    job, attempt = bed.job(id_), bed.job(id_).attempts[-1]
    stop = replace(attempt, stop="preempt", stop_why="room", stop_decision=DecisionId("p-1"))
    bed.controller.store.put(
        job.with_attempt(stop).moved(bed.t_s, LifeState.SAVING, "room")
    )  # and killed here, before the job was asked

    bed.restart()

    assert bed.reaches(id_, LifeState.PREEMPTED).checkpoints


def test_a_request_to_save_does_not_take_the_place_of_one_to_stop(bed: Bed) -> None:
    id_ = bed.submit(python(SAVES.replace("STEPS", "100000")))
    bed.start(id_)
    until(lambda: (bed.advance(), bed.job(id_).checkpointing.able)[1])

    bed.controller.preempt(id_, decision=DecisionId("p-1"), t_s=bed.t_s, why="room")
    bed.controller.save(id_, request="s-1", t_s=bed.t_s, why="ann asked")

    assert bed.reaches(id_, LifeState.PREEMPTED).attempts[-1].stop_decision == "p-1"


SAVES_AND_TIDIES = """
import json, os, pathlib, sys, time
folder = pathlib.Path(os.environ["STEWARD_JOB_FOLDER"])
(folder / "can_save.json").write_text('{"can": true}')
while not (folder / "request.json").exists():
    time.sleep(0.01)
asked = json.loads((folder / "request.json").read_text())["id"]
answer = {"id": asked, "result": "saved", "step": 1, "checkpoint": "/mine"}
(folder / "answer.tmp").write_text(json.dumps(answer))
(folder / "answer.tmp").rename(folder / "answer.json")
while not (folder / "go").exists():
    time.sleep(0.01)
print("tidied up", flush=True)
"""


def saved_and_has_not_left(bed: Bed) -> JobId:
    id_ = bed.submit(python(SAVES_AND_TIDIES))
    bed.start(id_)
    until(lambda: (bed.advance(), bed.job(id_).checkpointing.able)[1])
    bed.controller.preempt(id_, decision=DecisionId("p-1"), t_s=bed.t_s, why="room")
    until(lambda: (bed.controller.advance(bed.t_s), bed.job(id_).checkpoints)[1])
    return id_


def test_a_job_that_has_saved_is_left_time_to_leave_by_itself(bed: Bed) -> None:
    id_ = saved_and_has_not_left(bed)

    for _ in range(20):
        bed.controller.advance(bed.t_s)
    (bed.folder / "jobs" / id_ / "work" / "go").touch()
    until(lambda: (bed.controller.advance(bed.t_s), not bed.job(id_).gpus)[1])

    job = bed.job(id_)
    assert (job.state, job.attempts[-1].exit_code) == (LifeState.PREEMPTED, 0)
    assert bed.log(id_) == "tidied up\n"


def test_a_job_that_has_saved_and_does_not_leave_is_ended_after_the_grace(bed: Bed) -> None:
    id_ = saved_and_has_not_left(bed)

    job = bed.reaches(id_, LifeState.PREEMPTED)

    assert job.attempts[-1].signal in (15, 9)  # 9 where it is slow to die
    assert bed.log(id_) == ""


def test_a_request_that_was_left_does_not_stop_the_next_attempt(bed: Bed) -> None:
    id_ = bed.submit(python(SAVES.replace("STEPS", "500")))
    bed.start(id_)
    until(lambda: (bed.advance(), bed.job(id_).checkpointing.able)[1])
    bed.controller.preempt(id_, decision=DecisionId("p-1"), t_s=bed.t_s, why="room")
    bed.reaches(id_, LifeState.PREEMPTED)
    left = {"id": "p-2", "do": "save-and-stop"}  # a second one, that came when it had answered
    (bed.folder / "jobs" / id_ / "work" / "request.json").write_text(json.dumps(left))

    bed.start(id_, "d-2")
    job = bed.reaches(id_, LifeState.FINISHED, LifeState.PREEMPTED)

    assert job.state is LifeState.FINISHED
    assert (bed.folder / "jobs" / id_ / "work" / "done.json").exists()


SAVES_LATE = SAVES_AND_TIDIES.replace(
    "asked = json", "while not (folder / 'go').exists(): time.sleep(0.01)\nasked = json"
)


def test_a_job_that_saves_and_stops_after_it_was_given_up_has_not_finished(bed: Bed) -> None:
    id_ = bed.submit(python(SAVES_LATE))
    bed.start(id_)
    until(lambda: (bed.advance(), bed.job(id_).checkpointing.able)[1])
    bed.controller.stopping.save_within_s = 1.0
    bed.controller.preempt(id_, decision=DecisionId("p-1"), t_s=bed.t_s, why="room")
    bed.t_s += 2.0
    bed.reaches(id_, LifeState.RUNNING)

    (bed.folder / "jobs" / id_ / "work" / "go").touch()
    job = bed.reaches(id_, LifeState.FINISHED, LifeState.PREEMPTED)

    assert (job.state, job.events[-1].why) == (
        LifeState.PREEMPTED,
        "it saved and stopped, later than asked",
    )


def test_a_second_save_is_not_answered_by_the_first(bed: Bed) -> None:
    id_ = bed.submit(python(ONCE))
    bed.start(id_)
    until(lambda: (bed.advance(), bed.job(id_).checkpointing.able)[1])
    bed.controller.save(id_, request="r-1", t_s=bed.t_s, why="test")
    bed.reaches(id_, LifeState.RUNNING)

    bed.controller.save(id_, request="r-2", t_s=bed.t_s, why="test")
    for _ in range(20):
        bed.advance()

    assert bed.job(id_).state is LifeState.SAVING

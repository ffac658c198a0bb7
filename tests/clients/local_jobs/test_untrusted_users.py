"""What a user could plant for a steward that runs as root: links, names, devices, marks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from managed_jobs import attempt, managed, spec, text_of
from patience import until
from steward.clients.local_jobs.accounts import refuse_if_shared
from steward.clients.local_jobs.engine import MARK_VARIABLE, LocalEngine
from steward.clients.local_jobs.exchange import read_reply, write_for_job
from steward.errors import PermanentError, StewardError
from steward.model.identity import JobId
from steward.model.managed_job import AttemptLook, JobSpec

JOB = JobId("1")
NOBODY = {"uid": 65534, "gid": 65534}
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may run jobs of others")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    for each in (tmp_path, *tmp_path.parents):
        if os.getuid() == 0 and each != Path("/") and not each.stat().st_mode & 1:
            each.chmod(each.stat().st_mode | 0o711)
    made = LocalEngine(tmp_path / "jobs", grace_s=0.3)
    yield made
    if made.look(JOB, 1).phase == "running":
        made.stop(JOB, 1, force=True)
        until(lambda: made.look(JOB, 1).phase != "running")


def ended(engine: LocalEngine, made: JobSpec) -> AttemptLook:
    engine.launch(managed(made), attempt())
    until(lambda: engine.look(JOB, 1).phase == "ended")
    return engine.look(JOB, 1)


def log(engine: LocalEngine) -> Path:
    return engine.work_folder(JOB) / "output.log"


def test_links_that_a_user_planted_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"result": "saved"}')
    (tmp_path / "answer.json").symlink_to(secret)
    (tmp_path / "request.json").symlink_to(secret)

    assert read_reply(tmp_path / "answer.json") == {}
    write_for_job(tmp_path / "request.json", {"id": "r1"})

    assert secret.read_text() == '{"result": "saved"}'
    assert read_reply(tmp_path / "request.json") == {"id": "r1"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root may run jobs of others")
def test_a_job_runs_as_its_user_and_can_read_nothing_of_others(engine: LocalEngine) -> None:
    for each in (engine.folder.parent, *engine.folder.parent.parents):
        if each.stat().st_uid == 0 and each != Path("/") and not each.stat().st_mode & 1:
            each.chmod(each.stat().st_mode | 0o711)
    code = "id -u; cat /etc/shadow; touch $STEWARD_JOB_FOLDER/mine && echo ok"
    ended(engine, spec("sh", "-c", code, uid=65534, gid=65534))

    said = text_of(log(engine))
    assert said.startswith("65534\n")
    assert "denied" in said
    assert said.endswith("ok\n")
    assert (engine.work_folder(JOB).stat().st_mode & 0o777) == 0o700


@pytest.mark.parametrize("plant", ["link", "name", "fifo", "folder"])
def test_a_log_that_was_replaced_leads_nowhere(
    engine: LocalEngine, tmp_path: Path, plant: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not theirs")
    log(engine).parent.mkdir(parents=True)
    if os.getuid() == 0:
        os.chown(log(engine).parent, 65534, 65534)
    match plant:
        case "link":
            log(engine).symlink_to(secret)
        case "name" if os.getuid() == 0:
            log(engine).hardlink_to(secret)  # another name of a file of root's
        case "fifo":
            os.mkfifo(log(engine))
        case "folder":
            log(engine).mkdir()

    assert engine.read_log(JOB, 0, 100) == b""


@as_root
@pytest.mark.parametrize("which", ["output", "error"])
@pytest.mark.parametrize("by", ["path", "link"])
def test_a_log_is_opened_with_the_rights_of_its_user(
    engine: LocalEngine, tmp_path: Path, which: str, by: str
) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("as it was")
    link = tmp_path / "link"
    link.symlink_to(theirs)
    path = str(theirs if by == "path" else link)

    look = ended(engine, spec("echo", "overwritten", **NOBODY, **{which: path}))

    assert look.why == "it could not be started"
    assert "permission denied" in look.detail
    assert theirs.read_text() == "as it was"


def test_a_log_that_could_block_its_reader_is_refused(engine: LocalEngine, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)

    look = ended(engine, spec("true", output=str(fifo)))
    os.close(reader)

    assert "it is no ordinary file" in look.detail


def test_the_reason_of_a_failed_start_is_kept_in_a_few_words(engine: LocalEngine) -> None:
    look = ended(engine, spec("/" + "x" * 1_000_000))

    assert look.why == "it could not be started"
    assert len(look.detail) <= 4096


def test_the_null_device_may_be_a_log(engine: LocalEngine) -> None:
    assert ended(engine, spec("echo", "x", output="/dev/null")).exit_code == 0


def test_the_path_of_a_log_has_the_words_of_sbatch(engine: LocalEngine, tmp_path: Path) -> None:
    path = str(tmp_path / "%x-%j-%%.log")

    ended(engine, spec("echo", "here", output=path, name="a/b"))

    assert text_of(tmp_path / "a_b-1-%.log") == "here\n"


def test_a_draft_that_was_left_with_links_in_it_is_not_used(
    engine: LocalEngine, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.write_text("as it was")
    left = engine.folder / JOB / ".work.left"
    left.mkdir(parents=True)
    (left / "script").symlink_to(target)

    ended(engine, spec("x", script="#!/bin/sh\necho $1\n"))

    assert target.read_text() == "as it was"
    assert text_of(log(engine)) == "x\n"
    assert not left.exists()


@as_root
def test_a_process_of_another_user_does_not_take_the_mark_of_an_attempt(
    engine: LocalEngine,
) -> None:
    mark = {MARK_VARIABLE: f"{engine.folder}:{JOB}.1"}
    engine.launch(managed(spec("sleep", "1000", **NOBODY)), attempt())
    with subprocess.Popen(["/bin/sleep", "1000"], env=mark, user=65533) as other:
        until(lambda: engine._marked(JOB, 1))

        marked = engine._marked(JOB, 1)
        other.kill()

    assert marked
    assert other.pid not in marked


def test_a_process_with_the_mark_of_a_job_is_foreign_unless_it_is_below_its_shim(
    engine: LocalEngine,
) -> None:
    engine.launch(managed(spec("sleep", "1000")), attempt())
    (mine,) = until(lambda: engine._marked(JOB, 1))
    environment = {MARK_VARIABLE: f"{engine.folder}:{JOB}.1"}
    with subprocess.Popen(["/bin/sleep", "1000"], env=environment) as other:
        owned = [engine.owns(pid) for pid in (mine, other.pid, os.getpid())]
        other.kill()

    assert owned == [True, False, False]


@pytest.mark.parametrize("id_", ["..", "../2", "1/../2", "", "x", "1_", "1\n", "/etc"])
def test_what_is_no_id_of_a_job_leads_to_no_folder(engine: LocalEngine, id_: str) -> None:
    for ask in (engine.work_folder, engine.answer, engine.is_done):
        with pytest.raises(PermanentError, match="no id of a job"):
            ask(JobId(id_))
    with pytest.raises(PermanentError, match="no id of a job"):
        engine.look(JobId(id_), 1)


ODD = [
    {"result": "saved", "bytes": float("inf"), "step": "x", "seconds": None, "id": ["a"]},
    {"result": "failed", "why": {"a": 1}, "step": -1, "seconds": float("nan")},
    {"result": "failed", "why": "\ud800", "id": "\ud800" * 10**5, "step": 10**30},
    {"result": ["saved"]},
    {"result": None},
    {},
]


@pytest.mark.parametrize("record", ODD)
def test_odd_answers_of_a_job_become_plain_ones(
    engine: LocalEngine, record: dict[str, object]
) -> None:
    work = engine.work_folder(JOB)
    work.mkdir(parents=True)
    (work / "answer.json").write_text(json.dumps(record))
    (work / "can_save.json").write_text(json.dumps({"can": "yes", "seconds": float("inf")}))

    answer = engine.answer(JOB)
    able = engine.checkpointing(JOB)

    assert (able.able, able.save_s) == (False, 0.0)
    if answer is not None:
        assert len(answer.why.encode() + answer.id.encode()) < 10_000
        assert 0 <= answer.step < 2**53
        assert 0 <= answer.bytes < 2**53
        assert 0 <= answer.seconds < 2**53


@pytest.mark.parametrize("text", ["", "[1]", "{", "9" * 5000, "[" * 10**5, "null"])
def test_what_is_no_answer_is_none(engine: LocalEngine, text: str) -> None:
    work = engine.work_folder(JOB)
    work.mkdir(parents=True)
    for name in ("answer.json", "can_save.json", "done.json"):
        (work / name).write_text(text)

    assert engine.answer(JOB) is None
    assert not engine.checkpointing(JOB).able
    assert not engine.is_done(JOB)


def test_folders_in_place_of_answers_are_no_answers(engine: LocalEngine) -> None:
    for name in ("answer.json", "can_save.json", "done.json"):
        (engine.work_folder(JOB) / name).mkdir(parents=True)

    assert engine.answer(JOB) is None
    assert not engine.is_done(JOB)


@pytest.mark.parametrize("mode", [0o1777, 0o775, 0o702])
def test_a_folder_that_others_may_write_is_not_for_jobs(tmp_path: Path, mode: int) -> None:
    shared = tmp_path / "scratch"
    shared.mkdir()
    shared.chmod(mode)

    with pytest.raises(StewardError, match="nobody else may write"):
        refuse_if_shared(shared)

    assert shared.stat().st_mode & 0o7777 == mode  # it is left as it was
    refuse_if_shared(shared / "steward-jobs")


@as_root
def test_a_folder_of_somebody_else_is_not_for_jobs(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(tmp_path / "theirs", 65534, 65534)

    with pytest.raises(StewardError, match="steward's own"):
        refuse_if_shared(tmp_path / "theirs")

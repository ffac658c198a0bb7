from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patience import LONG_S, until
from steward import training
from steward.training.checkpoints import CheckpointFolder, faults_of
from steward.training.protocol import (
    ANSWER,
    ANSWER_LINE,
    CAN_SAVE,
    CHECKPOINTS,
    DONE,
    FOLDER_VARIABLE,
    PROGRESS,
    REQUEST_VARIABLE,
    SaveRequest,
    TrainingError,
    read_json,
)
from steward.training.requests import RequestFile

sys.path.insert(0, str(Path(__file__).parent))
from random_walk import RandomBatches, Walk, attached

PROGRAM = Path(__file__).parent / "random_walk.py"


@pytest.fixture
def job_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    return folder


@pytest.fixture(autouse=True)
def generators() -> Iterator[None]:
    state = random.getstate()
    yield
    random.setstate(state)


def trained(
    folder: Path | None, *, until_step: int = 10**9, count: int = 7, epochs: int = 3
) -> str:
    """Train until the end, or save at a step and leave."""
    walk, job = attached(folder, count)
    try:
        for batch in job.batches(epochs=epochs):
            walk.follow(batch)
            job.step()
            if job.steps == until_step:
                assert job.save().result == "saved"
                return ""
    finally:
        job.close()
    return walk.hash()


@given(stops=st.lists(st.integers(1, 20), max_size=4, unique=True).map(sorted))
@settings(max_examples=25)
def test_interruptions_anywhere_change_no_bit_of_the_result(
    tmp_path_factory: pytest.TempPathFactory, stops: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("checkpoints")

    for step in stops:
        trained(folder, until_step=step)

    assert trained(folder) == trained(tmp_path_factory.mktemp("undisturbed"))


def test_epochs_and_batches_can_be_two_loops(tmp_path: Path) -> None:
    def run(folder: Path, leave_at: int) -> tuple[list[str], str]:
        walk, job = attached(folder, 5)
        ended = []
        for epoch in job.epochs(3):
            for batch in job.batches():
                walk.follow(batch)
                job.step()
                if job.steps == leave_at:
                    job.save()
                    job.close()
                    return ended, ""
            walk.follow(0.5)  # the end of an epoch belongs to the training
            ended.append(f"epoch {epoch}")
        job.close()
        return ended, walk.hash()

    undisturbed = run(tmp_path / "a", 0)
    first = run(tmp_path / "b", 10)  # the last batch of the second epoch
    second = run(tmp_path / "b", 0)

    assert first[0] + second[0] == undisturbed[0] == ["epoch 0", "epoch 1", "epoch 2"]
    assert second[1] == undisturbed[1]


def test_a_loop_that_is_left_early_begins_the_next_epoch(tmp_path: Path) -> None:
    _, job = attached(tmp_path, 5)

    for _ in job.batches():
        break

    assert job.epoch == 1
    assert len(list(job.batches())) == 5
    job.close()


def test_a_training_without_a_loader_resumes_as_well(tmp_path: Path) -> None:
    first = training.attach(Walk(), folder=tmp_path)
    for _ in range(3):
        first.step()
    first.save()
    first.close()

    second = training.attach(Walk(), folder=tmp_path)
    second.close()

    assert second.steps == 3
    assert second.resumed_from == tmp_path / "step-000003"


def test_a_request_is_answered_once_and_the_training_goes_on(job_folder: Path) -> None:
    walk, job = attached(None, 9)
    batches = job.batches()
    walk.follow(next(batches))
    SaveRequest(id="d-1", do="save", deadline_s=time.time() + LONG_S).write(job_folder)

    job.step()
    job.step()
    job.close()

    answer = read_json(job_folder / ANSWER)
    assert (answer["id"], answer["result"], answer["step"]) == ("d-1", "saved", 1)
    assert answer["bytes"] > 0
    assert answer["seconds"] >= answer["blocked_s"] > 0
    assert faults_of(Path(answer["checkpoint"])) == []
    assert [each.name for each in CheckpointFolder(job_folder / CHECKPOINTS).listed()] == [
        "step-000001"
    ]


def test_of_two_requests_at_once_the_newer_is_answered(job_folder: Path) -> None:
    _, job = attached(None, 9)
    SaveRequest(id="d-1", do="save-and-stop").write(job_folder)
    SaveRequest(id="d-2", do="save").write(job_folder)

    job.step()
    job.close()

    assert read_json(job_folder / ANSWER)["id"] == "d-2"


def test_a_request_during_a_write_is_answered_after_it(job_folder: Path) -> None:
    _, job = attached(None, 9)
    for number in (1, 2):
        SaveRequest(id=f"d-{number}", do="save").write(job_folder)
        job.step()
    job.close()

    answer = read_json(job_folder / ANSWER)
    assert (answer["id"], answer["step"]) == ("d-2", 2)
    assert len(CheckpointFolder(job_folder / CHECKPOINTS).listed()) == 2


def test_a_request_that_is_withdrawn_is_not_carried_out(job_folder: Path) -> None:
    _, job = attached(None, 9)
    SaveRequest(id="d-1", do="save-and-stop").write(job_folder)
    job.step(may_save=False)
    (job_folder / "request.json").unlink()

    job.step()
    job.close()

    assert not (job_folder / ANSWER).exists()


def test_a_request_that_is_replaced_while_it_is_put_off_counts_no_more(job_folder: Path) -> None:
    _, job = attached(None, 9)
    SaveRequest(id="d-1", do="save-and-stop").write(job_folder)
    job.step(may_save=False)
    SaveRequest(id="d-2", do="save").write(job_folder)

    job.step()
    job.close()

    assert read_json(job_folder / ANSWER)["id"] == "d-2"


def test_a_late_request_is_refused_even_if_a_save_is_due_anyway(job_folder: Path) -> None:
    _, job = attached(None, 9, every_s=1e-9)
    SaveRequest(id="d-1", do="save-and-stop", deadline_s=time.time() - 5).write(job_folder)

    job.step()
    job.close()

    assert read_json(job_folder / ANSWER)["result"] == "failed"
    assert len(CheckpointFolder(job_folder / CHECKPOINTS).listed()) == 1


def test_a_loader_that_is_handed_in_and_not_used_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, job = attached(tmp_path, 9)

    for _ in range(3):
        job.step()
    job.close()

    assert caplog.text.count("job.batches() is not used") == 1


def test_a_stop_exits_with_0_and_leaves_no_done_marker(job_folder: Path) -> None:
    _, job = attached(None, 9)
    SaveRequest(id="d-1", do="save-and-stop").write(job_folder)

    with pytest.raises(SystemExit) as caught:
        job.step()
    job.close()

    assert caught.value.code == 0
    assert read_json(job_folder / ANSWER)["result"] == "saved"
    assert not (job_folder / DONE).exists()


def test_an_answered_request_is_not_carried_out_again_after_a_restart(job_folder: Path) -> None:
    _, job = attached(None, 9)
    SaveRequest(id="d-1", do="save-and-stop").write(job_folder)
    with pytest.raises(SystemExit):
        job.step()
    job.close()

    _, job = attached(None, 9)
    job.step()
    job.close()

    assert job.steps == 2


def test_a_request_past_its_deadline_is_refused_and_not_carried_out(job_folder: Path) -> None:
    _, job = attached(None, 9)
    SaveRequest(id="d-1", do="save-and-stop", deadline_s=time.time() - 5).write(job_folder)

    job.step()
    job.step()
    job.close()

    answer = read_json(job_folder / ANSWER)
    assert (answer["id"], answer["result"]) == ("d-1", "failed")
    assert "deadline" in answer["why"]
    assert CheckpointFolder(job_folder / CHECKPOINTS).listed() == []


def test_an_answer_that_cannot_be_written_does_not_end_the_training(
    job_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, job = attached(None, 9)
    (job_folder / ANSWER / "in the way").mkdir(parents=True)
    (job_folder / "request.json").write_text('{"id": "d-1", "do": "dance"}')

    job.step()
    job.step()
    job.close()

    assert job.steps == 2
    assert str(job_folder) in caplog.text


def test_a_request_that_makes_no_sense_is_answered_with_its_faults(job_folder: Path) -> None:
    _, job = attached(None, 9)
    (job_folder / "request.json").write_text('{"id": "d-1", "do": "dance"}')

    job.step()
    job.close()

    answer = read_json(job_folder / ANSWER)
    assert answer["result"] == "cannot"
    assert "'dance', not one of save, save-and-stop" in answer["why"]


@pytest.mark.parametrize("number", [signal.SIGUSR2, signal.SIGTERM])
def test_a_signal_saves_at_the_next_step_and_calls_the_previous_handler(
    tmp_path: Path, number: signal.Signals
) -> None:
    received: list[int] = []
    before = signal.signal(number, lambda got, _: received.append(got))
    try:
        _, job = attached(tmp_path, 9)
        os.kill(os.getpid(), number)
        during = CheckpointFolder(tmp_path).listed()
        job.step()
        job.step()
        job.close()
        handler_after = signal.getsignal(number)
    finally:
        signal.signal(number, before)

    assert received == [number]
    assert during == []
    assert [each.name for each in CheckpointFolder(tmp_path).listed()] == ["step-000001"]
    assert handler_after is not before


def test_with_stop_on_term_the_process_ends_by_the_signal(tmp_path: Path) -> None:
    script = (
        "import os, signal; from pathlib import Path; from random_walk import attached\n"
        "_, job = attached(Path('c'), 9, stop_on_term=True)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "job.step()\n"
        "print('not reached')"
    )
    path = f"{PROGRAM.parent}:{os.environ.get('PYTHONPATH', '')}"
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ended.returncode == -signal.SIGTERM, ended.stderr
    assert ended.stdout == ""
    assert faults_of(tmp_path / "c/step-000001") == []


def test_a_job_in_another_thread_has_no_signals_and_says_so(job_folder: Path) -> None:
    jobs: list[Any] = []
    thread = threading.Thread(target=lambda: jobs.append(attached(None, 9)[1]))
    thread.start()
    thread.join()

    jobs[0].close()

    assert read_json(job_folder / CAN_SAVE)["signals"] == []


def test_the_interval_saves_without_a_request(tmp_path: Path) -> None:
    _, job = attached(tmp_path, 9, every_s=1e-9)
    job.step()
    job.close()

    assert len(CheckpointFolder(tmp_path).listed()) == 1


def test_what_can_be_saved_and_its_cost_are_announced(job_folder: Path) -> None:
    _, job = attached(None, 9)
    before = read_json(job_folder / CAN_SAVE)
    job.step(loss=0.25, samples=4)
    job.save()
    job.close()

    after = read_json(job_folder / CAN_SAVE)
    assert (before["can"], before["seconds"], before["signals"]) == (True, None, ["USR2", "TERM"])
    assert after["seconds"] >= after["blocked_s"] > 0
    progress = read_json(job_folder / PROGRESS)
    assert (progress["step"], progress["epoch"], progress["loss"]) == (1, 0, 0.25)


class Unsavable(Walk):
    def state_dict(self) -> dict[str, Any]:
        return {"function": print}


def test_a_job_that_cannot_save_is_known_as_such_and_trains_on(job_folder: Path) -> None:
    job = training.attach(Unsavable())
    SaveRequest(id="d-1", do="save-and-stop").write(job_folder)

    job.step()
    job.close()

    known, answer = read_json(job_folder / CAN_SAVE), read_json(job_folder / ANSWER)
    assert not known["can"]
    assert "model/function is a builtins.builtin_function_or_method" in known["why"]
    assert answer["result"] == "cannot"
    assert "model/function" in answer["why"]


class Raising(Walk):
    def state_dict(self) -> dict[str, Any]:
        raise RuntimeError("not built yet")


def test_a_state_dict_that_raises_does_not_end_the_training(job_folder: Path) -> None:
    job = training.attach(Raising())
    SaveRequest(id="d-1", do="save-and-stop").write(job_folder)

    job.step()
    job.close()

    answer = read_json(job_folder / ANSWER)
    assert answer["result"] == "cannot"
    assert "model: state_dict() raised RuntimeError('not built yet')" in answer["why"]


@pytest.fixture
def plain_term() -> Iterator[None]:
    """Let TERM end a process, whatever an earlier test of this process installed."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("plain_term")
def test_children_of_the_training_still_end_by_term(tmp_path: Path) -> None:
    _, job = attached(tmp_path, 9)
    fork = multiprocessing.get_context("fork")
    started = fork.Event()
    worker = fork.Process(target=lambda: started.set() or time.sleep(LONG_S))
    worker.start()
    started.wait(LONG_S)

    worker.terminate()
    worker.join(LONG_S)
    job.step()
    job.close()

    assert worker.exitcode == -signal.SIGTERM
    assert CheckpointFolder(tmp_path).listed() == []


def test_a_forked_child_has_the_handlers_from_before_the_training(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    _, job = attached(tmp_path, 9)
    fork = multiprocessing.get_context("fork")
    unchanged = fork.Value("b", 0)

    def look() -> None:
        unchanged.value = signal.getsignal(signal.SIGTERM) == before

    worker = fork.Process(target=look)
    worker.start()
    worker.join(LONG_S)
    job.close()

    assert unchanged.value == 1


@pytest.mark.usefixtures("plain_term")
def test_a_forked_child_has_them_also_where_one_training_began_in_another(tmp_path: Path) -> None:
    jobs = [attached(tmp_path / str(number), 9)[1] for number in range(5)]
    fork = multiprocessing.get_context("fork")
    found = fork.Value("b", 0)

    def look() -> None:
        found.value = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    worker = fork.Process(target=look)
    worker.start()
    worker.join(LONG_S)
    for job in reversed(jobs):
        job.close()

    assert found.value == 1


def test_a_corrupt_checkpoint_is_fallen_back_from_and_reported(job_folder: Path) -> None:
    trained(None, until_step=5)
    trained(None, until_step=9)
    part = job_folder / CHECKPOINTS / "step-000009/rank-00000.json"
    part.write_bytes(part.read_bytes()[:-1])

    walk, job = attached(None, 7)
    assert job.steps == 5
    for batch in job.batches(epochs=3):
        walk.follow(batch)
        job.step()
    job.finish()

    assert "rank-00000.json" in read_json(job_folder / PROGRESS)["fell_back"][0]
    assert read_json(job_folder / DONE)["step"] == 21
    undisturbed = trained(job_folder / "another")
    assert walk.hash() == undisturbed


def test_a_checkpoint_of_other_objects_is_refused_with_both_lists(tmp_path: Path) -> None:
    trained(tmp_path, until_step=2)

    with pytest.raises(TrainingError) as caught:
        training.attach(Walk(), ema=Walk(), folder=tmp_path)

    assert "holds model; attach was given ema, model" in str(caught.value)


def test_a_checkpoint_of_another_world_size_is_refused(tmp_path: Path) -> None:
    trained(tmp_path, until_step=2)
    manifest = tmp_path / "step-000002/manifest.json"
    manifest.write_text(manifest.read_text().replace('"world_size": 1', '"world_size": 4'))

    with pytest.raises(TrainingError) as caught:
        attached(tmp_path, 3)

    assert "was written by 4 ranks; this training has 1" in str(caught.value)
    assert "start it with 4 ranks" in str(caught.value)
    assert (tmp_path / "step-000002").is_dir()


class Refusing(Walk):
    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise ValueError("size mismatch")


def test_a_state_that_does_not_fit_is_an_error_with_the_object(tmp_path: Path) -> None:
    trained(tmp_path, until_step=2)

    with pytest.raises(TrainingError, match="`model` does not accept its state: size mismatch"):
        training.attach(Refusing(), loader=RandomBatches(7), folder=tmp_path)


def test_wrong_arguments_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="`ema` is a int"):
        training.attach(Walk(), ema=3, folder=tmp_path)
    with pytest.raises(TrainingError, match="`job` is a name of ours"):
        training.attach(Walk(), job=Walk(), folder=tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match="cannot be made"):
        training.attach(Walk(), folder=tmp_path / "file" / "inside")


def test_ranks_without_a_process_group_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")

    with pytest.raises(TrainingError, match="WORLD_SIZE is 2"):
        training.attach(Walk(), folder=tmp_path)


# -- a second place for requests -------------------------------------------------------------------


def test_a_request_in_the_second_place_is_carried_out_and_answered_in_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv(REQUEST_VARIABLE, str(tmp_path / "place" / "request.json"))
    job = training.attach(Walk(), folder=tmp_path / "checkpoints")
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "request.json").touch()  # as a kubelet does before there is a request
    job.step()
    SaveRequest(id="r-1", do="save").write(tmp_path / "place")

    for _ in range(3):
        job.step()
    job.close()

    lines = [each for each in capfd.readouterr().err.splitlines() if each.startswith(ANSWER_LINE)]
    (answer,) = [json.loads(each.removeprefix(ANSWER_LINE)) for each in lines]
    assert (answer["id"], answer["result"], answer["step"]) == ("r-1", "saved", 2)
    assert Path(answer["checkpoint"]).is_dir()


def test_a_request_that_is_refused_is_answered_in_print_too(
    job_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(REQUEST_VARIABLE, str(tmp_path / "request.json"))
    job = training.attach(Walk())
    SaveRequest(id="late", do="save", deadline_s=1.0).write(tmp_path)

    job.step()
    job.close()

    assert '"id": "late", "result": "failed"' in capfd.readouterr().err
    assert read_json(job_folder / ANSWER)["id"] == "late"


def test_requests_are_looked_for_in_both_places_by_the_first_rank_alone(
    job_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REQUEST_VARIABLE, str(tmp_path / "request.json"))
    first, other = RequestFile(job_folder), RequestFile(job_folder, first=False)
    SaveRequest(id="own", do="save").write(job_folder)
    levels = [first.level(), other.level()]
    first.clear()
    SaveRequest(id="second", do="save").write(tmp_path)
    levels += [first.level(), other.level()]
    (tmp_path / "request.json").unlink()

    assert levels == [1, 0, 1, 0]
    assert first.level() == 0  # withdrawn


# -- as a program ----------------------------------------------------------------------------------


def start(folder: Path, *arguments: object, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAM), *(str(each) for each in arguments)]
    env = {**os.environ, FOLDER_VARIABLE: str(folder), **more.pop("env", {})}
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def result(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 0, err
    return out.strip()


def test_kill_9_while_writing_loses_no_complete_checkpoint(tmp_path: Path) -> None:
    size, moments = 200_000, random.Random(3)
    undisturbed = result(start(tmp_path / "undisturbed", 30, 2, size))
    folder = tmp_path / "job"
    checkpoints = CheckpointFolder(folder / CHECKPOINTS)
    newest = 0

    for _ in range(12):
        process = start(folder, 30, 2, size, 0.002, env={"EVERY_S": "0.000001"})
        _wait_for_one_more(checkpoints, newest, process)
        time.sleep(moments.uniform(0, 0.05))  # any moment is right
        process.kill()
        process.communicate()
        found = [each for each in checkpoints.listed() if not faults_of(each)]
        assert len(found) == len(checkpoints.listed()) > 0
        assert _newest(checkpoints) >= newest
        newest = _newest(checkpoints)

    assert result(start(folder, 30, 2, size)) == undisturbed
    assert (folder / DONE).exists()
    assert not list((folder / CHECKPOINTS).glob(".*"))


def _wait_for_one_more(
    folder: CheckpointFolder, newest: int, process: subprocess.Popen[str]
) -> None:
    until(lambda: _newest(folder) > newest or process.poll() is not None)


def _newest(folder: CheckpointFolder) -> int:
    return max((int(each.name[5:]) for each in folder.listed()), default=0)


def test_a_full_disk_keeps_the_old_checkpoint_and_the_training(tmp_path: Path) -> None:
    folder, size = tmp_path / "job", 100_000
    process = start(folder, 10**6, 1, size, 0.01)
    until((folder / CAN_SAVE).exists)
    SaveRequest(id="d-1", do="save-and-stop").write(folder)
    result(process)
    (old,) = CheckpointFolder(folder / CHECKPOINTS).listed()
    limit_bytes = 100_000  # of any file, as a quota; the arrays are 800,000

    process = start(
        folder, 10**6, 1, size, 0.01,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes,) * 2),
    )  # fmt: skip
    SaveRequest(id="d-2", do="save-and-stop").write(folder)
    until(lambda: read_json(folder / ANSWER)["id"] == "d-2")
    step = read_json(folder / PROGRESS)["step"]
    until(lambda: read_json(folder / PROGRESS)["step"] > step, why="the training to go on")
    process.kill()
    process.communicate()

    answer = read_json(folder / ANSWER)
    assert answer["result"] == "failed"
    assert "File too large" in answer["why"]
    assert list((folder / CHECKPOINTS).iterdir()) == [old]
    assert faults_of(old) == []


def test_an_exception_leaves_no_done_marker(tmp_path: Path) -> None:
    script = (
        "from random_walk import attached\n"
        "_, job = attached(None, 9)\n"
        "for _ in job.batches(): job.step()\n"
        "raise RuntimeError('evaluation failed')"
    )
    env = {
        **os.environ,
        FOLDER_VARIABLE: str(tmp_path),
        "PYTHONPATH": f"{PROGRAM.parent}:{os.environ.get('PYTHONPATH', '')}",
    }
    ended = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 1
    assert "evaluation failed" in ended.stderr
    assert not (tmp_path / DONE).exists()


def test_importing_it_imports_nothing_but_the_standard_library() -> None:
    script = (
        "import sys; from steward import training; import json\n"
        "names = {each.partition('.')[0] for each in sys.modules} - set(sys.stdlib_module_names)\n"
        "print(json.dumps(sorted(each for each in names if not each.startswith('_'))))\n"
        "print(json.dumps(sorted(each for each in sys.modules if each.startswith('steward'))))"
    )
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.splitlines()

    assert json.loads(out[0]) == ["steward"]
    assert all(each == "steward" or "training" in each for each in json.loads(out[1]))

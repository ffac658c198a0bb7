"""One comparison at a time, the newest few remembered, nothing left on the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from service.labs import RECORD, Send, at_once, begun, ended, scratch_of, until_stopped
from steward.clock import ManualClock
from steward.service.failures import RefusedError
from steward.service.lab import LabRuns, LabState
from steward.service.lab.messages import Finished, Message, Progress, Refused, Task
from steward.service.lab.runs import CarryOut

MakeRuns = Callable[..., LabRuns]


@pytest.fixture
def make_runs() -> Iterator[MakeRuns]:
    made: list[LabRuns] = []

    def make(carry_out: CarryOut = at_once, **rest: object) -> LabRuns:
        made.append(LabRuns(carry_out=carry_out, **rest))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


class Spoken:
    """Says what a test tells it to say, when it tells it."""

    def __init__(self) -> None:
        self.send: Send = lambda _message: None
        self.begun, self.over = threading.Event(), threading.Event()

    def __call__(self, task: Task, send: Send, stop: threading.Event) -> None:
        self.send = send
        self.begun.set()
        self.over.wait(60)


@pytest.fixture
def spoken() -> Iterator[Spoken]:
    made = Spoken()
    yield made
    made.over.set()


def test_a_comparison_that_is_done_has_its_record_and_its_files(make_runs: MakeRuns) -> None:
    runs = make_runs()

    run = ended(runs, begun(runs).id)

    assert (run.state, run.share, run.record, run.fault) == (LabState.DONE, 1.0, RECORD, None)
    assert runs.read(run.id, "report.html").startswith(b"<!doctype html>")
    assert runs.read(run.id, "results.json") == b"{}"


def test_the_uploaded_file_is_gone_when_the_comparison_is_over(make_runs: MakeRuns) -> None:
    runs = make_runs()

    run = ended(runs, begun(runs).id)

    left = sorted(file.name for file in (scratch_of(runs) / run.id).iterdir())
    assert left == ["report.html", "results.json"]


def test_while_one_runs_or_comes_in_no_other_may_begin(make_runs: MakeRuns) -> None:
    runs = make_runs(until_stopped)
    with runs.entering(), pytest.raises(RefusedError, match="being uploaded") as coming_in:
        begun(runs)
    run = begun(runs)

    with pytest.raises(RefusedError, match=f"{run.id} runs already") as running:
        begun(runs)

    assert coming_in.value.status == running.value.status == 409


def test_a_cancelled_one_is_stopped_and_makes_room_for_another(make_runs: MakeRuns) -> None:
    runs = make_runs(until_stopped)
    first = begun(runs)

    cancelled = runs.cancel(first.id)
    after = ended(runs, first.id)
    second = begun(runs)

    assert cancelled.state is after.state is LabState.CANCELLED
    assert [run.id for run in runs.list()] == [second.id, first.id]


def test_what_a_cancelled_one_says_later_is_not_heard(make_runs: MakeRuns, spoken: Spoken) -> None:
    runs = make_runs(spoken)
    run = begun(runs)
    assert spoken.begun.wait(60)

    runs.cancel(run.id)
    spoken.send(Finished(record={}))

    assert runs.look(run.id).state is LabState.CANCELLED


def test_cancelling_one_that_is_over_forgets_it(make_runs: MakeRuns) -> None:
    runs = make_runs()
    run = ended(runs, begun(runs).id)

    runs.cancel(run.id)

    assert runs.list() == ()
    assert list(scratch_of(runs).iterdir()) == []
    with pytest.raises(RefusedError, match="there is no comparison") as fault:
        runs.look(run.id)
    assert fault.value.status == 404


def test_only_the_newest_are_kept(make_runs: MakeRuns) -> None:
    runs = make_runs(most=3)

    ids = [ended(runs, begun(runs).id).id for _ in range(5)]

    assert [run.id for run in runs.list()] == ids[:1:-1]
    assert {folder.name for folder in scratch_of(runs).iterdir()} == set(ids[2:])


def test_what_came_in_and_never_began_leaves_nothing_behind(make_runs: MakeRuns) -> None:
    runs = make_runs()

    with runs.entering() as folder:
        (folder / "trace").write_text("half of it")

    assert list(scratch_of(runs).iterdir()) == []
    assert ended(runs, begun(runs).id).state is LabState.DONE


def test_a_report_is_only_there_when_it_is_done(make_runs: MakeRuns) -> None:
    runs = make_runs(until_stopped)
    run = begun(runs)

    with pytest.raises(RefusedError, match="this comparison is running") as fault:
        runs.read(run.id, "report.html")

    assert fault.value.status == 409


def test_time_left_follows_from_the_replays_alone(make_runs: MakeRuns, spoken: Spoken) -> None:
    clock = ManualClock(100.0)
    runs = make_runs(spoken, now_s=clock.now_s)
    run = begun(runs)
    assert spoken.begun.wait(60)

    def after(seconds: float, message: Message) -> tuple[str, float, float | None]:
        clock.set(clock.now_s() + seconds)
        spoken.send(message)
        now = runs.look(run.id)
        return now.doing, now.share, now.left_s

    reading = after(50, Progress(doing="reading"))
    first = after(5, Progress(doing="fifo", share=0.0))
    second = after(10, Progress(doing="fifo", share=0.25))

    assert reading == ("reading", 0.0, None)
    assert first == ("fifo", 0.0, None)
    assert second == ("fifo", 0.25, pytest.approx(30.0))
    assert runs.look(run.id).took_s == 65


@pytest.mark.parametrize(
    ("carry_out", "problem"),
    [
        (lambda _task, send, _stop: send(Refused(problem="no jobs", hint="x")), "no jobs"),
        (lambda _task, _tell, _stop: None, "ended without a result"),
        (lambda _task, _tell, _stop: 1 / 0, "ZeroDivisionError in the lab"),
    ],
)
def test_one_that_cannot_be_done_says_so(
    make_runs: MakeRuns, carry_out: CarryOut, problem: str
) -> None:
    runs = make_runs(carry_out)

    run = ended(runs, begun(runs).id)

    assert run.state is LabState.FAILED
    assert run.fault is not None
    assert run.fault.problem == problem
    assert run.fault.hint


def test_closing_stops_what_runs_and_removes_everything(make_runs: MakeRuns) -> None:
    runs = make_runs(until_stopped)
    begun(runs)
    folder = scratch_of(runs)

    runs.close()

    assert not folder.exists()
    assert runs.list() == ()

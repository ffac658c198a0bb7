"""Marks of training scripts become samples and spans of their job."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from patience import until
from steward.errors import StewardError
from steward.model.event import Observation
from steward.model.identity import JobId
from steward.observe.collectors.marks import Marks
from steward.observe.process_owners import ProcessOwners

SRC = Path(__file__).parents[3] / "src"


class FixedOwners(ProcessOwners):
    """Owners with a fixed answer."""

    def __init__(self, job: str | None) -> None:
        self.job = JobId(job) if job else None

    def scheduled(self, pid: int) -> JobId | None:
        return self.job

    def of(self, pid: int) -> JobId | None:
        return self.job or JobId("tree")


class MarksClient:
    """A collector and its observations."""

    def __init__(self, place: Path, job: str | None = "812") -> None:
        self.marks = Marks(node="n1", place=str(place), owners=FixedOwners(job))
        self.t_s = time.time()
        self.marks.collect(self.t_s)
        self.post = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.post.connect(str(place))

    def send(self, **body: Any) -> None:
        self.send_bytes(json.dumps({"pid": 1, "t_s": self.t_s, **body}).encode())

    def send_bytes(self, body: bytes) -> None:
        self.post.send(body)

    def collect_until(self, enough: Callable[[Observation], Any]) -> Observation:
        def received() -> Observation | None:
            seen = self.marks.collect(self.t_s)
            return seen if enough(seen) else None

        seen = until(received)
        assert seen is not None
        return seen

    def samples(self) -> dict[str, Any]:
        (row,) = self.collect_until(lambda seen: seen.frame.height).frame.to_dicts()
        return row


@pytest.fixture
def client(tmp_path: Path) -> Iterator[MarksClient]:
    listening = MarksClient(tmp_path / "marks.sock")
    yield listening
    listening.post.close()
    listening.marks.close()


def sums(steps: int, wait_s: float, work_s: float, longest_s: float = 0.0) -> dict[str, float]:
    return {"steps": steps, "wait_s": wait_s, "work_s": work_s, "longest_s": longest_s}


def test_steps_between_two_looks_become_rates_of_the_job_on_this_node(client: MarksClient) -> None:
    client.send(**sums(100, 5.0, 5.0))
    client.samples()
    client.t_s += 10.0
    client.send(**sums(120, 7.0, 13.0, 0.9))

    row = client.samples()

    assert row == {
        "t_s": client.t_s,
        "entity": "n1@812",
        "job.step_count": 120.0,
        "job.steps_per_s": 2.0,
        "job.step.mean_seconds": pytest.approx(0.5),
        "job.step.longest_seconds": 0.9,
        "job.step.wait_share": pytest.approx(0.2),
        "job.rank_count": 1.0,
    }


def test_a_script_that_counts_anew_is_no_step_backwards(client: MarksClient) -> None:
    client.send(**sums(100, 5.0, 5.0))
    client.samples()
    client.t_s += 1.0
    client.send(**sums(4, 1.0, 1.0))

    assert client.samples()["job.step.mean_seconds"] == pytest.approx(0.5)


def test_numbers_that_scripts_report_are_kept_under_their_own_names(client: MarksClient) -> None:
    client.send(**sums(1, 0.0, 1.0), values={"loss": 0.25, "note": "x"})

    seen = client.collect_until(lambda seen: seen.other.height)

    assert seen.other.rows() == [(client.t_s, "n1@812", "mark.loss", 0.25)]


def test_a_phase_is_a_span_that_is_open_until_it_ends(client: MarksClient) -> None:
    client.send(phase="checkpoint", from_s=10.0)
    begun = client.collect_until(lambda seen: seen.spans).spans
    client.send(phase="checkpoint", from_s=10.0, to_s=14.0)
    ended = client.collect_until(lambda seen: seen.spans).spans

    assert [(span.entity, span.kind, span.name) for span in begun] == [
        ("n1@812", "phase", "checkpoint")
    ]
    assert (begun[0].to_s, ended[0].to_s, begun[0].id == ended[0].id) == (None, 14.0, True)


def test_a_phase_whose_process_exited_ends(tmp_path: Path) -> None:
    place = tmp_path / "marks.sock"
    client = MarksClient(place)
    script = "from steward.marks import phase\nwith phase('eval'): import os; os._exit(1)"
    env = {**os.environ, "PYTHONPATH": str(SRC), "STEWARD_MARKS": str(place)}
    subprocess.run([sys.executable, "-c", script], env=env, check=False)
    client.t_s = time.time()

    spans = client.collect_until(lambda seen: any(span.to_s for span in seen.spans)).spans

    assert spans[-1].about["end"] == "its process ended"
    client.post.close()
    client.marks.close()


def test_phases_of_other_ranks_are_the_same_and_are_not_reported(tmp_path: Path) -> None:
    client = MarksClient(tmp_path / "marks.sock")
    client.send(phase="eval", from_s=1.0, local_rank="1")
    client.send(**sums(1, 0.0, 1.0), local_rank="1")

    seen = client.collect_until(lambda seen: seen.frame.height)

    assert seen.spans == ()
    client.post.close()
    client.marks.close()


@pytest.mark.parametrize(
    ("group", "message", "job"),
    [("812", "999", "812"), (None, "999", "999"), (None, "", "tree")],
    ids=["the control group comes first", "then what the script sends", "then its tree"],
)
def test_whose_it_is(tmp_path: Path, group: str | None, message: str, job: str) -> None:
    client = MarksClient(tmp_path / "marks.sock", job=group)
    client.send(**sums(1, 0.0, 1.0), job=message)

    assert client.samples()["entity"] == f"n1@{job}"
    client.post.close()
    client.marks.close()


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\x00",
        b"[]",
        b"{}",
        b'{"t_s": "x"}',
        b'{"t_s": NaN, "steps": 1}',
        b'{"t_s": 1, "steps": "many", "wait_s": 1, "work_s": 1}',
        b'{"t_s": 1, "steps": 1e999, "wait_s": 1, "work_s": 1}',
        b'{"t_s": 1, "phase": 7}',
        b"x" * 9000,
        b"[" * 4000,
    ],
)
def test_hostile_messages_are_counted_and_reported(client: MarksClient, body: bytes) -> None:
    client.send_bytes(body)

    (event,) = client.collect_until(lambda seen: seen.events).events

    assert event.kind == "marks.dropped"
    assert client.marks.collect(client.t_s).events == ()


def test_a_second_listener_is_reported_that_the_place_is_taken(client: MarksClient) -> None:
    second = Marks(place=str(client.marks._socket.place))

    assert second.available().status == "missing"
    with pytest.raises(StewardError, match="another steward listens"):
        second.collect(1.0)


def test_a_place_that_this_user_may_not_use_is_missing_and_one_to_be_made_is_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")

    refused = Marks(place=str(tmp_path / "file" / "marks.sock")).available()
    to_be_made = Marks(place=str(tmp_path / "a" / "b" / "marks.sock")).available()

    assert (refused.status, to_be_made.status) == ("missing", "ok")
    assert "may not listen" in refused.reason


def test_a_socket_that_was_left_behind_is_taken_over(tmp_path: Path) -> None:
    place = tmp_path / "marks.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as killed:
        killed.bind(str(place))
    client = MarksClient(place)

    client.send(**sums(1, 0.0, 1.0))

    assert client.samples()["job.step_count"] == 1.0
    client.post.close()
    client.marks.close()


def test_a_place_that_cannot_be_listened_on_this_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StewardError, match="cannot listen") as caught:
        Marks(place=str(tmp_path / "file" / "marks.sock")).collect(1.0)

    assert "plugs.marks.place" in caught.value.hint


def test_a_real_script_is_received_end_to_end(tmp_path: Path) -> None:
    place = tmp_path / "marks.sock"
    client = MarksClient(place, job=None)
    script = (
        "import time\nfrom steward.marks import steps\n"
        "def load():\n for i in range(10):\n  time.sleep(0.03); yield i\n"
        "began_s = time.monotonic()\n"
        "for batch in steps(load()): time.sleep(0.01)\n"
        "print(time.monotonic() - began_s, flush=True)\ntime.sleep(600)"
    )
    env = {**os.environ, "PYTHONPATH": str(SRC), "STEWARD_MARKS": str(place)}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as running:
        client.collect_until(
            lambda seen: seen.frame.height and seen.frame["job.step_count"][0] == 10.0
        )
        rank = client.marks._ranks[running.pid]
        assert running.stdout is not None
        took_s = float(running.stdout.readline())
        running.kill()

    assert rank.wait_s >= 0.3
    assert rank.work_s >= 0.1
    assert rank.wait_s + rank.work_s <= took_s
    client.post.close()
    client.marks.close()

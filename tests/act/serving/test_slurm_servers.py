"""Model servers as Slurm jobs: submitted once, announced by a file, cancelled when drained."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from beds.slurm_double import SlurmDouble
from beds.tiny_model_server import _Handler
from steward.act.serving.fleet import Order
from steward.act.serving.slurm_servers import SlurmServers
from steward.errors import TemporaryError

ORDER = Order(decision="d-11", instance="chat-1", type="chat", model="m", gpus=2, count=1)


@contextmanager
def serving() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Bed:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "serve.sh"
        self.script.write_text("#!/bin/sh\n")
        self.slurm = SlurmDouble()

    def fleet(self) -> SlurmServers:
        """Return a fleet as a steward that was just started has it."""
        return SlurmServers(
            str(self.script),
            slurm=self.slurm,
            folder=self.folder / "instances",
            options=("--account=serving", "--gpus=2"),
        )

    def announce(self, url: str, decision: str = "d-11") -> None:
        (self.folder / "instances" / f"{decision}.endpoint").write_text(url + "\n")


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def test_a_start_submits_a_job_with_its_name_its_token_and_where_to_announce_itself(
    bed: Bed,
) -> None:
    state = bed.fleet().start(ORDER, 0.0)

    command = " ".join(bed.slurm.submitted[0])
    assert state.state == "coming"
    assert "--job-name=chat-1.d-11" in command
    assert "--account=serving --gpus=2" in command
    assert f"STEWARD_ENDPOINT_FILE={bed.folder}/instances/d-11.endpoint" in command
    assert "STEWARD_INSTANCE=chat-1" in command


def test_repeating_a_start_submits_nothing_more_after_a_restart_either(bed: Bed) -> None:
    for _ in range(3):
        bed.fleet().start(ORDER, 0.0)

    assert len(bed.slurm.submitted) == 1


def test_a_steward_that_ended_before_it_noted_the_job_finds_it_by_its_token(bed: Bed) -> None:
    bed.slurm.lose_next = True
    with pytest.raises(TemporaryError):
        bed.fleet().start(ORDER, 0.0)

    state = bed.fleet().start(ORDER, 0.0)

    assert state.state == "coming"
    assert len(bed.slurm.submitted) == 1


def test_a_job_is_ready_when_it_runs_has_announced_itself_and_answers(bed: Bed) -> None:
    fleet = bed.fleet()
    waits = fleet.start(ORDER, 0.0)
    bed.slurm.run("100")
    silent = fleet.start(ORDER, 0.0)
    bed.announce("not an address")
    odd = fleet.start(ORDER, 0.0)
    with serving() as url:
        bed.announce(url)
        ready = fleet.start(ORDER, 0.0)
    gone = fleet.start(ORDER, 0.0)

    assert "waits: Resources" in waits.text
    assert "names no address" in silent.text == odd.text
    assert (ready.state, ready.url) == ("ready", url)
    assert "does not answer" in gone.text


@pytest.mark.parametrize("state", ["FAILED", "TIMEOUT", ""])
def test_a_job_that_ended_has_failed(bed: Bed, state: str) -> None:
    bed.fleet().start(ORDER, 0.0)
    bed.slurm.end("100", state)

    failed = bed.fleet().start(ORDER, 0.0)

    assert failed.state == "failed"
    assert (state.lower() or "not known") in failed.text


def test_a_stop_cancels_the_job_once_and_waits_until_it_has_ended(bed: Bed) -> None:
    bed.fleet().start(ORDER, 0.0)
    bed.slurm.run("100")
    order = replace(ORDER, decision="d-22")

    states = [bed.fleet().stop(order, 0.0).state for _ in range(2)]
    bed.slurm.end("100", "CANCELLED")
    gone = bed.fleet().stop(order, 0.0)

    assert states == ["leaving", "leaving"]
    assert bed.slurm.cancelled == ["100"]
    assert gone.state == "gone"
    assert bed.fleet().stop(order, 0.0).state == "gone"


def test_a_stop_finds_a_job_that_was_submitted_and_never_noted(bed: Bed) -> None:
    bed.slurm.lose_next = True
    with pytest.raises(TemporaryError):
        bed.fleet().start(ORDER, 0.0)

    bed.fleet().stop(replace(ORDER, decision="d-22"), 0.0)

    assert bed.slurm.cancelled == ["100"]
    assert len(bed.slurm.submitted) == 1


def test_what_was_never_started_is_gone(bed: Bed) -> None:
    bed.fleet().start(ORDER, 0.0)

    assert bed.fleet().stop(replace(ORDER, instance="chat-9"), 0.0).state == "gone"
    assert bed.fleet().stop(replace(ORDER, type="code"), 0.0).state == "gone"
    assert bed.slurm.cancelled == []


def test_the_same_name_for_another_decision_is_another_job(bed: Bed) -> None:
    bed.fleet().start(ORDER, 0.0)
    bed.slurm.end("100", "FAILED")

    bed.fleet().start(replace(ORDER, decision="d-55"), 0.0)

    assert len(bed.slurm.submitted) == 2


def test_doctor_hears_of_a_missing_script_and_a_missing_slurm(bed: Bed) -> None:
    good = bed.fleet().available()
    bed.slurm.broken = "sinfo: not found"
    without = bed.fleet().available()
    bed.script.unlink()

    assert "slurm 22.05.8" in good.reason
    assert without.status == "missing"
    assert "no script" in bed.fleet().available().reason

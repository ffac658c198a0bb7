"""Model servers as processes of this machine: started once, found again, ended for good."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from patience import until
from steward.act.serving.fleet import FleetState, Order
from steward.act.serving.processes import Processes
from steward.clients.server_process import ServerProcess, find_marked, launch
from steward.errors import PermanentError, StewardError, TemporaryError

SERVER = Path(__file__).parents[2] / "beds" / "tiny_model_server.py"
COMMAND = f"{sys.executable} -S {SERVER} --port {{port}} --name {{name}}"
ORDER = Order(decision="d-1", instance="chat-1", type="chat", model="m", gpus=1, count=1)


class Bed:
    """A folder of instances; whatever still runs at the end is killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fleet(self, command: str = COMMAND, **options: object) -> Processes:
        """Return a fleet as a steward that was just started has it."""
        return Processes(command, folder=self.folder, **options)  # type: ignore[arg-type]

    def ready(self, fleet: Processes, order: Order = ORDER) -> FleetState:
        def answer() -> FleetState | None:
            state = fleet.start(order, 0.0)
            assert state.state != "failed", state.text
            return state if state.state == "ready" else None

        found = until(answer, why="the server")
        assert found is not None
        return found

    def gone(self, fleet: Processes, order: Order = ORDER, t_s: float = 0.0) -> None:
        until(lambda: fleet.stop(order, t_s).state == "gone", why="the end of the server")

    def processes(self) -> list[ServerProcess]:
        records = [json.loads(each.read_bytes()) for each in self.folder.glob("*.json")]
        return [
            ServerProcess(boot=each["boot"], pid=each["pid"], ticks=each["ticks"])
            for each in records
            if "pid" in each
        ]

    def pids(self) -> list[int]:
        return [pid for each in self.processes() for pid in each.members()]

    def edit(self, **values: object) -> None:
        """Change the record of the instance; None removes a field."""
        file = self.folder / "chat-1.json"
        record = json.loads(file.read_bytes()) | values
        file.write_text(json.dumps({k: v for k, v in record.items() if v is not None}))


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    made = Bed(tmp_path / "instances")
    yield made
    for each in made.processes():
        each.send(signal.SIGKILL)
        until(lambda each=each: not each.members(), why="the end of it")  # type: ignore[misc]


def test_a_server_is_started_on_a_free_port_and_is_ready_when_it_answers(bed: Bed) -> None:
    fleet = bed.fleet()

    ready = bed.ready(fleet)

    assert ready.url.startswith("http://127.0.0.1:")
    assert len(bed.pids()) == 1


def test_the_same_order_again_starts_nothing_more_after_a_restart_either(bed: Bed) -> None:
    first = bed.ready(bed.fleet())
    pids = bed.pids()

    again = bed.fleet().start(ORDER, 99.0)
    later = bed.fleet().start(replace(ORDER, decision="d-2"), 99.0)

    assert first == again == later
    assert bed.pids() == pids


def test_a_steward_that_ended_before_it_noted_the_process_finds_it_by_its_mark(bed: Bed) -> None:
    bed.ready(bed.fleet())
    pids = bed.pids()
    bed.edit(pid=None, ticks=None, boot=None)

    again = bed.fleet().start(ORDER, 0.0)

    assert again.state == "ready"
    assert bed.pids() == pids


def test_a_steward_that_ended_before_it_started_the_process_starts_it(bed: Bed) -> None:
    bed.folder.mkdir(parents=True)
    record = {"name": "chat-1", "decision": "d-1", "type": "chat", "port": 1, "state": "starting"}
    (bed.folder / "chat-1.json").write_text(json.dumps(record))

    bed.ready(bed.fleet())

    assert len(bed.pids()) == 1


def test_a_stop_ends_the_server_and_all_it_started(bed: Bed) -> None:
    fleet = bed.fleet(COMMAND + " --children 2")
    bed.ready(fleet)
    pids = until(lambda: found if len(found := bed.pids()) == 3 else None, why="children")
    assert pids is not None

    leaving = fleet.stop(ORDER, 0.0)
    bed.gone(fleet)

    assert leaving.state == "leaving"
    assert list(bed.folder.glob("*.json")) == []
    assert all(not Path(f"/proc/{pid}").exists() or _is_zombie(pid) for pid in pids)


def test_a_server_that_ignores_term_is_killed_after_its_time(bed: Bed) -> None:
    fleet = bed.fleet(COMMAND + " --stubborn", stop_within_s=30.0)
    bed.ready(fleet)

    fleet.stop(ORDER, 0.0)
    still = fleet.stop(ORDER, 29.0)
    bed.gone(fleet, t_s=31.0)

    assert still.state == "leaving"


def test_a_pid_that_another_process_has_got_is_neither_ours_nor_stopped(bed: Bed) -> None:
    fleet = bed.fleet()
    bed.ready(fleet)
    process = bed.processes()[0]
    bed.edit(ticks=process.ticks - 1)

    gone = fleet.stop(ORDER, 0.0)

    assert gone.state == "gone"
    assert process.runs
    process.send(signal.SIGKILL)
    until(lambda: not process.members(), why="its end")


def test_processes_of_an_earlier_boot_are_gone(bed: Bed) -> None:
    bed.ready(bed.fleet())
    process = bed.processes()[0]
    bed.edit(boot="another")

    assert bed.fleet().stop(ORDER, 0.0).state == "gone"
    process.send(signal.SIGKILL)
    until(lambda: not process.members(), why="its end")


def test_a_server_that_ends_by_itself_has_failed_with_the_end_of_its_log(bed: Bed) -> None:
    fleet = bed.fleet(f"{sys.executable} -c 'raise SystemExit(\"no {{port}} for me\")'")

    failed = until(
        lambda: state if (state := fleet.start(ORDER, 0.0)).state == "failed" else None, why="it"
    )

    assert failed is not None
    assert "for me" in failed.text
    assert fleet.stop(ORDER, 0.0).state == "gone"


def test_an_instance_that_is_ending_is_not_started_under_the_same_name(bed: Bed) -> None:
    fleet = bed.fleet(COMMAND + " --stubborn")
    bed.ready(fleet)
    fleet.stop(ORDER, 0.0)

    assert "still ending" in fleet.start(replace(ORDER, decision="d-2"), 1.0).text


def test_an_order_to_stop_another_type_does_not_stop_this_one(bed: Bed) -> None:
    bed.ready(bed.fleet())

    assert bed.fleet().stop(replace(ORDER, type="code"), 0.0).state == "gone"
    assert len(bed.pids()) == 1


def test_gpus_are_shared_out_and_those_of_a_drained_instance_are_free_again(bed: Bed) -> None:
    fleet = bed.fleet(devices=("0", "1"))
    other = replace(ORDER, instance="chat-2", decision="d-2")
    third = replace(ORDER, instance="chat-3", decision="d-3")
    bed.ready(fleet)
    bed.ready(fleet, other)

    with pytest.raises(TemporaryError, match="0 of 2 are free"):
        fleet.start(third, 0.0)
    bed.gone(fleet)
    bed.ready(fleet, third)

    assert json.loads((bed.folder / "chat-2.json").read_bytes())["gpus"] == ["1"]
    assert json.loads((bed.folder / "chat-3.json").read_bytes())["gpus"] == ["0"]


def test_a_command_that_is_not_there_is_refused_for_good(bed: Bed) -> None:
    with pytest.raises(PermanentError, match="cannot be started"):
        bed.fleet("/no/such/program --port {port}").start(ORDER, 0.0)

    assert list(bed.folder.glob("*.json")) == []


@pytest.mark.parametrize(
    ("command", "why"),
    [("", "no program nothing"), ("/no/such {port}", "no program"), (sys.executable, "no port")],
)
def test_doctor_hears_what_is_wrong_with_a_command(bed: Bed, command: str, why: str) -> None:
    state = bed.fleet(command).available()

    assert state.status == "missing"
    assert why in state.reason
    assert state.hint


def test_doctor_hears_of_a_good_command(bed: Bed) -> None:
    assert bed.fleet().available().status == "ok"


def test_a_record_that_cannot_be_read_is_left_to_a_person(bed: Bed) -> None:
    bed.folder.mkdir(parents=True)
    (bed.folder / "chat-1.json").write_text("{")

    with pytest.raises(PermanentError, match="cannot be read") as fault:
        bed.fleet().start(ORDER, 0.0)

    (bed.folder / "chat-1.json").unlink()
    assert "remove the file" in fault.value.hint


def test_names_that_would_leave_the_folder_are_refused(bed: Bed) -> None:
    with pytest.raises(StewardError, match="no name of an instance"):
        bed.fleet().start(replace(ORDER, instance="../x"), 0.0)


def test_a_mark_that_nobody_has_is_found_nowhere_and_an_ended_pid_is_nobody(tmp_path: Path) -> None:
    process = launch(
        [sys.executable, "-c", ""], mark="m", log=tmp_path / "log", environment=dict(os.environ)
    )
    until(lambda: not process.runs, why="its end")

    assert find_marked("nobody:has:this") is None
    assert process.members() == []
    assert ServerProcess.of(process.pid) != process


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True

"""The four sources of lines, as a site has them."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from patience import LONG_S
from steward.clients.logs.journald import JournalctlFollower
from steward.clients.logs.kernel_log import KernelBuffer, KernelDevice
from steward.errors import StewardError
from steward.model.event import Observation
from steward.observe.collectors.logs.container_logs import ContainerLogs
from steward.observe.collectors.logs.journald import Journald
from steward.observe.collectors.logs.kernel_log import KernelLog
from steward.observe.collectors.logs.log_files import LogFiles

T_S = 1_794_752_357.0
UID = "eded8c65-6e8e-4c6e-a889-3e427565c740"


def texts(seen: Observation) -> list[str]:
    return [line.text for line in seen.lines]


def kinds(seen: Observation) -> list[str]:
    return [event.kind for event in seen.events]


# -- files -----------------------------------------------------------------------------------------


def test_files_bring_new_lines_with_their_path(tmp_path: Path) -> None:
    log = tmp_path / "slurmd.log"
    log.write_text("old\n")
    files = LogFiles(paths=(str(tmp_path / "*.log"),), node="n1")
    files.collect(T_S)
    with log.open("a") as out:
        out.write("[2026-11-15T10:00:00.123] launch task StepId=812.0\n")

    (line,) = files.collect(T_S + 10.0).lines

    assert (line.entity, line.source) == ("n1", str(log))
    assert line.text.endswith("StepId=812.0")
    assert line.t_s != T_S + 10.0  # its own


def test_a_look_brings_no_more_lines_than_memory_should_hold(tmp_path: Path) -> None:
    texts = ["".join(chr(103 + (i // 20**k) % 20) for k in range(4)) for i in range(60_000)]
    (tmp_path / "a.log").write_text("".join(f"{text} {'x' * 100}\n" for text in texts))
    files = LogFiles(paths=(str(tmp_path / "*.log"),), from_start=True, node="n1")

    looks = [len(files.collect(T_S + i).lines) for i in range(6)]

    assert sum(looks) == 60_000
    assert max(looks) < 40_000  # at most, and what was in the last window


def test_a_restart_of_the_collector_loses_nothing(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("old\n")
    files = LogFiles(paths=(str(log),), node="n1")
    files.collect(T_S)
    kept = json.dumps(files.positions())
    with log.open("a") as out:
        out.write("while we were away\n")
    again = LogFiles(paths=(str(log),), node="n1")
    again.resume(json.loads(kept))

    assert texts(again.collect(T_S)) == ["while we were away"]


def test_what_could_not_be_read_is_an_event(tmp_path: Path) -> None:
    (tmp_path / "packed.log").write_bytes(b"\x1f\x8b\x08\x00 junk\n")
    files = LogFiles(paths=(str(tmp_path / "*.log"),), from_start=True, node="n1")

    seen = files.collect(T_S)

    assert kinds(seen) == ["log.compressed"]
    assert "packed.log" in seen.events[0].text


def test_files_report_what_is_there(tmp_path: Path) -> None:
    missing = LogFiles(paths=(str(tmp_path / "*.log"),)).available()
    (tmp_path / "a.log").touch()
    there = LogFiles(paths=(str(tmp_path / "*.log"),)).available()

    assert (missing.status, there.status) == ("missing", "ok")
    assert "plugs.log-files.paths" in missing.hint


def test_a_path_that_is_not_whole_is_refused_with_a_message() -> None:
    with pytest.raises(StewardError, match="not a whole path"):
        LogFiles(paths=("logs/*.log",))


# -- containers ------------------------------------------------------------------------------------


def test_a_pods_lines_are_the_pods(tmp_path: Path) -> None:
    file = tmp_path / f"ml_trainer-0_{UID}" / "pytorch" / "0.log"
    file.parent.mkdir(parents=True)
    file.write_text("2026-10-06T00:17:09.669794202Z stderr F CUDA error\nnonsense\n")
    logs = ContainerLogs(paths=(f"{tmp_path}/*/*/*.log",), from_start=True, node="n1")

    seen = logs.collect(T_S)

    (line,) = seen.lines
    assert (line.entity, line.source) == (f"job:pod:{UID}", "ml/trainer-0/pytorch")
    assert (line.text, line.level) == ("CUDA error", 3)
    assert kinds(seen) == ["log.unreadable"]
    assert kinds(logs.collect(T_S + 1.0)) == []


def test_containers_report_where_they_looked(tmp_path: Path) -> None:
    missing = ContainerLogs(paths=(f"{tmp_path}/pods/*/*.log",)).available()
    there = ContainerLogs(paths=(f"{tmp_path}/*/*.log",)).available()

    assert (missing.status, there.status) == ("missing", "ok")


# -- the kernel ------------------------------------------------------------------------------------


class Device(KernelDevice):
    def __init__(self, *records: bytes) -> None:
        super().__init__()
        self.records = list(records)

    def open(self, *, at_end: bool) -> None:
        pass

    def read(self) -> bytes:
        if not self.records:
            raise BlockingIOError
        return self.records.pop(0)


def test_a_kernel_message_is_a_line_and_an_event() -> None:
    now_s = time.time()
    raw = b"3,10,1,-;NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus.\n"
    log = KernelLog(buffer=KernelBuffer(Device(raw)), node="n1")

    seen = log.collect(now_s)

    assert (seen.lines[0].source, seen.lines[0].level) == ("kernel", 3)
    assert kinds(seen) == ["gpu.xid"]
    assert seen.events[0].source == "kernel-log"


def test_lost_and_odd_kernel_messages_are_reported_once() -> None:
    device = Device(b"6,1,1,-;a\n", b"6,5,1,-;b\n", b"odd")
    log = KernelLog(buffer=KernelBuffer(device), node="n1")

    seen = log.collect(T_S)

    assert kinds(seen) == ["log.lost", "log.unreadable"]
    assert seen.events[0].text.startswith("3 kernel messages")
    assert kinds(log.collect(T_S + 1.0)) == []


def test_a_kernel_buffer_that_may_not_be_read_is_reported_once(tmp_path: Path) -> None:
    log = KernelLog(buffer=KernelBuffer(KernelDevice(tmp_path / "kmsg")), node="n1")

    assert log.available().status == "missing"
    assert [kinds(log.collect(T_S)), kinds(log.collect(T_S))] == [["collector.missing"], []]


def test_a_kernel_buffer_that_only_seems_to_be_readable_is_missing(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as closed:  # its mode allows what opening it then refuses
        closed.bind(str(tmp_path / "kmsg"))
        log = KernelLog(buffer=KernelBuffer(KernelDevice(tmp_path / "kmsg")), node="n1")

        message = log.available()

    assert message.status == "missing"
    assert "no such device or address" in message.reason


# -- the journal -----------------------------------------------------------------------------------


def journal(folder: Path, *entries: dict[str, str]) -> JournalctlFollower:
    """Return a journal whose journalctl prints these entries, from a cursor that was kept."""
    result = folder / "entries"
    result.write_text(
        "".join(
            json.dumps({"__CURSOR": f"c{i}", "__REALTIME_TIMESTAMP": "1794751710126850", **each})
            + "\n"
            for i, each in enumerate(entries)
        )
    )
    program = folder / "journalctl"
    program.write_text(f"#!/bin/sh\ncat {result}\nexec sleep 60\n")
    program.chmod(0o755)
    made = JournalctlFollower(program=str(program), arguments=("--quiet",))
    made.resume({"cursor": "before"})
    return made


def collected(collector: Journald, *, lines: int) -> Observation:
    """Look until that many lines came, or ten seconds are over."""
    seen: list[Observation] = []
    end_s = time.monotonic() + LONG_S
    while sum(len(each.lines) for each in seen) < lines and time.monotonic() < end_s:
        seen.append(collector.collect(T_S))
        time.sleep(0.01)
    return Observation(
        lines=tuple(line for each in seen for line in each.lines),
        events=tuple(event for each in seen for event in each.events),
    )


KERNEL_ENTRY = {"MESSAGE": "nfs: server n9 not responding, still trying", "_TRANSPORT": "kernel"}
JOB_ENTRY = {
    "MESSAGE": "two\nlines",
    "_SYSTEMD_UNIT": "slurmstepd.scope",
    "_SYSTEMD_CGROUP": "/system.slice/slurmstepd.scope/job_812/step_0",
    "PRIORITY": "4",
}


def test_a_jobs_entry_is_the_jobs_line_by_line(tmp_path: Path) -> None:
    collector = Journald(journal=journal(tmp_path, KERNEL_ENTRY, JOB_ENTRY), node="n1")

    seen = collected(collector, lines=2)

    assert texts(seen) == ["two", "lines"]  # the kernel's are left to kernel-log
    assert {(line.entity, line.source, line.level) for line in seen.lines} == {
        ("job:812", "slurmstepd.scope", 4)
    }
    assert collector.positions() == {"cursor": "c1"}


def test_the_kernels_entries_are_events_where_they_are_requested(tmp_path: Path) -> None:
    made = journal(tmp_path, KERNEL_ENTRY, {"PRIORITY": "6"})
    collector = Journald(journal=made, kernel_lines=True, node="n1")

    seen = collected(collector, lines=1)

    assert kinds(seen)[0] == "files.silent"
    assert seen.lines[0].source == "kernel"


def test_journalctl_ends_with_the_collector(tmp_path: Path) -> None:
    collector = Journald(journal=journal(tmp_path, JOB_ENTRY), node="n1")
    collected(collector, lines=2)
    process = collector._journal._process
    assert process is not None
    assert process.poll() is None

    collector.close()

    assert process.poll() is not None


def test_no_journal_is_reported_once() -> None:
    collector = Journald(journal=JournalctlFollower(program="no-such-journalctl"), node="n1")

    assert collector.available().status == "missing"
    assert [kinds(collector.collect(T_S)) for _ in range(2)] == [["collector.missing"], []]

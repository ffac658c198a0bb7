"""Trees of processes are jobs where there is no scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from patience import until
from steward.clients.processes import Process, ProcessTable
from steward.model.identity import JobId
from steward.model.job import JobState
from steward.observe.collectors.processes import Processes
from steward.observe.normalise import Normaliser
from steward.observe.process_owners import ProcessOwners


def process(pid: int, parent: int, name: str = "python", *, cpu_s: float = 0.0) -> Process:
    return Process(
        pid=pid, parent=parent, name=name, start_s=100.0 + pid, cpu_s=cpu_s, rss_bytes=1000
    )


class Table(ProcessTable):
    """Processes that are made up."""

    def __init__(self, *processes: Process) -> None:
        self.there = {each.pid: each for each in processes}

    def all(self) -> dict[int, Process]:
        return dict(self.there)

    def one(self, pid: int) -> Process | None:
        return self.there.get(pid)

    def command(self, pid: int) -> tuple[str, ...]:
        return ("/usr/bin/python", "-u", f"/home/ada/train{pid}.py", "--lr", "1")

    def storage_bytes(self, pid: int) -> tuple[int, int] | None:
        return (pid, 2 * pid) if pid != 13 else None

    def user(self, pid: int) -> int | None:
        return 0

    def burn(self, pid: int, cpu_s: float) -> None:
        self.there[pid] = replace(self.there[pid], cpu_s=self.there[pid].cpu_s + cpu_s)


class Groups(ProcessOwners):
    """Control groups that are made up; trees come from the table."""

    def __init__(self, table: Table, scheduled: Mapping[int, str] | None = None) -> None:
        super().__init__(table=table)
        self.known = scheduled or {}

    def scheduled(self, pid: int) -> JobId | None:
        return JobId(self.known[pid]) if pid in self.known else None


SHELL = process(5, 1, "bash")
# torchrun puts each rank into a session of its own; they are one tree all the same.
TORCHRUN = (process(10, 5, "torchrun"), process(11, 10), process(12, 10))


def seeing(
    table: Table,
    holders: Mapping[int, tuple[int, ...]] | None = None,
    scheduled: Mapping[int, str] | None = None,
) -> Processes:
    held = holders if holders is not None else {}
    return Processes(node="n1", table=table, holders=lambda: held, owners=Groups(table, scheduled))


def test_torchrun_and_its_ranks_are_one_job_that_holds_their_gpus() -> None:
    table = Table(SHELL, *TORCHRUN)

    seen = seeing(table, {0: (11,), 1: (12,)}).collect(1000.0)

    (job,) = seen.jobs
    assert (job.id, job.name, job.user, job.tenant) == ("proc:10-110", "train10.py", "root", "root")
    assert (job.state, job.gpus, job.start_s) == (
        JobState.RUNNING,
        ("n1/gpu0", "n1/gpu1"),
        110.0,
    )
    (row,) = seen.frame.to_dicts()
    assert (row["entity"], row["job.memory.used_bytes"], row["job.disk.write_bytes"]) == (
        "job:proc:10-110",
        3000.0,
        66.0,
    )


def test_whose_a_pid_on_a_gpu_is_can_be_joined_afterwards() -> None:
    table = Table(SHELL, *TORCHRUN, process(20, 1, "python"))

    seen = seeing(table, {0: (11, 20)}, scheduled={20: "812"}).collect(1000.0)

    by_pid = {span.entity: span.name for span in seen.spans if "@pid:" in span.entity}
    assert by_pid == {"n1/gpu0@pid:11": "proc:10-110", "n1/gpu0@pid:20": "812"}
    assert {job.id for job in seen.jobs} == {"proc:10-110"}  # 812 is reported by its scheduler


def test_a_busy_python_is_a_job_and_stays_one_while_it_waits() -> None:
    table = Table(SHELL, process(10, 5), process(30, 5, "postgres"))
    processes = seeing(table)
    first = processes.collect(1000.0)
    table.burn(10, 8.0)
    table.burn(30, 8.0)

    second = processes.collect(1010.0)
    third = processes.collect(1020.0)

    assert (first.jobs, [job.id for job in second.jobs]) == ((), ["proc:10-110"])
    assert third.jobs == ()
    assert third.frame.height == 1


def test_a_job_ends_with_its_last_process_and_its_exit_is_unknown() -> None:
    table = Table(SHELL, *TORCHRUN)
    processes = seeing(table, {0: (11,)})
    processes.collect(1000.0)
    for pid in (10, 11, 12):
        del table.there[pid]

    seen = processes.collect(1010.0)

    (job,) = seen.jobs
    assert (job.end_s, job.gpus, "exit code" in job.history[-1].why) == (1010.0, (), True)
    assert [span.to_s for span in seen.spans] == [1010.0] * 3
    assert seen.events == ()


def test_a_pid_that_is_used_again_is_another_job() -> None:
    table = Table(SHELL, process(10, 5))
    processes = seeing(table, {0: (10,)})
    processes.collect(1000.0)
    table.there[10] = replace(process(10, 5), start_s=1005.0)

    seen = processes.collect(1010.0)

    assert {job.id: job.state.ended for job in seen.jobs} == {
        "proc:10-110": True,
        "proc:10-1005": False,
    }


def test_two_runs_from_one_shell_are_two_jobs() -> None:
    table = Table(SHELL, process(10, 5), process(13, 5))

    seen = seeing(table, {0: (10,), 1: (13,)}).collect(1000.0)

    assert len(seen.jobs) == 2
    unread = seen.frame.filter(seen.frame["entity"] == "job:proc:13-113").row(0, named=True)
    assert unread["job.disk.read_bytes"] is None


def test_a_gpu_that_is_taken_later_is_reported() -> None:
    holders: dict[int, tuple[int, ...]] = {0: (10,)}
    processes = seeing(Table(SHELL, process(10, 5)), holders)
    processes.collect(1000.0)
    holders[1] = (10,)

    (job,) = processes.collect(1010.0).jobs

    assert job.gpus == ("n1/gpu0", "n1/gpu1")


def test_a_real_tree_is_seen_with_the_processor_time_that_it_used() -> None:
    script = (
        "import subprocess, sys, time\n"
        "ranks = [subprocess.Popen([sys.executable, '-c', 'while True: pass'],"
        " start_new_session=True) for _ in range(2)]\n"
        "print('begun', flush=True)\n"
        "sys.stdin.read()\n"
        "[rank.kill() for rank in ranks]; [rank.wait() for rank in ranks]\n"
    )
    processes = Processes(node="n1", min_cpu_cores=0.1, holders=dict)
    # A shell in between, as people start things: this test is not part of the job.
    command = ["bash", "-c", f'"{sys.executable}" -c "$0"; true', script]
    normaliser = Normaliser(source="processes", vocabulary="canonical")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdout.readline()
        (child,) = psutil.Process(shell.pid).children()

        def used_cores() -> float | None:
            time.sleep(0.3)
            frame, _ = normaliser.normalise(processes.collect(time.time()).frame)
            # Other people's programs may start on this machine at the same time.
            mine = [row for row in frame.to_dicts() if str(child.pid) in row["entity"]]
            assert len(mine) <= 1
            return mine[0].get("job.cpu.busy_cores") if mine else None

        cores = until(used_cores)
        shell.stdin.close()

    assert cores is not None
    assert 0.0 < cores < 2.3


def test_this_machine_can_be_read() -> None:
    message = Processes().available()

    assert message.status in ("ok", "limited")
    assert ProcessTable().one(os.getpid()) is not None


def test_a_table_of_nothing_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_bytes(b"7 (a) b) R 1")  # cut off, and a nasty name
    (tmp_path / "8").mkdir()
    table = ProcessTable(tmp_path)

    assert table.all() == {}
    assert (table.ancestors(8), table.command(8), table.storage_bytes(8)) == ([], (), None)


@pytest.mark.parametrize("name", ["a) b", "((", "tmux: server", ")"])
def test_any_name_of_a_process_is_read(tmp_path: Path, name: str) -> None:
    cells = " ".join(["S", "1", *("0" for _ in range(9)), "100", "200", "3", "4"])
    (tmp_path / "stat").write_text("btime 1000\n")
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 ({name}) {cells} 20 0 1 0 500 0 25 0\n")

    read = ProcessTable(tmp_path).one(7)

    assert read is not None
    assert (read.name, read.parent) == (name, 1)
    assert read.start_s == pytest.approx(1000 + 500 / os.sysconf("SC_CLK_TCK"))
    assert read.cpu_s == pytest.approx(307 / os.sysconf("SC_CLK_TCK"))

"""Jobs in scopes of systemd, with a stand-in for `systemd-run`: no systemd runs the test machine.

The stand-in does what `systemd-run --scope` does as far as we rely on it: it makes the group,
enters it, and becomes the command by exec. Its arguments are kept.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from managed_jobs import attempt, managed, spec
from patience import until
from steward.clients.local_jobs.confinement import Confinement, SystemdScopes
from steward.clients.local_jobs.engine import LocalEngine
from steward.model.identity import JobId
from steward.model.job import JobShape
from steward.model.managed_job import AttemptLook, JobSpec

as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
JOB = JobId("1")
STAND_IN = """#!/usr/bin/env python3
import os, sys
words = sys.argv[1:]
head, command = words[: words.index("--")], words[words.index("--") + 1 :]
with open("RECORD", "a") as file:
    file.write(" ".join(head) + "\\n")
if STATUS:
    sys.exit(STATUS)
unit = next(each for each in head if each.startswith("--unit="))[len("--unit=") :]
group = os.path.join("ROOT", unit)
os.makedirs(group, exist_ok=True)
with open(os.path.join(group, "cgroup.procs"), "w") as file:
    file.write(f"{os.getpid()}\\n")
with open(os.path.join(group, "memory.events"), "w") as file:
    file.write("oom 0\\noom_kill OOM\\n")
os.execv(command[0], command)
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a `systemd-run` on the path, and a folder that says that systemd has booted."""
    write(tmp_path, status=0, oom=0)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (tmp_path / "booted").mkdir()
    return tmp_path


def write(folder: Path, *, status: int, oom: int) -> None:
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin" / "systemd-run"
    text = STAND_IN.replace("RECORD", str(folder / "record")).replace("OOM", str(oom))
    text = text.replace("ROOT", str(folder / "steward.slice")).replace("STATUS", str(status))
    program.write_text(text)
    program.chmod(0o755)


def scopes(folder: Path) -> SystemdScopes | None:
    return SystemdScopes.probe(folder / "booted", folder)


def record(folder: Path) -> list[str]:
    return (folder / "record").read_text().splitlines()


def ended(folder: Path, made: JobSpec) -> tuple[LocalEngine, AttemptLook]:
    found = scopes(folder)
    assert found is not None
    engine = LocalEngine(folder / "jobs", grace_s=0.3, confinement=found)
    engine.launch(managed(made), attempt())
    until(lambda: engine.look(JOB, 1).phase == "ended")
    return engine, engine.look(JOB, 1)


@as_root
def test_an_attempt_runs_in_a_scope_of_its_name_with_its_limits(stand_in: Path) -> None:
    shape = JobShape(gpus=1, cpus=2, memory_bytes=1 << 30)

    engine, look = ended(stand_in, spec("cat", "/proc/self/oom_score_adj", shape=shape))

    name = engine._group_name(JOB, attempt())
    assert look.exit_code == 0
    assert record(stand_in)[-1].split() == [
        "--scope", "--quiet", "--collect", "--slice=steward.slice", f"--unit={name}.scope",
        "-p", "TasksMax=32768", "-p", "MemoryMax=1073741824", "-p", "MemorySwapMax=0",
        "-p", "CPUQuota=200%",
    ]  # fmt: skip
    launch = json.loads((stand_in / "jobs/1/attempt-1/launch.json").read_text())
    assert launch["cgroup"] == str(stand_in / "steward.slice" / f"{name}.scope")
    claim = json.loads((stand_in / "jobs/1/attempt-1/claim.json").read_text())
    procs = Path(launch["cgroup"], "cgroup.procs").read_text()
    assert procs == f"{claim['pid']}\n"  # the shim, which the stand-in became
    assert engine.read_log(JOB, 0, 100) == b"500\n"  # before its shim, where memory runs out


@as_root
def test_a_job_that_runs_out_of_memory_in_its_scope_says_so(stand_in: Path) -> None:
    write(stand_in, status=0, oom=1)

    _, look = ended(stand_in, spec("sh", "-c", "kill -KILL $$"))

    assert (look.why, look.signal) == ("out of memory", signal.SIGKILL)


@as_root
def test_a_job_without_limits_asks_systemd_for_none_but_the_number_of_processes(
    stand_in: Path,
) -> None:
    ended(stand_in, spec("true"))

    assert record(stand_in)[-1].partition("-p ")[2] == "TasksMax=32768"


@as_root
@pytest.mark.parametrize("missing", ["systemd", "program", "right"])
def test_without_systemd_or_where_it_refuses_groups_are_made_by_folders(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    if missing == "systemd":
        (stand_in / "booted").rmdir()
    if missing == "program":
        monkeypatch.setenv("PATH", str(stand_in))
    if missing == "right":
        write(stand_in, status=1, oom=0)

    assert scopes(stand_in) is None
    # Where only our sign of systemd is gone, the machine's own may be there.
    assert missing == "systemd" or not isinstance(Confinement.find(), SystemdScopes)


@as_root
def test_a_shim_that_systemd_does_not_start_has_run_nothing(stand_in: Path) -> None:
    found = scopes(stand_in)
    assert found is not None
    engine = LocalEngine(stand_in / "jobs", confinement=replace(found, program="/bin/false"))

    engine.launch(managed(spec("true")), attempt())

    until(lambda: engine.look(JOB, 1).phase == "abandoned")
    assert engine.revoke(JOB, 1)


@as_root
def test_the_scopes_are_told_with_what_they_limit(stand_in: Path) -> None:
    found = scopes(stand_in)
    assert found is not None

    found.remove("job-1")

    assert found.describe() == "scopes of systemd in steward.slice, limits: cpu, memory, pids"

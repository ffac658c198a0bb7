"""The objects that are shipped, against objects built here, on the running kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steward.clients.bpf.columns import COLUMNS
from steward.clients.bpf.libbpf import LibBpf
from steward.clients.bpf.probe_sets import PROBE_SETS, PROGRAMS
from steward.clients.bpf.probes import Probes
from steward.clients.bpf.syscall_table import COUNTED
from steward.errors import StewardError

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("objects")
    subprocess.run([ROOT / "scripts/build_bpf", folder], check=True)
    return folder


@contextmanager
def running(programs: Path) -> Iterator[Probes]:
    loader = LibBpf()
    sets = tuple(PROBE_SETS.values())
    types = loader.types([name for each in sets for name in each.tracepoints])
    probes = Probes(loader, types, sets, controller=-1, slots=16, programs=programs)
    try:
        yield probes
    finally:
        probes.close()


def counted(programs: Path) -> dict[str, float]:
    """Return what the programs count of calls that are made here, a thousand of each."""
    with running(programs) as probes:
        assert not probes.refused
        rows = probes.table.rows[:, :, COLUMNS["calls.count"]]
        before = rows.sum(axis=(0, 1))
        with Path("/dev/null").open("rb") as file:
            for _ in range(1000):
                os.pread(file.fileno(), 1, 0)
        probes.count_ongoing_waits()
        grown = rows.sum(axis=(0, 1)) - before
        return {
            "pread64": float(grown[COUNTED.index("pread64")]),
            "tasks": float(probes.note("lost_tasks")),
        }


def test_objects_built_here_count_what_the_shipped_ones_count(rebuilt: Path) -> None:
    for programs in (rebuilt, PROGRAMS):
        seen = counted(programs)

        assert seen["pread64"] >= 1000  # other processes make some too
        assert seen["tasks"] == 0


def test_objects_built_here_have_the_same_programs_as_the_shipped_ones(rebuilt: Path) -> None:
    with running(rebuilt) as new, running(PROGRAMS) as shipped:
        assert new.costs().keys() == shipped.costs().keys()
        assert "count_ongoing" in new.costs()


def test_an_object_that_is_damaged_is_refused_with_a_reason(rebuilt: Path, tmp_path: Path) -> None:
    for path in rebuilt.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "tcp.bpf.o").write_bytes((PROGRAMS / "tcp.bpf.o").read_bytes()[:100])

    with running(tmp_path) as probes:
        assert set(probes.refused) == {"tcp"}
        assert "tcp is not an object that libbpf can open" in probes.refused["tcp"]
        assert "faults" in {each.name for each in probes.running}


def test_types_that_are_damaged_are_an_error_with_the_file(tmp_path: Path) -> None:
    vmlinux = tmp_path / "vmlinux"
    vmlinux.write_bytes(b"garbage")

    with pytest.raises(StewardError, match=f"kernel's types in {vmlinux}"):
        LibBpf(vmlinux).types(["sched_switch"])


def test_the_running_kernels_tracepoints_and_controllers_are_found() -> None:
    types = LibBpf().types(["sched_wakeup", "no_such_tracepoint"])

    assert types.arguments == {"sched_wakeup": 1}
    controllers = {line.split()[0] for line in Path("/proc/cgroups").read_text().splitlines()[1:]}
    assert "memory" in types.controllers or "memory" not in controllers

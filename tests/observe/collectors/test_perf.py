"""Counts become ratios: how much work a cycle does, and what it waits for."""

from __future__ import annotations

import errno
import math
from pathlib import Path

import numpy as np
import pytest

from fake_kernel import FakeKernel
from steward.clients.perf import HARDWARE, SOFTWARE
from steward.errors import StewardError
from steward.model.metrics import aliases_from
from steward.observe.collectors.perf import Perf


class Site:
    """A machine with a fake kernel and a cgroup tree in a folder."""

    def __init__(self, root: Path, kernel: FakeKernel, *, jobs: bool = False) -> None:
        self.kernel = kernel
        self.perf = Perf(node="n1", jobs=jobs, root=str(root), kernel=kernel)

    def read(self, after_s: float = 0.0) -> dict[str, dict[str, float]]:
        self.kernel.time_s += after_s
        layout = self.perf.layout()
        row = np.empty(layout.width)
        self.perf.sample(row)
        left = row.tolist()
        return {
            block.entity: {name: left.pop(0) for name in block.names} for block in layout.blocks
        }


def test_ratios_are_those_since_the_last_reading(tmp_path: Path) -> None:
    kernel = FakeKernel(counters=4)
    site = Site(tmp_path, kernel)
    first = site.read()["n1"]
    kernel.passes(
        enabled_ns=1000,
        running_ns=500,  # two groups take turns
        cycles=1000,
        instructions=2500,
        cache_references=100,
        cache_misses=20,
        branches=400,
        branch_misses=4,
        stalled_cycles_frontend=100,
        stalled_cycles_backend=300,
    )

    seen = site.read(after_s=1.0)["n1"]

    assert math.isnan(first["ipc"])
    assert seen["ipc"] == pytest.approx(2.5)
    assert seen["cache-miss-ratio"] == pytest.approx(0.2)
    assert seen["branch-miss-ratio"] == pytest.approx(0.01)
    assert seen["stall-frontend-ratio"] == pytest.approx(0.1)
    assert seen["stall-backend-ratio"] == pytest.approx(0.3)


def test_counts_are_rates_over_all_cores(tmp_path: Path) -> None:
    kernel = FakeKernel()
    site = Site(tmp_path, kernel)
    site.read()
    cores = len({cpu for _, cpu, _ in kernel.events.values()})
    kernel.passes(enabled_ns=1000, cycles=1000)

    assert site.read(after_s=2.0)["n1"]["cycles/s"] == 500.0 * cores


def test_an_idle_processor_has_no_ratios(tmp_path: Path) -> None:
    site = Site(tmp_path, FakeKernel())
    site.read()

    seen = site.read(after_s=1.0)["n1"]

    assert math.isnan(seen["ipc"])
    assert seen["cycles/s"] == 0.0


def test_jobs_are_counted_where_perf_can_follow_them(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    job = tmp_path / "system.slice/slurmstepd.scope/job_7"
    job.mkdir(parents=True)
    kernel = FakeKernel()
    site = Site(tmp_path, kernel, jobs=True)
    before = site.read()
    kernel.passes(enabled_ns=10, cycles=100, instructions=50, task_clock=10)

    seen = site.read(after_s=1.0)
    job.rmdir()
    after = site.read(after_s=5.0)

    assert list(before) == ["n1", "n1@7"]
    assert seen["n1@7"]["job.ipc"] == 0.5
    assert set(seen["n1@7"]) <= set(aliases_from("perf"))
    assert set(seen["n1"]) <= set(aliases_from("perf"))
    assert list(after) == ["n1"]


def test_without_jobs_wanted_none_is_counted(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    (tmp_path / "system.slice/slurmstepd.scope/job_7").mkdir(parents=True)

    assert list(Site(tmp_path, FakeKernel()).read()) == ["n1"]


@pytest.mark.parametrize(
    ("refuse", "status", "reason", "hint"),
    [
        ({}, "ok", "10 events", ""),
        (dict.fromkeys(HARDWARE, errno.ENOENT), "limited", "no hardware counters", "hypervisor"),
        (
            dict.fromkeys(("stalled-cycles-backend",), errno.ENOENT),
            "limited",
            "stalled-cycles-backend",
            "PMU",
        ),
        (dict.fromkeys((*HARDWARE, *SOFTWARE), errno.EACCES), "missing", "this user", "paranoid"),
        (dict.fromkeys((*HARDWARE, *SOFTWARE), errno.ENOSYS), "missing", "no perf", "seccomp"),
    ],
)
def test_it_reports_what_the_kernel_counts_and_why_not_the_rest(
    tmp_path: Path, refuse: dict[str, int], status: str, reason: str, hint: str
) -> None:
    kernel = FakeKernel(counters=8, refuse=refuse)

    message = Site(tmp_path, kernel).perf.available()

    assert message.status == status
    assert reason in message.reason
    assert hint in message.hint
    assert kernel.events == {}  # nothing stays open


def test_where_nothing_may_be_counted_nothing_is_sampled(tmp_path: Path) -> None:
    refuse = dict.fromkeys((*HARDWARE, *SOFTWARE), errno.EACCES)
    site = Site(tmp_path, FakeKernel(refuse=refuse))

    assert site.read() == {"n1": {}}
    assert site.perf.collect(1.0).frame.height == 0


def test_too_many_cores_are_a_fault_until_the_limit_is_raised(tmp_path: Path) -> None:
    kernel = FakeKernel()
    kernel.most_open = 1
    site = Site(tmp_path, kernel)

    for _ in range(2):
        with pytest.raises(StewardError, match="cannot be opened"):
            site.read(after_s=0.1)
    kernel.most_open = 1 << 20

    assert list(site.read(after_s=5.0)) == ["n1"]

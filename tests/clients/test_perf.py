"""Events are counted in groups, and scaled where the kernel had to take turns."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from fake_kernel import FakeKernel
from steward.clients.perf import HARDWARE, SOFTWARE, PerfCounters, online
from steward.errors import StewardError


def test_events_are_summed_over_cores() -> None:
    kernel = FakeKernel()
    counters = PerfCounters(("cycles", "instructions"), (0, 1, 2), kernel=kernel)

    kernel.passes(enabled_ns=10, cycles=100, instructions=250)

    assert counters.totals() == {"cycles": 300.0, "instructions": 750.0}


def test_counts_are_scaled_by_the_time_in_which_they_were_taken() -> None:
    kernel = FakeKernel()
    counters = PerfCounters(("cycles",), (0,), kernel=kernel)
    kernel.passes(enabled_ns=100, running_ns=100, cycles=1000)
    counters.totals()

    kernel.passes(enabled_ns=100, running_ns=25, cycles=250)

    assert counters.totals() == {"cycles": 2000.0}


def test_counters_that_others_hold_all_the_time_do_not_grow() -> None:
    kernel = FakeKernel()
    counters = PerfCounters(("cycles",), (0,), kernel=kernel)

    kernel.passes(enabled_ns=100, running_ns=0)

    assert counters.totals() == {"cycles": 0.0}


@pytest.mark.parametrize(("counters", "groups"), [(8, 1), (4, 2), (3, 3), (1, 8)])
def test_groups_are_as_large_as_the_processor_allows(counters: int, groups: int) -> None:
    kernel = FakeKernel(counters=counters)
    opened = PerfCounters(HARDWARE, (0,), kernel=kernel)
    leaders = {leader for _, _, leader in kernel.events.values()}

    kernel.passes(enabled_ns=1, **{event.replace("-", "_"): 7 for event in HARDWARE})

    assert len(leaders) == groups
    assert opened.events == HARDWARE
    assert set(opened.totals().values()) == {7.0}


def test_a_clock_never_shares_a_group() -> None:
    kernel = FakeKernel()
    PerfCounters(SOFTWARE, (0,), kernel=kernel)

    groups: dict[int, list[str]] = {}
    for name, _, leader in kernel.events.values():
        groups.setdefault(leader, []).append(name)

    assert ["task-clock"] in groups.values()
    assert len(groups) == 2


def test_events_that_a_processor_does_not_have_are_named_and_tried_once() -> None:
    refuse = {"stalled-cycles-frontend": errno.ENOENT, "stalled-cycles-backend": errno.ENOENT}
    kernel = FakeKernel(refuse=refuse)

    counters = PerfCounters(HARDWARE, (0, 1), kernel=kernel)

    assert set(counters.refused) == set(refuse)
    assert set(counters.totals()) == set(HARDWARE) - set(refuse)


def test_too_many_cores_for_the_limit_of_files_is_reported_and_leaves_nothing_open() -> None:
    kernel = FakeKernel()
    kernel.most_open = 20

    with pytest.raises(StewardError, match="64 cores") as caught:
        PerfCounters(HARDWARE, range(64), kernel=kernel)

    assert "ulimit" in caught.value.hint
    assert kernel.events == {}


def test_a_core_that_goes_offline_stops_counting_and_the_others_continue() -> None:
    kernel = FakeKernel()
    counters = PerfCounters(("cycles",), (0, 1), kernel=kernel)
    kernel.offline = {1}

    kernel.passes(enabled_ns=1, cycles=5)

    assert counters.totals() == {"cycles": 5.0}


def test_closing_leaves_nothing_open() -> None:
    kernel = FakeKernel()
    counters = PerfCounters((*HARDWARE, *SOFTWARE), (0, 1), kernel=kernel)

    counters.close()

    assert kernel.events == {}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8\n", (0, 1, 2, 3, 8)), ("0\n", (0,)), ("0-1,4-5\n", (0, 1, 4, 5))],
)
def test_cores_that_are_online_are_read_from_their_list(
    tmp_path: Path, text: str, cpus: tuple[int, ...]
) -> None:
    (tmp_path / "devices/system/cpu").mkdir(parents=True)
    (tmp_path / "devices/system/cpu/online").write_text(text)

    assert online(tmp_path) == cpus


def test_without_a_list_all_cores_are_online(tmp_path: Path) -> None:
    assert len(online(tmp_path)) == os.cpu_count()


@pytest.mark.real
def test_the_real_kernel_counts_what_happens() -> None:
    counters = PerfCounters(("context-switches", "page-faults-min"), online())
    before = counters.totals()

    for _ in range(50):
        time.sleep(0.001)
    after = counters.totals()
    counters.close()

    assert not counters.refused
    assert after["context-switches"] - before["context-switches"] >= 50

"""Columns of any tool land in the same groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.learn.patterns.column_names import read_names
from steward.learn.patterns.groups import GROUPS, load_groups, select_columns


def grouped(*names: str) -> dict[str, list[str]]:
    selection = select_columns(read_names(names), GROUPS)
    return {
        group.name: [selection.columns[place].name for place in places]
        for group, places in zip(GROUPS, selection.members, strict=True)
        if places
    }


@pytest.mark.parametrize(
    "name",
    [
        "GPU: utilization.gpu.1.htc-g003[%]", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO",
        'DCGM_FI_DEV_GPU_UTIL{gpu="3",Hostname="n1"}', "dcgm_203", "dcgm.field.203.5", "gpu_util",
        "gpu.busy_share", "gpu3_gpu_util", "utilization.gpu [%]", "hw.gpu.utilization",
        "gpu_util_3",
    ],
)  # fmt: skip
def test_the_use_of_a_gpu_by_any_name(name: str) -> None:
    assert grouped(name) == {"gpu_util": [name]}


def test_groups_of_infrascope_in_reveals_columns() -> None:
    host = "nserver07"
    names = [
        f"GPU: utilization.memory.0.{host}[%]", f"GPU: power.draw.0.{host}[W]",
        f"GPU: temperature.gpu.0.{host}[C]", f"Turbostat:Busy%.-.{host}[%]",
        f"Turbostat:Busy%.12.{host}[%]", f"Perf:IPC.{host}[-]", f"Perf:StallRatio.{host}[%]",
        f"Memory:MemoryUtilization.{host}[%]", f"Memory:MemAvailable.{host}[kB]",
        f"Meminfo_diff:MemAvailable.{host}[kB]",
        f"NetworkInterStat_diff:rx_bytes.enp1s0f0np0.{host}[B]",
        f"NetworkInterStat_diff:rx_bytes.ib0.{host}[B]",
        f"NetworkInterStat_diff:tx_bytes.ib0.{host}[B]", f"Turbostat:C1%.3.{host}[%]",
    ]  # fmt: skip

    found = grouped(*names)

    assert {name: len(columns) for name, columns in found.items()} == {
        "gpu_mem_util": 1, "gpu_power": 1, "gpu_temp": 1, "cpu_busy": 1, "cpu_ipc": 1,
        "cpu_stall": 1, "mem_util": 1, "mem_available": 1, "mem_available_change": 1,
        "net_rx": 2, "net_tx": 1,
    }  # fmt: skip
    assert found["cpu_busy"] == [f"Turbostat:Busy%.-.{host}[%]"]  # rather than one core's


def test_hosts_and_devices_are_told_from_names() -> None:
    columns = read_names(
        ["GPU: power.draw.1.htc-g003[W]", 'DCGM_FI_DEV_GPU_TEMP{gpu="3",Hostname="n1"}', "foo"]
    )

    assert [(each.host, each.device) for each in columns] == [
        ("htc-g003", "gpu1"), ("n1", "gpu3"), ("", ""),
    ]  # fmt: skip


def test_counters_become_rates_and_levels_do_not_become_changes() -> None:
    columns = read_names(
        ["energy_mj", "Meminfo_diff:MemAvailable.n[kB]", "NetworkInterStat_diff:rx_bytes.e0.n[B]"]
    )

    assert [(each.metric, each.counter, each.per_sample) for each in columns] == [
        ("gpu.energy.mean_watts", True, False),
        ("host.memory.available_change_bytes", False, False),
        ("host.network.receive_bytes_per_s", False, True),
    ]


def test_a_person_gives_groups(tmp_path: Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_text("groups:\n- {name: c1, match: 'Turbostat:C1%', combine: max, at_most: 100}\n")

    (group,) = load_groups(path)

    assert (group.name, group.match, group.combine, group.at_most) == (
        "c1", ("Turbostat:C1%",), "max", 100,
    )  # fmt: skip


_FAULTY = """
groups:
- 3
- {name: a, match: '['}
- {name: b, match: x, combine: mode}
- {name: '?', match: x}
- {name: c, match: []}
- {name: d, match: x, at_most: y}
- {name: e, match: x, limit: 3}
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", ["no YAML"]),
        ("a: 1", ["no list `groups`"]),
        (
            _FAULTY,
            ["group 1: is 3", "group 2: '['", "'mode'", "'?'", "no expression", "'y'", "limit"],
        ),
        ("groups: [{name: a, match: x}, {name: a, match: y}]", ["two groups are called 'a'"]),
    ],
)
def test_all_that_is_wrong_with_groups_comes_at_once(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    path = tmp_path / "g.yaml"
    path.write_text(text)

    with pytest.raises(StewardError) as caught:
        load_groups(path)

    assert all(word in caught.value.problem for word in words)
    assert caught.value.where == str(path)

"""Hosts and their switches as machines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steward.errors import StewardError
from steward.sim.traces.topology import read_topology

HOSTS = "host,dsw,psw,asw\n0,G1,P1,S1\n1,G1,P2,S1\n2,G1,P1,S1\n3,G1,P1,S2\n4,G2,P1,S1\n"


def table(folder: Path, text: str) -> Path:
    file = folder / "hosts.csv"
    file.write_text(text)
    return file


def test_access_switches_are_racks_spines_switches_and_cores_clusters(tmp_path: Path) -> None:
    machines = read_topology(table(tmp_path, HOSTS), gpus_per_node=4, gpu_type="H800")

    assert machines.rack.tolist() == [0, 1, 0, 2, 3]
    assert machines.switch.tolist() == [0, 1, 0, 0, 2]
    assert machines.cluster.tolist() == [0, 0, 0, 0, 1]
    assert machines.clusters == ("G1", "G2")
    assert (machines.total_gpus, machines.types) == (20, ("H800",))


def test_a_table_without_switches_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="lacks psw, asw"):
        read_topology(table(tmp_path, "host,dsw\n0,G1\n"))


def test_hosts_without_a_switch_are_counted(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="1 of 2 hosts lack a switch"):
        read_topology(table(tmp_path, "host,dsw,psw,asw\n0,G1,P1,S1\n1,G1,P1,\n"))


def test_a_folder_needs_a_table_of_hosts(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match=r"holds no hosts\.csv\.gz"):
        read_topology(tmp_path)


@pytest.mark.data
def test_the_real_network_has_three_layers() -> None:
    machines = read_topology("lingjun_topology")

    assert len(machines) == 847
    assert len(set(machines.switch.tolist())) == 3
    assert machines.clusters == ("G6",)
    racks = np.unique(np.column_stack([machines.rack, machines.switch]), axis=0)
    assert len(racks) == len(set(machines.rack.tolist())) > 48

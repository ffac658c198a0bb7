"""GPUs' own states: nvidia-smi -q, DCGM, NVML's events, inventories, and who answered when."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isnan, nan
from pathlib import Path

import pytest

from steward.clients.dcgm_exporter import read_samples
from steward.clients.nvml import Device, Xid
from steward.errors import StewardError
from steward.model.faults import FaultKind, inventory_of
from steward.observe.faults import (
    FaultLog,
    faults_of_dcgm,
    faults_of_events,
    faults_of_query,
    read_gpu_query,
    read_inventory,
    read_presence,
    read_source,
    sighting_of_query,
    sightings_of_dcgm,
    sightings_of_devices,
)

DATA = Path(__file__).parents[2] / "data"
T_S = datetime(2025, 11, 18, 10, tzinfo=UTC).timestamp()
FIRST = 'gpu="0",UUID="GPU-1",pci_bus_id="00000000:0F:00.0",Hostname="n7",modelName="H100"'
DCGM = f"""# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.
DCGM_FI_DEV_XID_ERRORS{{{FIRST}}} 79
DCGM_FI_DEV_XID_ERRORS{{gpu="1",UUID="GPU-2",Hostname="n7",modelName="H100"}} 0
DCGM_FI_DEV_ROW_REMAP_FAILURE{{gpu="1",UUID="GPU-2",Hostname="n7",modelName="H100"}} 1
DCGM_FI_DEV_ROW_REMAP_FAILED{{gpu="2",gpu_uuid="GPU-3",hostname="n7",model_name="H200"}} 1
"""


@pytest.mark.parametrize("name", ["query.txt", "query.xml"])
def test_both_forms_of_nvidia_smi_say_the_same(name: str) -> None:
    text = (DATA / "nvidia-smi-q" / name).read_text()

    good, bad = read_gpu_query(text, where=name)

    assert list(faults_of_query(good, "n1")) == []
    states = {each.detail["state"]: each for each in faults_of_query(bad, "n1")}
    assert set(states) == {
        "remap-failed",
        "remap-pending",
        "uncorrected",
        "hw-slowdown",
        "asks-reset",
    }
    assert {(each.node, each.device, each.t_s) for each in states.values()} == {
        ("n1", "0000:2d:00", T_S)
    }
    who = sighting_of_query(bad, "n1")
    assert (who.serial, who.index, who.part, who.batch) == (
        "1654123000002", 1, "NVIDIA H100 80GB HBM3", "Hopper",
    )  # fmt: skip


def test_what_is_not_available_is_absent_and_not_zero() -> None:
    (found,) = read_gpu_query(
        "GPU 00000000:0F:00.0\n    Serial Number : [N/A]\n    GPU UUID : GPU-1\n"
        "    ECC Errors\n        Volatile\n            DRAM Uncorrectable : N/A\n",
        where="x",
    )

    assert found.count("ecc_errors/volatile/dram_uncorrectable") is None
    assert sighting_of_query(found, "n").serial == ""
    assert isnan(found.t_s)


def test_a_gpu_that_the_driver_lost_says_so() -> None:
    (found,) = read_gpu_query(
        "GPU 00000000:0F:00.0\n    Product Name : GPU is lost. Reboot the system\n", where="x"
    )

    assert [each.detail["state"] for each in faults_of_query(found, "n")] == ["lost"]


def test_xml_that_is_cut_or_dangerous_is_refused() -> None:
    text = (DATA / "nvidia-smi-q" / "query.xml").read_text()

    with pytest.raises(StewardError, match="not whole"):
        read_gpu_query(text[:900], where="x")
    with pytest.raises(StewardError, match="entities"):
        read_gpu_query("<!ENTITY a 'b'><nvidia_smi_log/>", where="x")


def test_text_that_is_cut_gives_what_there_is() -> None:
    text = (DATA / "nvidia-smi-q" / "query.txt").read_text()

    assert len(read_gpu_query(text[: text.index("GPU 00000000:2D") + 60], where="x")) == 2


def test_dcgm_keeps_the_last_xid_so_it_has_no_time() -> None:
    found = list(faults_of_dcgm(read_samples(DCGM, "x"), node="", t_s=5.0))

    assert [(x.kind, x.code, x.device, x.node) for x in found] == [
        (FaultKind.XID, 79, "0000:0f:00", "n7"),
        (FaultKind.GPU_STATE, None, "gpu1", "n7"),
        (FaultKind.GPU_STATE, None, "gpu2", "n7"),
    ]
    assert isnan(found[0].t_s)
    assert found[1].t_s == 5.0
    seen = list(sightings_of_dcgm(read_samples(DCGM, "x"), node="", t_s=5.0))
    assert [(x.uuid, x.slot, x.index, x.part) for x in seen] == [
        ("GPU-1", "0000:0f:00", 0, "H100"), ("GPU-2", "gpu1", 1, "H100"),
        ("GPU-3", "gpu2", 2, "H200"),
    ]  # fmt: skip


def test_a_recorded_scrape_of_a_healthy_node_has_no_fault() -> None:
    text = (DATA / "dcgm-exporter" / "4.9.txt").read_text()

    found = list(faults_of_dcgm(read_samples(text, "x"), node="", t_s=0.0))

    assert all(each.kind is FaultKind.XID for each in found)


def test_events_of_the_driver_are_faults_of_the_gpu_that_has_the_number() -> None:
    device = Device(
        index=0, name="H200", uuid="GPU-1", generation="hopper", memory_bytes=1, max_watts=1.0,
        bus_id="00000000:3B:00.0", peers=(), has_counters=True,
    )  # fmt: skip
    events = [(0, Xid(gpu=0, code=63)), (4, Xid(gpu=4, code=79, gpu_instance=2))]

    found = faults_of_events(events, {0: device}, node="n1", t_s=9.0)

    assert [(x.device, x.code) for x in found] == [("0000:3b:00", 63), ("gpu4", 79)]
    assert found[1].detail["instance"] == "2"
    known = inventory_of(sightings_of_devices({0: device}, node="n1", t_s=0.0))
    assert known.at("n1", "0000:3b:00", 9.0) == "GPU-1"


def test_files_are_told_apart_by_how_they_begin(tmp_path: Path) -> None:
    (tmp_path / "n3.prom").write_text(DCGM)
    (tmp_path / "n4.csv").write_text("node,start_s,end_s\na,0,10\n")
    log = FaultLog()
    for file in (DATA / "nvidia-smi-q" / "query.txt", *sorted(tmp_path.iterdir())):
        read_source(file, log, now_s=T_S)

    assert {each.node for each in log.faults} == {"query", "n7"}
    assert [(each.node, each.to_s) for each in log.answers] == [("a", 10.0)]
    assert len(log.sightings) == 5


def test_an_inventory_is_read_under_whatever_columns(tmp_path: Path) -> None:
    file = tmp_path / "gpus.csv"
    file.write_text(
        "SN;hostname;pci.bus_id;insert;remove;model\n"
        "s1;n1;00000000:06:00.0;2025-01-01T00:00:00Z;2025-02-01T00:00:00Z;H100\n"
        "s2;n1;00000000:06:00.0;2025-02-01T00:00:00Z;;H100\n"
    )

    known = inventory_of(read_inventory(file))

    assert known.at("n1", "0000:06:00", datetime(2025, 1, 9, tzinfo=UTC).timestamp()) == "s1"
    assert known.at("n1", "0000:06:00", datetime(2025, 3, 9, tzinfo=UTC).timestamp()) == "s2"
    assert known.units["s1"].part == "H100"


def test_an_inventory_by_numbers_only_names_slots_by_them(tmp_path: Path) -> None:
    file = tmp_path / "gpus.csv"
    file.write_text("uuid,node,index\nGPU-1,n1,0\nGPU-2,n1,1\n")

    known = inventory_of(read_inventory(file))

    assert known.at("n1", "gpu1", nan) == "GPU-2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "no column of serial or uuid and of node"),
        ("serial,node\ns1,\n,n2\n", "2 rows name no GPU"),
        ("", "no column"),
    ],
)
def test_inventories_that_name_nothing_are_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "gpus.csv"
    file.write_text(text)

    with pytest.raises(StewardError, match=said):
        read_inventory(file)


def test_polls_without_values_are_silence(tmp_path: Path) -> None:
    file = tmp_path / "polls.csv"
    rows = [f"{60 * i},n1,{'' if 20 <= i < 40 else 7}," for i in range(60)]
    file.write_text("time,node,power_w,fan\n" + "\n".join(rows) + "\n")

    found = read_presence(file)

    assert [(each.from_s, each.to_s) for each in found] == [(0.0, 1140.0), (2400.0, 3540.0)]


def test_minutes_are_of_the_day_in_a_name(tmp_path: Path) -> None:
    file = tmp_path / "seen_2025-06-03.csv"
    file.write_text("node,start_min_utc,end_min_utc\na,0,157\nb,,\nc,9,3\n")

    (found,) = read_presence(file)

    assert found.to_s == datetime(2025, 6, 3, 2, 37, tzinfo=UTC).timestamp()
    with pytest.raises(StewardError, match="no columns"):
        read_presence(DATA / "nvidia-smi-q" / "query.txt")

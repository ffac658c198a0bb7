"""Faults in logs of the kernel."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import BytesIO
from math import isnan
from pathlib import Path

import pytest

from steward.model.faults import FaultKind, inventory_of
from steward.observe.faults import FaultLog, fault_of, identity_of, place_of, read_faults

NOW_S = datetime(2026, 1, 5, tzinfo=UTC).timestamp()


def read(text: str | bytes, *, now_s: float = NOW_S, node: str = "n1") -> FaultLog:
    log = FaultLog()
    raw = text.encode() if isinstance(text, str) else text
    read_faults(BytesIO(raw), log, now_s=now_s, node=node)
    return log


@pytest.mark.parametrize(
    ("line", "kind", "device", "code", "fatal"),
    [
        ("NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus.",
         FaultKind.XID, "0000:06:00", 79, None),
        ("NVRM: Xid (0000:03:00): 31, Ch 00000020", FaultKind.XID, "0000:03:00", 31, None),
        ("NVRM: Xid (PCI:0018:01:00): 145, pid=8, name=ray::W, RLW_RXPIPE Nonfatal XC0 i0 Link 13",
         FaultKind.XID, "0018:01:00", 145, False),
        ("NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x0 0x1)",
         FaultKind.XID, "0008:01:00", 149, True),
        ("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.",
         FaultKind.LOST, "0000:18:00", None, None),
        ("NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 8",
         FaultKind.FIRMWARE, "gpu6", None, None),
        ("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1463)",
         FaultKind.DRIVER, "0000:3b:00", None, None),
        ("NVRM: API mismatch: the client has the version 550.54, but", FaultKind.DRIVER, "driver",
         None, None),
        ("nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 12028, Non-fatal, Link 61 egress error",
         FaultKind.SXID, "nvswitch2", 12028, False),
        ("pcieport 0000:00:1c.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Physical",
         FaultKind.PCIE, "0000:00:1c", None, True),
        ("nvme 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer",
         FaultKind.PCIE, "0000:01:00", None, False),
        ("EDAC MC3: 1 CE memory read error on CPU_SrcID#1", FaultKind.HOST_MEMORY, "mc3", None,
         False),
        ("mlx5_core 0000:5c:00.0: Detected insufficient power on the PCIe slot (27W).",
         FaultKind.NETWORK, "0000:5c:00", None, None),
    ],
)  # fmt: skip
def test_every_form_of_line_is_read(
    line: str, kind: FaultKind, device: str, code: int | None, *, fatal: bool | None
) -> None:
    found = fault_of(line)

    assert found is not None
    assert (found.kind, found.device, found.code, found.fatal) == (kind, device, code, fatal)


def test_names_of_processes_may_hold_what_separates_fields() -> None:
    line = (
        "NVRM: Xid (PCI:0002:00:00): 119, pid=158, name=nvc:[driver], Timeout after 6s of waiting"
    )

    found = fault_of(line)

    assert found is not None
    assert found.detail == {"pid": "158", "name": "nvc:[driver]"}
    assert found.text == "Timeout after 6s of waiting"


@pytest.mark.parametrize("line", ["NVRM: loading NVIDIA UNIX module", "mlx5_core 0000:5c:00.0: ok"])
def test_other_lines_of_the_same_drivers_are_no_faults(line: str) -> None:
    assert fault_of(line) is None
    assert identity_of(line) is None


def test_places_on_the_bus_are_written_in_one_way() -> None:
    assert place_of("00000000:3B:00") == place_of("3b:0") == "0000:3b:00"


def test_the_three_lines_of_a_switch_are_one_fault() -> None:
    head = "2026-01-01T00:00:01Z n9 kernel: nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, "

    log = read(
        f"{head}Fatal, Link 28 LTSSM Fault Up\n"
        f"{head}Severity 5 Engine instance 28 Sub-engine instance 00\n"
        f"{head}Data {{0x1, 0x2}}\n"
    )

    assert [(each.code, each.fatal, each.node) for each in log.faults] == [(20034, True, "n9")]


def test_the_lines_of_a_report_by_firmware_are_one_fault() -> None:
    log = read(
        "{1}[Hardware Error]:   section_type: PCIe error\n"
        "{1}[Hardware Error]:   device_id: 0000:5e:00.0\n"
        "{2}[Hardware Error]:   section_type: PCIe error\n"
        "{2}[Hardware Error]:   device_id: 0000:5f:00.0\n"
    )

    assert [each.device for each in log.faults] == ["0000:5e:00", "0000:5f:00"]


def test_a_dump_read_twice_counts_once_by_the_kernels_stamps() -> None:
    dump = "[  12.345678] NVRM: Xid (PCI:0000:06:00): 31, pid=7, name=a, Ch 1\n"

    log = read(dump + dump.replace("12.", "13.") + dump)

    assert (len(log.faults), log.repeated) == (2, 1)


def test_a_dump_with_times_of_day_counts_once_when_it_begins_anew() -> None:
    dump = (
        "[Fri Jan  2 11:43:09 2026] NVRM: Xid (PCI:0000:cb:00): 13, pid=1, name=a, x\n"
        "[Fri Jan  2 11:43:14 2026] NVRM: Xid (PCI:0000:cb:00): 109, pid=1, name=a, y\n"
    )

    log = read(dump + dump + dump)

    assert (len(log.faults), log.repeated) == (2, 4)


def test_lines_of_one_second_that_are_alike_are_all_counted() -> None:
    line = "2026-01-01T00:00:01Z n1 kernel: NVRM: Xid (PCI:0000:06:00): 45, Ch 1\n"

    assert len(read(line * 5).faults) == 5


def test_years_that_lines_leave_out_follow_one_another_over_new_year() -> None:
    log = read(
        "Dec 31 23:59:58 n1 kernel: NVRM: Xid (PCI:0000:06:00): 31, a\n"
        "Jan  1 00:00:02 n1 kernel: NVRM: Xid (PCI:0000:06:00): 31, b\n"
    )

    first, second = (each.t_s for each in log.faults)
    assert second - first == 4.0
    assert datetime.fromtimestamp(second, UTC).year == 2026


def test_a_leap_day_may_lie_in_the_year_before() -> None:
    log = read(
        "Feb 29 12:00:00 n1 kernel: NVRM: Xid (PCI:0000:06:00): 31, a\n"
        "Jan  1 00:00:02 n1 kernel: NVRM: Xid (PCI:0000:06:00): 31, b\n",
        now_s=datetime(2028, 6, 1, tzinfo=UTC).timestamp(),
    )

    assert log.faults[0].t_s < log.faults[1].t_s


def test_times_of_different_zones_are_compared_by_what_they_mean() -> None:
    log = read(
        "2026-01-01T01:00:00+01:00 n1 kernel: NVRM: Xid (PCI:0000:06:00): 31, a\n"
        "2026-01-01T00:00:00Z n2 kernel: NVRM: Xid (PCI:0000:06:00): 31, b\n"
    )

    assert log.faults[0].t_s == log.faults[1].t_s


def test_stamps_since_the_start_get_times_from_lines_that_have_both() -> None:
    log = read(
        "2026-01-01T00:00:10Z n1 kernel: [  10.000000] NVRM: Xid (PCI:0000:06:00): 31, a\n"
        "2026-01-01T00:00:30Z n1 kernel: [  30.000000] NVRM: Xid (PCI:0000:06:00): 31, b\n"
    )
    only_stamps = read("[  30.000000] NVRM: Xid (PCI:0000:06:00): 31, b\n")

    assert log.faults[1].t_s - log.faults[0].t_s == 20.0
    assert only_stamps.faults[0].t_s == 30.0


def test_lines_without_a_time_are_kept_and_counted() -> None:
    log = read("NVRM: Xid (PCI:0000:06:00): 31, b\nNVRM: Xid (PCI:0000:07:00): 31, b\n")

    assert log.untimed == 2
    assert all(isnan(each.t_s) for each in log.faults)


def test_a_time_further_inside_a_line_is_found() -> None:
    log = read("kern:     err: [2026-01-01T21:25:20.5Z]: NVRM: Xid (PCI:0000:06:00): 31, b\n")

    assert log.faults[0].t_s == datetime(2026, 1, 1, 21, 25, 20, 500_000, UTC).timestamp()


def test_journals_and_containers_are_unpacked() -> None:
    text = "NVRM: Xid (PCI:0000:06:00): 48, DBE"
    journal = {"__REALTIME_TIMESTAMP": "1767225600000000", "_HOSTNAME": "n7", "MESSAGE": text}
    docker = {"log": f"{text}\n", "stream": "stdout", "time": "2026-01-01T00:00:00Z"}
    cri = f"2026-01-01T00:00:00Z stdout F {text}"

    found = [read(f"{each}\n") for each in (json.dumps(journal), json.dumps(docker), cri)]

    assert [each.faults[0].t_s for each in found] == [1767225600.0] * 3
    assert [each.faults[0].node for each in found] == ["n7", "n1", "n1"]


def test_the_drivers_lines_on_a_crash_name_the_gpu() -> None:
    log = read(
        "2026-01-01T00:00:10Z n1 kernel: NVRM: GPU at PCI:0000:06:00: GPU-11-22\n"
        "2026-01-01T00:00:10Z n1 kernel: NVRM: GPU Board Serial Number: 16500\n"
        "2026-01-01T00:00:10Z n1 kernel: NVRM: Xid (PCI:0000:06:00): 79, x\n"
        "2026-01-01T00:00:11Z n1 kernel: NVRM: GPU Board Serial Number\n"
    )

    known = inventory_of(log.sightings)
    assert known.at("n1", "0000:06:00", float("nan")) == "16500"
    assert read("NVRM: GPU Board Serial Number: 1\n").sightings == []


def test_lines_are_numbered_and_long_and_cut_ones_do_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "gpu-3.log"
    cut = b"NVRM: Xid (PCI:0000:06:00): 3"
    file.write_bytes(
        b"x\n" * 1000 + b"y" * 100_000 + b"\n\xff\xfe NVRM: Xid (PCI:0000:06:00): 31\r\n" + cut
    )

    log = FaultLog()
    read_faults(file, log, now_s=NOW_S)

    assert [(each.line, each.code, each.node) for each in log.faults] == [
        (1002, 31, "gpu-3"),
        (1003, 3, "gpu-3"),
    ]
    assert log.lines == 1003
    assert log.bytes == file.stat().st_size


def test_an_empty_file_has_no_faults() -> None:
    assert read("").faults == []


def test_lines_that_ran_into_one_another_are_all_read() -> None:
    found = read(
        "2026-01-01T00:00:00Z n1 kernel: [1.0] NVRM: Xid (PCI:0000:06:00): 79, pi[1.1] NVRM: Xid "
        "(PCI:0000:07:00): 31, pid=4, name=a, Ch 1\n"
        "2026-01-01T00:00:09Z n1 kernel: [9.0] NVRM: Xid (PCI:00[9.1] NVRM: Xid (PCI:0000:08:00): "
        "13, x\n"
    )

    assert [(each.device, each.code) for each in found.faults] == [
        ("0000:06:00", 79), ("0000:07:00", 31), ("0000:08:00", 13),
    ]  # fmt: skip

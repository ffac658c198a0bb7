"""Each fault of the kernel's lines is read once, and only from lines that the kernel wrote."""

from __future__ import annotations

import pytest

from steward.health.live_faults import LiveFaults
from steward.model.event import LogLine

NOW_S = 1_700_000_000.0
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus."


def line(text: str = XID, t_s: float = NOW_S, node: str = "n1", source: str = "kernel") -> LogLine:
    return LogLine(t_s=t_s, entity=node, source=source, text=text)


def test_a_repeated_dump_fires_nothing_again() -> None:
    reader = LiveFaults()
    stamped = f"[ 1234.567890] {XID}"

    first = reader.read([line(stamped, NOW_S - 60.0), line()], NOW_S)
    again = reader.read([line(stamped, NOW_S + 600.0), line()], NOW_S + 600.0)

    assert (len(first), again, reader.repeated) == (2, [], 2)


def test_what_an_earlier_run_has_read_is_not_read_again_and_what_is_newer_is() -> None:
    reader = LiveFaults()
    reader.know("n1", NOW_S)

    assert reader.read([line()], NOW_S) == []
    assert len(reader.read([line(t_s=NOW_S + 5.0)], NOW_S + 5.0)) == 1
    assert len(reader.read([line(node="n2")], NOW_S)) == 1


def test_faults_of_more_than_a_day_ago_and_without_a_time_open_nothing() -> None:
    reader = LiveFaults()
    dump = line("[  100.000000] " + XID, source="/var/log/dmesg.0")
    faults = reader.read([line(t_s=NOW_S - 90_000.0), dump, line()], NOW_S)

    kept = reader.split_old(faults, NOW_S)

    assert [each.t_s for each in kept] == [NOW_S]
    assert (reader.old, reader.untimed) == (1, 1)


@pytest.mark.parametrize("source", ["/var/log/syslog", "slurmd", "/home/eve/kern/app.log"])
def test_what_programs_write_is_no_fault_and_no_verdict(source: str) -> None:
    reader = LiveFaults()
    stamp = "2023-11-14T22:13:20Z n1 kernel: "
    lines = [line(stamp + each, source=source) for each in (XID, "steward-diagnose: well node=n1")]

    assert reader.read(lines, NOW_S) == []
    assert reader.verdicts == []


def test_files_that_syslog_fills_with_the_kernels_lines_name_their_host() -> None:
    text = f"2023-11-14T22:13:20Z gpu-7 kernel: {XID}"
    (fault,) = LiveFaults().read([line(text, source="/var/log/kern.log")], NOW_S)

    assert (fault.node, fault.t_s) == ("gpu-7", NOW_S)


def test_a_file_that_a_person_names_counts_whatever_it_is_called() -> None:
    text = f"2023-11-14T22:13:20Z gpu-7 kernel: {XID}"

    assert len(LiveFaults(any_file=True).read([line(text, source="mine.txt")], NOW_S)) == 1


def test_a_verdict_counts_for_the_node_that_wrote_it_alone() -> None:
    reader = LiveFaults()
    texts = ("well node=n1", "bad node=n1 copy: 3 words", "well node=n2", "perhaps node=n1")

    reader.read([line(f"steward-diagnose: {each}") for each in texts], NOW_S)

    assert [(each.node, each.well) for each in reader.verdicts] == [("n1", True), ("n1", False)]


def test_a_swapped_gpu_is_noticed_by_its_uuid() -> None:
    reader = LiveFaults()

    def say(name: str) -> list[str]:
        reader.read([line(f"NVRM: GPU at PCI:0000:3b:00: {name}")], NOW_S)
        return reader.swapped

    assert (say("GPU-aa-11"), say("GPU-aa-11"), say("GPU-bb-22")) == ([], [], ["n1"])
    assert reader.gpus["n1", "0000:3b:00"] == "GPU-bb-22"


def test_a_serial_number_stands_in_the_line_after_the_place() -> None:
    reader = LiveFaults()
    lines = ["NVRM: GPU Board Serial Number: 42", "NVRM: loading NVIDIA UNIX module"]
    reader.read([line(each, node="n3") for each in lines], NOW_S)

    assert reader.gpus == {("n3", ""): "42"}
    assert reader.swapped == []


def test_lines_are_of_their_node_also_when_they_are_said_of_a_gpu() -> None:
    (fault,) = LiveFaults().read([line(node="n1/gpu3")], NOW_S)

    assert fault.node == "n1"


def test_what_is_remembered_of_lines_is_bounded() -> None:
    reader = LiveFaults()
    reader.read([line(XID.replace("79", str(k))) for k in range(100_100)], NOW_S)

    assert len(reader._seen) == 100_000

"""The kernel's ring buffer: its records, its clock, and what it has overwritten."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clients.logs.kernel_log import KernelBuffer, KernelDevice, parse


class Recorded(KernelDevice):
    """A device that gives back records, as they are read from /dev/kmsg."""

    def __init__(self, *records: bytes | OSError) -> None:
        super().__init__()
        self.records = list(records)

    def open(self, *, at_end: bool) -> None:
        if at_end:
            self.records.clear()

    def read(self) -> bytes:
        if not self.records:
            raise BlockingIOError
        record = self.records.pop(0)
        if isinstance(record, OSError):
            raise record
        return record

    def close(self) -> None:
        pass


def record(sequence: int, text: str, *, us: int = 0, flag: str = "-") -> bytes:
    return f"6,{sequence},{us},{flag};{text}\n".encode()


def buffer(*records: bytes | OSError, release: str = "6.1.0") -> KernelBuffer:
    return KernelBuffer(Recorded(*records), from_boot=True, release=release)


def texts(made: KernelBuffer, t_s: float = 1e10) -> list[str]:
    return [each.text for each in made.look(t_s)]


def test_a_record_has_a_level_a_time_and_what_it_is_about() -> None:
    raw = (
        b"3,1021,74889644138,-;NVRM: Xid (PCI:0000:02:00): 79\n"
        b" SUBSYSTEM=pci\n DEVICE=+pci:0000:02:00.0\n"
    )

    read = parse(raw)

    assert read is not None
    assert (read.sequence, read.level, read.facility) == (1021, 3, 0)
    assert read.since_boot_s == pytest.approx(74889.644138)
    assert read.text == "NVRM: Xid (PCI:0000:02:00): 79"
    assert read.about == {"SUBSYSTEM": "pci", "DEVICE": "+pci:0000:02:00.0"}


def test_bytes_that_the_kernel_has_escaped_are_read_again() -> None:
    read = parse(rb"12,1,2,-;gr\xc3\xbc\xc3\x9fe \x5c bad \xff two\x0alines" + b"\n")

    assert read is not None
    assert read.text == "grüße \\ bad \ufffd two\nlines"
    assert (read.level, read.facility) == (4, 1)


def test_fields_that_later_kernels_add_do_no_harm() -> None:
    read = parse(b"6,339,5140900,-,caller=T1;hello\n")

    assert read is not None
    assert read.text == "hello"


@given(st.binary(max_size=60))
def test_no_bytes_break_it(raw: bytes) -> None:
    read = parse(raw)

    assert read is None or b";" in raw


def test_messages_that_were_overwritten_are_counted() -> None:
    made = buffer(
        record(7, "a"), OSError(errno.EPIPE, "Broken pipe"), record(12, "b"), record(13, "c")
    )

    assert texts(made) == ["a", "b", "c"]
    assert made.lost == 4


def test_what_is_no_record_is_counted() -> None:
    made = buffer(b"nonsense", record(1, "a"))

    assert texts(made) == ["a"]
    assert made.unreadable == 1


@pytest.mark.parametrize(
    ("release", "whole"),
    [("6.1.0", ["one two three", "four"]), ("3.10.0-693.el7", ["one", "two three", "four"])],
)
def test_parts_of_a_line_are_joined_as_the_kernel_of_that_time_means_them(
    release: str, whole: list[str]
) -> None:
    parts = [record(1, "one"), record(2, " two" if release[0] == "6" else "two", flag="c")]
    parts += [record(3, " three", flag="+"), record(4, "four")]

    assert texts(buffer(*parts, release=release)) == whole


def test_a_look_takes_no_more_than_it_may() -> None:
    made = buffer(*(record(i, str(i)) for i in range(10)))

    assert [each.text for each in made.look(1e10, at_most=4)] == ["0", "1", "2", "3"]
    assert len(made.look(1e10, at_most=100)) == 6


def test_a_fault_of_the_device_is_raised() -> None:
    with pytest.raises(OSError, match="No such device"):
        buffer(OSError(errno.ENODEV, "No such device")).look(1.0)


# -- time ------------------------------------------------------------------------------------------


def test_a_record_has_the_time_of_the_wall() -> None:
    now_s, since_boot_s = time.time(), time.monotonic()
    made = buffer(record(1, "a", us=int((since_boot_s - 100.0) * 1e6)))

    (read,) = made.look(now_s)

    assert read.t_s == pytest.approx(now_s - 100.0, abs=0.5)


def test_a_record_that_came_since_the_last_look_was_written_since() -> None:
    """The kernel's clock is never corrected: after months it is minutes wrong."""
    device = Recorded()
    made = KernelBuffer(device, from_boot=True)
    now_s = time.time()
    made.look(now_s)
    slow_us = int((time.monotonic() - 300.0) * 1e6)

    device.records.append(record(1, "a", us=slow_us))
    (first,) = made.look(now_s + 10.0)
    device.records.append(record(2, "b", us=slow_us + 12_000_000))
    (second,) = made.look(now_s + 20.0)

    assert now_s <= first.t_s <= now_s + 10.0
    assert now_s + 10.0 <= second.t_s <= now_s + 20.0
    assert second.t_s - first.t_s == pytest.approx(12.0, abs=0.5)


def test_no_record_is_from_the_future() -> None:
    made = buffer(record(1, "a", us=int(1e15)))

    assert made.look(1000.0)[0].t_s == 1000.0


# -- restarts --------------------------------------------------------------------------------------


def test_a_restart_continues_with_the_next_record() -> None:
    first = buffer(record(1, "a"), record(2, "b"))
    texts(first)
    again = KernelBuffer(Recorded(*(record(i, str(i)) for i in range(1, 5))))
    again.resume(json.loads(json.dumps(first.positions())))

    assert texts(again) == ["3", "4"]
    assert again.lost == 0


def test_after_the_machine_has_restarted_all_records_are_new(tmp_path: Path) -> None:
    boot = tmp_path / "boot_id"
    boot.write_text("second\n")
    made = KernelBuffer(Recorded(record(0, "a"), record(1, "b")), boot_id=boot)
    made.resume({"boot": "first", "next": 900})

    assert texts(made) == ["a", "b"]


def test_without_a_past_it_begins_now() -> None:
    device = Recorded(record(1, "old"))
    made = KernelBuffer(device)
    assert texts(made) == []

    device.records.append(record(2, "new"))

    assert texts(made) == ["new"]


@pytest.mark.real
def test_a_line_that_is_written_to_the_kernel_is_read_back() -> None:
    made = KernelBuffer()
    made.look(time.time())
    before_s, text = time.time(), f"steward test line {os.getpid()} grüße"

    Path("/dev/kmsg").write_text(f"<4>{text}\n")
    read = [each for each in made.look(time.time()) if each.text == text]

    assert len(read) == 1
    assert read[0].level == 4
    assert before_s - 5.0 <= read[0].t_s <= time.time() + 5.0  # clocks are set meanwhile
    assert made.lost == 0

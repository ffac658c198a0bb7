from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from steward.clients.linux.pages import blocks
from steward.clients.linux.pages.blocks import ProcessPages
from steward.clients.linux.pages.mappings import mappings_of, parse_smaps
from steward.clients.linux.pages.pagemap import pages_by_block
from steward.errors import StewardError

SMAPS = b"""7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
KernelPageSize:        4 kB
Rss:                4096 kB
Referenced:         1024 kB
AnonHugePages:      2048 kB
Swap:                  0 kB
Locked:                0 kB
VmFlags: rd wr mr mw me ac
7f0000400000-7f0000600000 rw-p 00000000 00:0f 99 /anon_hugepage (deleted)
KernelPageSize:     2048 kB
Rss:                   0 kB
7f0000600000-7f0000700000 rw-p 00000000 00:00 0 [heap]
KernelPageSize:        4 kB
Rss:                 100 kB
Locked:              100 kB
7f0000700000-7f0000800000 r-xp 00000000 fe:00 12 /usr/lib/libc.so.6
Rss:                  10 kB
7f0000800000-7f00009000
"""


def test_mappings_are_read_with_their_sizes() -> None:
    first, *_ = found = parse_smaps(SMAPS)

    assert len(found) == 5
    assert (first.start, first.end) == (0x7F0000000000, 0x7F0000400000)
    assert (first.rss_bytes, first.referenced_bytes) == (4 << 20, 1 << 20)
    assert first.huge_bytes == 2 << 20


def test_only_private_memory_that_is_neither_locked_nor_of_hugetlbfs_can_be_moved() -> None:
    assert [each.can_be_moved for each in parse_smaps(SMAPS)] == [True, False, False, False, False]


@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b"garbage", b"xx-yy rw-p\nRss: 4 kB\n", b"Rss: 1 kB"]
)
def test_text_that_is_no_smaps_has_no_mappings(data: bytes) -> None:
    assert parse_smaps(data) == []


def test_an_empty_file_means_that_the_process_has_just_ended(tmp_path: Path) -> None:
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "smaps").write_bytes(b"")

    with pytest.raises(ProcessLookupError):
        mappings_of(9, tmp_path)


def test_pages_are_counted_where_ranges_cross_blocks() -> None:
    ranges = np.array([[0x1000, 0x5000, 8]], np.uint64)
    starts, ends = np.array([0, 0x2000, 0x4000]), np.array([0x2000, 0x4000, 0x9000])

    counts = pages_by_block(ranges, starts.astype(np.uint64), ends.astype(np.uint64), 4096)

    assert counts.tolist() == [1, 2, 1]
    assert pages_by_block(ranges[:0], starts, ends, 4096).tolist() == [0, 0, 0]


def test_a_process_that_is_not_there_is_an_error() -> None:
    with pytest.raises(StewardError, match="there is no process 99999999"):
        ProcessPages(99999999)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (errno.EPERM, "this user may not read its pages"),
        (errno.EACCES, "this user may not read its pages"),
        (errno.ESRCH, "the process has ended"),
        (errno.ENOTTY, "this kernel has no PAGEMAP_SCAN"),
        (errno.EIO, "input/output error"),
    ],
)
def test_what_the_kernel_refuses_is_said_in_words(code: int, problem: str) -> None:
    class Refusing:
        def residence(self, *_: int) -> None:
            raise OSError(code, "Input/output error")

        def close(self) -> None:
            pass

    import os

    reader = ProcessPages(os.getpid())
    reader.close()
    reader._pagemap = Refusing()  # type: ignore[assignment]
    with pytest.raises(StewardError) as fault:
        reader.snapshot(0.0)

    assert problem in fault.value.problem
    assert fault.value.hint
    assert fault.value.where == f"process {os.getpid()}"
    assert blocks.BLOCK_BYTES == 2 << 20

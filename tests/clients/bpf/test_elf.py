from __future__ import annotations

import ctypes
import ctypes.util
from pathlib import Path

import pytest

from steward.clients.bpf.elf import functions_in
from steward.errors import StewardError


def libc() -> Path:
    """Return the C library that this very process has mapped."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name.startswith(("libc.so", "libc-", "ld-musl")):
            return path
    raise AssertionError("no C library")


def test_a_function_begins_in_the_file_where_it_begins_in_memory() -> None:
    path = libc()
    place = functions_in(path, ["getppid", "no_such_function"])

    assert set(place) == {"getppid"}
    address = ctypes.cast(ctypes.CDLL(None).getppid, ctypes.c_void_p).value
    assert address
    in_memory = ctypes.string_at(address, 16)
    with path.open("rb") as file:
        file.seek(place["getppid"])
        assert file.read(16) == in_memory


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01" + b"\xff" * 90])
def test_what_is_no_library_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "libcuda.so.1"
    file.write_bytes(content)

    with pytest.raises(StewardError, match="not a library that can be read"):
        functions_in(file, ["cuLaunchKernel"])

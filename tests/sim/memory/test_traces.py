from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steward.errors import StewardError
from steward.sim.memory.background import flow_sizes
from steward.sim.memory.traces import read_accesses


def test_a_block_request_touches_each_page_that_it_covers(tmp_path: Path) -> None:
    file = tmp_path / "blocks.csv"
    file.write_text("version,time,op,size,lbn\n1,10,2a,512,7\n1,20,28,8192,7\n", encoding="utf-8")

    trace = read_accesses(file)

    assert trace.page.tolist() == [0, 0, 1, 2]  # 512 bytes before, and 7.5 KiB after a border
    assert (trace.lines, trace.left_out) == (64, 0)
    assert trace.think_s[0] == 0.0


def test_prompt_blocks_are_accesses(tmp_path: Path) -> None:
    file = tmp_path / "prompts.csv"
    file.write_text("t_s,input_tokens,prefix_block_ids\n0,9,4 5\n1,9,4\n", encoding="utf-8")

    assert read_accesses(file).page.tolist() == [0, 1, 0]


def test_addresses_may_be_hexadecimal_and_have_a_size(tmp_path: Path) -> None:
    file = tmp_path / "addresses.csv"
    file.write_text("t_s,address,bytes\n0,0x1000,1\n1,0x1fff,2\n2,4096,1\n", encoding="utf-8")

    trace = read_accesses(file)

    assert trace.page.tolist() == [0, 0, 1, 0]
    assert trace.lines == 1


def test_rows_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "bad.csv"
    rows = ["0,x", "1", "nan,5", "2,-5", "3,4096", ""]
    file.write_text("t_s,address\n" + "\n".join(rows) + "\n", encoding="utf-8")

    trace = read_accesses(file)

    assert len(trace) == 1
    assert trace.left_out == 5


def test_a_clock_that_goes_back_gives_no_negative_gap(tmp_path: Path) -> None:
    file = tmp_path / "back.csv"
    file.write_text("t_s,address\n10,0\n5,4096\n20,8192\n", encoding="utf-8")

    trace = read_accesses(file)

    assert trace.think_s.min() >= 0.0
    assert np.isfinite(trace.think_s).all()


@pytest.mark.parametrize("text", ["t_s,address\n", "t_s,address\n0,4096\n"])
def test_a_file_with_no_or_one_access_is_read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "few.csv"
    file.write_text(text, encoding="utf-8")

    assert len(read_accesses(file)) == text.count("4096")


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"a,b\n1,2\n", "its columns are a, b"), (b"", "none"), (b"\xff\xfe\x00", "cannot be read")],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    file = tmp_path / "other.csv"
    file.write_bytes(content)

    with pytest.raises(StewardError, match=problem):
        read_accesses(file)


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(StewardError) as fault:
        read_accesses("zipff")

    assert fault.value.hint == "did you mean 'zipf'?"


def test_a_page_size_is_a_power_of_two(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="5000 bytes"):
        read_accesses(tmp_path / "x.csv", page_bytes=5000)


def test_flow_sizes_rise(tmp_path: Path) -> None:
    file = tmp_path / "sizes.txt"
    file.write_text("0 0\n10 60\n5 100\n", encoding="utf-8")

    with pytest.raises(StewardError, match="no flow sizes"):
        flow_sizes(file)
    assert flow_sizes()[-1].tolist() == [3e7, 1.0]


@pytest.mark.data
def test_the_recorded_traces_are_read_whole() -> None:
    blocks = read_accesses("cloudphysics", accesses=10**9)
    prompts = read_accesses("mooncake", accesses=10**9)

    assert blocks.left_out == prompts.left_out == 0
    assert len(blocks) > 1_000_000
    assert len(prompts) == 288_500

from __future__ import annotations

import pytest

from made_up_kernel import ARRAY, CONST, ENUM, INT, PROTO, PTR, TYPEDEF, UNION, Blob
from steward.clients.bpf.btf import Btf, Field, kernel_types
from steward.errors import StewardError


def kernel() -> Blob:
    blob = Blob()
    u32 = blob.add("unsigned int", INT, 4, 32)
    u64 = blob.add("u64", TYPEDEF, blob.add("long", INT, 8, 64))
    inner = blob.struct("", 8, ("low", u32, 0), ("high", u32, 32), kind=UNION)
    deep = blob.struct("deep", 16, ("first", u64, 0), ("second", u32, 64))
    ids = blob.add("", ARRAY, 0, u32, u32, 3)
    task = blob.struct(
        "task_struct",
        64,
        ("state", u32, 0),
        ("", inner, 64),
        ("deep", deep, 128),
        ("ids", ids, 256),
        ("waiting", u32, 1 << 24 | 352),
        ("wide", u32, 12 << 24 | 357),
    )
    pointer = blob.add("", PTR, blob.add("", CONST, task))
    proto = blob.add("", PROTO, 0, 0, blob.add("", PTR, 0), 0, u32, 0, pointer, members=3)
    blob.add("btf_trace_switch", TYPEDEF, blob.add("", PTR, proto))
    words = (blob.name("cpu_id"), 0, blob.name("memory_id"), 4)
    blob.add("controllers", ENUM, 4, *words, members=2)
    return blob


def test_fields_are_where_the_kernel_says() -> None:
    types = Btf(kernel().bytes)

    assert types.field("task_struct", "state") == Field(offset=0, size=4)
    assert types.field("task_struct", "high") == Field(offset=12, size=4)  # through a nameless one
    assert types.field("task_struct", "deep.second") == Field(offset=24, size=4)
    assert types.field("task_struct", "deep.first").size == 8  # through a typedef
    assert types.field("task_struct", "ids").size == 12
    assert types.struct_size("deep") == 16


def test_bit_fields_are_the_fewest_bytes_that_hold_them() -> None:
    types = Btf(kernel().bytes)

    waiting = types.field("task_struct", "waiting")
    wide = types.field("task_struct", "wide")
    assert waiting == Field(offset=44, size=1, shift=0, bits=1)
    assert wide == Field(offset=44, size=4, shift=5, bits=12)
    assert (waiting.mask, wide.mask) == (1, 0xFFF)


def test_a_tracepoint_says_what_it_is_given() -> None:
    types = Btf(kernel().bytes)

    assert types.arguments("switch") == ("unsigned int", "task_struct *")
    assert types.hook("switch") > 0


def test_values_of_an_enum_are_found_by_name() -> None:
    types = Btf(kernel().bytes)

    assert types.enumerator("controllers", "memory_id") == 4
    assert types.enumerator("controllers", "pids_id") is None


def test_what_is_not_there_is_named() -> None:
    types = Btf(kernel().bytes)

    with pytest.raises(StewardError, match="no 'css_set'"):
        types.field("css_set", "x")
    with pytest.raises(StewardError, match=r"struct task_struct has no field 'deep\.third'"):
        types.field("task_struct", "deep.third")
    with pytest.raises(StewardError, match="btf_trace_wakeup"):
        types.arguments("wakeup")
    assert not types.has("task_struct", "pid")
    assert types.has("task_struct", "state")


@pytest.mark.parametrize("cut", [0, 10, 60, 200])
def test_what_is_cut_short_or_something_else_is_refused(cut: int) -> None:
    with pytest.raises(StewardError, match=r"not BTF|cut short"):
        Btf(lambda: kernel().bytes()[:cut])


def test_an_unknown_kind_of_type_is_refused() -> None:
    blob = kernel()
    blob.add("new", 25, 0)

    with pytest.raises(StewardError, match="unknown kind"):
        Btf(blob.bytes)


def test_types_that_were_put_away_are_read_again_only_for_a_new_question() -> None:
    reads = []

    def read() -> bytes:
        reads.append(1)
        return kernel().bytes()

    types = Btf(read)
    before = types.field("task_struct", "state"), types.has("task_struct", "nowhere")
    types.put_away()

    assert (types.field("task_struct", "state"), types.has("task_struct", "nowhere")) == before
    assert len(reads) == 1
    assert types.field("task_struct", "deep.second") == Field(offset=24, size=4)
    assert len(reads) == 2


def test_a_kernel_without_types_says_what_it_needs(tmp_path: object) -> None:
    from pathlib import Path

    with pytest.raises(StewardError, match="cannot be read") as caught:
        kernel_types(Path(str(tmp_path)) / "vmlinux")
    assert "CONFIG_DEBUG_INFO_BTF" in caught.value.hint

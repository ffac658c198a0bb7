from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clients.bpf.assembler import FRAME, Code, Helper, Register
from steward.errors import StewardError

R0, R1, R2, R6 = (Register(number) for number in (0, 1, 2, 6))


def made(write: str) -> str:
    """Return the bytes of what `write` does to a program."""
    code = Code("test")
    words = {"code": code, "FRAME": FRAME, "Helper": Helper, "R0": R0, "R1": R1, "R2": R2, "R6": R6}
    exec(write, words)  # noqa: S102 - our own words
    return code.encoded().hex(" ")


@pytest.mark.parametrize(
    ("write", "known"),
    [  # by the tables of the kernel's instruction-set.rst; programs of them load and run
        ("code.move(R0, 0)", "b7 00 00 00 00 00 00 00"),
        ("code.move(R6, R1)", "bf 16 00 00 00 00 00 00"),
        ("code.compute(R1, '+', -8)", "07 01 00 00 f8 ff ff ff"),
        ("code.compute(R1, '>>', R2)", "7f 21 00 00 00 00 00 00"),
        ("code.load(R1, R6, 16)", "79 61 10 00 00 00 00 00"),
        ("code.load(R1, R6, 4, size=4)", "61 61 04 00 00 00 00 00"),
        ("code.load(R1, R6, 1, size=1)", "71 61 01 00 00 00 00 00"),
        ("code.store(FRAME, -8, R1)", "7b 1a f8 ff 00 00 00 00"),
        ("code.store(FRAME, -4, 7, size=4)", "62 0a fc ff 07 00 00 00"),
        ("code.add_to(R0, 8, R1)", "db 10 08 00 00 00 00 00"),
        ("code.exchange(R0, 8, R1)", "db 10 08 00 e1 00 00 00"),
        ("code.exchange_if(R6, 0, R1)", "db 16 00 00 f1 00 00 00"),
        ("code.call(Helper.KTIME_NS)", "85 00 00 00 05 00 00 00"),
        ("code.leave()", "b7 00 00 00 00 00 00 00 95 00 00 00 00 00 00 00"),
        ("code.map(R1, 5)", "18 11 00 00 05 00 00 00 00 00 00 00 00 00 00 00"),
    ],
)
def test_instructions_are_encoded_as_the_kernel_reads_them(write: str, known: str) -> None:
    assert made(write) == known


def test_jumps_go_to_labels_before_and_after_them() -> None:
    code = Code("test")
    code.label("again")
    code.jump_if(R1, "==", 0, "out")
    code.jump_if(R1, "signed >", R2, "again")
    code.jump("again")
    code.label("out")
    code.leave()

    offsets = [struct.unpack_from("<h", code.encoded(), 8 * at + 2)[0] for at in range(3)]
    assert offsets == [2, -2, -3]
    assert code.encoded()[0] == 0x15
    assert code.encoded()[8] == 0x6D


def test_a_jump_to_nowhere_names_the_labels_that_are_there() -> None:
    code = Code("test")
    code.label("here")
    code.jump("there")

    with pytest.raises(StewardError, match="'there', which is nowhere") as caught:
        code.encoded()
    assert "here" in caught.value.hint


def test_a_label_is_set_once() -> None:
    code = Code("test")
    code.label("here")

    with pytest.raises(StewardError, match="twice"):
        code.label("here")


def test_what_does_not_fit_is_refused() -> None:
    code = Code("test")
    with pytest.raises(StewardError, match="offset 40000 does not fit into 16 bits"):
        code.load(R1, R6, 40_000)
    with pytest.raises(StewardError, match="does not fit into 32 bits"):
        code.move(R1, 1 << 31)
    code.jump("far")
    for _ in range(40_000):
        code.move(R1, 0)
    code.label("far")
    with pytest.raises(StewardError, match="way to 'far' 40000"):
        code.encoded()


@given(st.sampled_from(list(Register)), st.integers(-(1 << 31), (1 << 31) - 1))
def test_registers_and_numbers_come_back_from_the_bytes(into: Register, number: int) -> None:
    code = Code("test")
    code.compute(into, "+", number)

    _, registers, _, read = struct.unpack("<BBhi", code.encoded())
    assert (registers & 15, registers >> 4, read) == (into, 0, number)
    assert len(code) == 1

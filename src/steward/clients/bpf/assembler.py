"""Writes BPF programs as Python calls: registers, labels, one method per kind of instruction.

The encoding is that of the kernel's `Documentation/bpf/standardization/instruction-set.rst`:
eight bytes each: operation, two registers, a 16-bit offset, a 32-bit number.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from steward.errors import StewardError

__all__ = ["FRAME", "Code", "Helper", "Register"]


class Register(IntEnum):
    """R0 is a result, R1..R5 are arguments and lost in calls, R6..R9 are kept, R10 the frame."""

    R0 = 0
    R1 = 1
    R2 = 2
    R3 = 3
    R4 = 4
    R5 = 5
    R6 = 6
    R7 = 7
    R8 = 8
    R9 = 9
    R10 = 10


FRAME = Register.R10  # the end of the program's 512 bytes of stack: offsets are negative


class Helper(IntEnum):
    """Functions of the kernel that a program may call, by their number in `linux/bpf.h`."""

    MAP_LOOKUP = 1
    MAP_UPDATE = 2
    MAP_DELETE = 3
    KTIME_NS = 5
    PROCESSOR = 8
    MAP_PUSH = 87
    MAP_POP = 88
    TCP_SOCKET = 137
    TASK_STORAGE = 156
    CURRENT_TASK = 158
    TASK_REGISTERS = 175


_SIZES = {1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}
_OPERATIONS = {
    "+": 0x00,
    "-": 0x10,
    "*": 0x20,
    "/": 0x30,
    "|": 0x40,
    "&": 0x50,
    "<<": 0x60,
    ">>": 0x70,
    "%": 0x90,
    "^": 0xA0,
    "=": 0xB0,
}
_CONDITIONS = {
    "==": 0x10,
    ">": 0x20,
    ">=": 0x30,
    "&": 0x40,
    "!=": 0x50,
    "signed >": 0x60,
    "signed >=": 0x70,
    "<": 0xA0,
    "<=": 0xB0,
    "signed <": 0xC0,
}
_LOAD, _STORE_NUMBER, _STORE, _JUMP, _ARITHMETIC = 0x61, 0x62, 0x63, 0x05, 0x07
_FROM_REGISTER = 0x08
_ATOMIC = 0xC3
_FETCH = 0x01
_EXCHANGE, _COMPARE_EXCHANGE = 0xE0 | _FETCH, 0xF0 | _FETCH
_MAP = 1  # the source register that says that a wide number is a map's file descriptor


class Code:
    """A program in the making. Methods append; `encoded` resolves labels and gives the bytes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._instructions: list[tuple[int, int, int, int, int]] = []
        self._labels: dict[str, int] = {}
        self._jumps: dict[int, str] = {}
        self._fresh = 0

    def __len__(self) -> int:
        return len(self._instructions)

    # -- numbers ---------------------------------------------------------------------------------

    def compute(self, into: Register, operation: str, value: Register | int) -> None:
        """Do `into = into operation value` in 64 bits; the operation `=` moves."""
        code = _ARITHMETIC | _OPERATIONS[operation]
        if isinstance(value, Register):
            self._add(code | _FROM_REGISTER, into, value, 0, 0)
        else:
            self._add(code, into, 0, 0, value)

    def move(self, into: Register, value: Register | int) -> None:
        self.compute(into, "=", value)

    def map(self, into: Register, fd: int) -> None:
        """Name a map; the kernel turns the file descriptor into its address."""
        self._add(0x18, into, _MAP, 0, fd)
        self._add(0, 0, 0, 0, 0)

    # -- memory ----------------------------------------------------------------------------------

    def load(self, into: Register, base: Register, offset: int, *, size: int = 8) -> None:
        self._add(_LOAD | _SIZES[size], into, base, offset, 0)

    def store(self, base: Register, offset: int, value: Register | int, *, size: int = 8) -> None:
        if isinstance(value, Register):
            self._add(_STORE | _SIZES[size], base, value, offset, 0)
        else:
            self._add(_STORE_NUMBER | _SIZES[size], base, 0, offset, value)

    def add_to(self, base: Register, offset: int, value: Register) -> None:
        """Add to memory, atomically: another processor or an interrupt may do the same."""
        self._add(_ATOMIC | _SIZES[8], base, value, offset, 0)

    def exchange(self, base: Register, offset: int, value: Register) -> None:
        """Swap `value` with memory, atomically."""
        self._add(_ATOMIC | _SIZES[8], base, value, offset, _EXCHANGE)

    def exchange_if(self, base: Register, offset: int, value: Register) -> None:
        """Store `value` if memory is R0 still; R0 becomes what was there."""
        self._add(_ATOMIC | _SIZES[8], base, value, offset, _COMPARE_EXCHANGE)

    # -- flow ------------------------------------------------------------------------------------

    def fresh(self, word: str) -> str:
        """Return a label that nobody has, for pieces that are used more than once."""
        self._fresh += 1
        return f"{word}#{self._fresh}"

    def label(self, name: str) -> None:
        if name in self._labels:
            raise StewardError(f"the label '{name}' is there twice", where=self.name)
        self._labels[name] = len(self._instructions)

    def jump(self, label: str) -> None:
        self._jumps[len(self._instructions)] = label
        self._add(_JUMP, 0, 0, 0, 0)

    def jump_if(self, left: Register, condition: str, right: Register | int, label: str) -> None:
        """Jump when it holds, unsigned unless it says signed; `&` holds when a bit is common."""
        self._jumps[len(self._instructions)] = label
        code = _JUMP | _CONDITIONS[condition]
        if isinstance(right, Register):
            self._add(code | _FROM_REGISTER, left, right, 0, 0)
        else:
            self._add(code, left, 0, 0, right)

    def call(self, helper: Helper) -> None:
        self._add(0x85, 0, 0, 0, helper)

    def leave(self, value: int = 0) -> None:
        """End the program."""
        self.move(Register.R0, value)
        self._add(0x95, 0, 0, 0, 0)

    # -- bytes -----------------------------------------------------------------------------------

    def encoded(self) -> bytes:
        """Return the program as the kernel wants it."""
        return b"".join(
            struct.pack(
                "<BBhi",
                code,
                into | source << 4,
                self._distance(at) if at in self._jumps else offset,
                number,
            )
            for at, (code, into, source, offset, number) in enumerate(self._instructions)
        )

    def _distance(self, at: int) -> int:
        label = self._jumps[at]
        if label not in self._labels:
            raise StewardError(
                f"jumps to '{label}', which is nowhere",
                where=self.name,
                hint=f"labels: {', '.join(sorted(self._labels)) or 'none'}",
            )
        return _within(self._labels[label] - at - 1, 16, what=f"way to '{label}'", where=self.name)

    def _add(self, code: int, into: int, source: int, offset: int, number: int) -> None:
        _within(offset, 16, what="offset", where=self.name)
        _within(number, 32, what="number", where=self.name)
        self._instructions.append((code, into, source, offset, number))


def _within(value: int, bits: int, *, what: str, where: str) -> int:
    most = 1 << (bits - 1)
    if -most <= value < most:
        return value
    raise StewardError(f"{what} {value} does not fit into {bits} bits", where=where)

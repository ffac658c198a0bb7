"""Reads network interfaces, each and together, and what TCP and UDP count."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

from steward.clients.linux.files import UNREADABLE, AbsentError, OpenFile
from steward.model.layout import Block

__all__ = ["Network", "Protocols"]

_STRIDE = 17  # a name, eight numbers received, eight sent
_FIELDS = (1, 2, 3, 4, 9, 10, 11, 12)
_NAMES = tuple(
    f"net.{way}_{what}"
    for way in ("receive", "transmit")
    for what in ("bytes", "packets", "errors", "drops")
)
_ALL = ("net.receive_bytes/all", "net.transmit_bytes/all")
_TCP = ("CurrEstab", "InSegs", "OutSegs", "RetransSegs", "InErrs", "EstabResets")
_PROTOCOLS = (
    *(f"snmp.Tcp.{key}" for key in _TCP),
    "snmp.Udp.InErrors",
    "snmp.Udp.RcvbufErrors",
    "netstat.TcpExt.TCPTimeouts",
    "netstat.TcpExt.ListenDrops",
)
_GAUGES = ("snmp.Tcp.CurrEstab",)


class Network:
    """Interfaces with hardware behind them, and the sum of all but loopback.

    Where none has hardware (a container), all but loopback are named.
    """

    def __init__(self, proc: Path, sys: Path) -> None:
        self._file = OpenFile(_net(proc) / "dev")
        self._folder = sys / "class/net"
        self._names = self._tokens()[::_STRIDE]
        self._cards = self._cards_of(self._names)
        if not self._cards:
            raise AbsentError("no interface in /proc/net/dev")
        self._starts = self._locate()
        self.changed = False
        self.blocks = (
            Block(entity="", names=_ALL),
            *(Block(entity=f"/net:{name.decode()}", names=_NAMES) for name in self._cards),
        )

    def read(self) -> list[float]:
        tokens = self._tokens()
        names = tokens[::_STRIDE]
        if names != self._names:
            self._names = names
            self._starts = self._locate()
            # On a node with containers, interfaces without hardware come and go all the time.
            self.changed = set(self._cards_of(names)) != set(self._cards)
        values = [_sum(tokens, 1), _sum(tokens, 9)]
        for start in self._starts:
            values += (
                [float(tokens[start + field]) for field in _FIELDS]
                if start >= 0
                else [math.nan] * len(_FIELDS)
            )
        return values

    def _cards_of(self, names: Sequence[bytes]) -> list[bytes]:
        others = [name for name in names if name != b"lo"]
        return [
            name for name in others if (self._folder / name.decode() / "device").exists()
        ] or others

    def _locate(self) -> list[int]:
        at = {name: i * _STRIDE for i, name in enumerate(self._names)}
        return [at.get(name, -1) for name in self._cards]

    def _tokens(self) -> list[bytes]:
        data = self._file.read()
        start = data.find(b"\n", data.find(b"\n") + 1)  # two lines of headings
        tokens = data[start:].replace(b":", b" ").split()
        if start < 0 or len(tokens) % _STRIDE:
            raise ValueError("/proc/net/dev is cut short")
        return tokens


def _net(proc: Path) -> Path:
    """Return where the machine's network is: that of its first process, and not that of ours."""
    first = proc / "1/net"
    return first if os.access(first / "dev", os.R_OK) else proc / "net"


def _sum(tokens: list[bytes], field: int) -> float:
    numbers = zip(tokens[::_STRIDE], tokens[field::_STRIDE], strict=True)
    return float(sum(int(number) for name, number in numbers if name != b"lo"))


class Protocols:
    """TCP and UDP: /proc/net/snmp and netstat, where a line of names precedes one of numbers."""

    changed = False

    def __init__(self, proc: Path) -> None:
        self._files: list[tuple[OpenFile, list[int]]] = []
        names: list[str] = []
        for name in ("snmp", "netstat"):
            file = OpenFile(_net(proc) / name)
            places = _places(file)
            self._files.append((file, list(places.values())))
            names += [key if key in _GAUGES else f"{key}/s" for key in places]
        if not names:
            raise AbsentError("neither TCP nor UDP in /proc/net/snmp")
        self.blocks = (Block(entity="", names=tuple(names)),)

    def read(self) -> list[float]:
        values: list[float] = []
        for file, places in self._files:
            tokens = file.read().split() if places else []
            values += [float(tokens[place]) for place in places]
        return values


def _places(file: OpenFile) -> dict[str, int]:
    """Return which token of a file has each number that is wanted."""
    try:
        lines = file.read().decode("ascii", "replace").splitlines()
    except UNREADABLE:
        return {}
    found: dict[str, int] = {}
    at = 0
    for names, numbers in zip(lines[::2], lines[1::2], strict=False):
        keys, values = names.split(), numbers.split()
        at += len(keys)
        found.update(_known(file.path.name, keys, range(at, at + len(values))))
        at += len(values)
    return found


def _known(file: str, keys: Sequence[str], places: Sequence[int]) -> dict[str, int]:
    protocol = keys[0].rstrip(":") if keys else ""
    named = zip((f"{file}.{protocol}.{key}" for key in keys), places, strict=False)
    return {name: place for name, place in named if name in _PROTOCOLS}

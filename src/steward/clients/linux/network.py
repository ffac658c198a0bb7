"""Reads network interfaces, each and together, and what TCP and UDP count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steward.clients.linux.files import UNREADABLE, OpenFile
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
    *(f"snmp.Tcp.{word}" for word in _TCP),
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
        self._file = OpenFile(proc / "net" / "dev")
        tokens = self._tokens()
        self._names = tokens[::_STRIDE]
        others = [i for i, name in enumerate(self._names) if name != b"lo"]
        if not others:
            raise FileNotFoundError(f"no interface in {proc / 'net/dev'}")
        self._loopback = [i for i, name in enumerate(self._names) if name == b"lo"]
        cards = [
            i for i in others if (sys / "class/net" / self._names[i].decode() / "device").exists()
        ] or others
        self._places = [i * _STRIDE + field for i in cards for field in _FIELDS]
        self.changed = False
        self.blocks = (
            Block(entity="", names=_ALL),
            *(Block(entity=f"/net:{self._names[i].decode()}", names=_NAMES) for i in cards),
        )

    def read(self) -> list[float]:
        tokens = self._tokens()
        if tokens[::_STRIDE] != self._names:
            self.changed = True  # an interface came or went
            raise ValueError("other interfaces than before")
        values = [float(tokens[place]) for place in self._places]
        return [self._sum(tokens, 1), self._sum(tokens, 9), *values]

    def _tokens(self) -> list[bytes]:
        data = self._file.read()
        start = data.find(b"\n", data.find(b"\n") + 1)  # two lines of headings
        tokens = data[start:].replace(b":", b" ").split()
        if start < 0 or len(tokens) % _STRIDE:
            raise ValueError("/proc/net/dev is cut short")
        return tokens

    def _sum(self, tokens: list[bytes], field: int) -> float:
        whole = sum(map(int, tokens[field::_STRIDE]))
        return float(whole - sum(int(tokens[i * _STRIDE + field]) for i in self._loopback))


class Protocols:
    """TCP and UDP: /proc/net/snmp and netstat, where a line of names precedes one of numbers."""

    changed = False

    def __init__(self, proc: Path) -> None:
        self._files: list[tuple[OpenFile, list[int]]] = []
        names: list[str] = []
        for name in ("snmp", "netstat"):
            file = OpenFile(proc / "net" / name)
            places = _places(file)
            self._files.append((file, list(places.values())))
            names += [word if word in _GAUGES else f"{word}/s" for word in places]
        if not names:
            raise FileNotFoundError(proc / "net/snmp")
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
        words, values = names.split(), numbers.split()
        at += len(words)
        found.update(_known(file.path.name, words, range(at, at + len(values))))
        at += len(values)
    return found


def _known(file: str, words: Sequence[str], places: Sequence[int]) -> dict[str, int]:
    protocol = words[0].rstrip(":") if words else ""
    named = zip((f"{file}.{protocol}.{word}" for word in words), places, strict=False)
    return {name: place for name, place in named if name in _PROTOCOLS}

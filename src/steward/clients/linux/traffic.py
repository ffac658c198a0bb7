"""Shapes what leaves an interface of this machine with the kernel's traffic control.

One `htb` queueing discipline with the handle 57 is ours: class 1 takes whatever is not capped, and
each cap is a class of its own with the filters that lead to it. `u32` chooses by address and port,
a BPF classifier by cgroup. How it is can be read back, so nothing is kept here: a restart in
between changes nothing. What somebody else has set up on an interface is left alone.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steward.errors import PermanentError, StewardError, TemporaryError

__all__ = ["Match", "TrafficShaper", "class_number"]

HANDLE = "57:"
_UNCAPPED = "57:1"
_UNLIMITED = "100gbit"
_PLAIN = ("noqueue", "pfifo_fast", "fq_codel", "mq", "pfifo")  # what kernels begin with
_CGROUP_MARK = (0x5354455741524447).to_bytes(8, "little")
_CLASS_MARK = (0x53434C53).to_bytes(4, "little")
_PROGRAM = Path(__file__).parent.parent / "bpf" / "programs" / "cgroup_class.bpf.o"
_LEAST_BURST = 15_000  # bytes: some packets of 1,500, or one of a jumbo frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which packets are meant: all that is given has to fit."""

    to_address: str = ""  # an address or network, IPv4
    to_port: int = 0
    from_port: int = 0
    cgroup: str = ""  # folder of a cgroup (version 2)

    def __post_init__(self) -> None:
        if self.to_address:
            try:
                ipaddress.IPv4Network(self.to_address, strict=False)
            except ValueError:
                raise StewardError(f"'{self.to_address}' is no IPv4 address or network") from None
        if not (0 <= self.to_port < 65536 and 0 <= self.from_port < 65536):
            raise StewardError("a port is a number below 65536")
        narrow = bool(self.to_address or self.to_port or self.from_port)
        if narrow == bool(self.cgroup):
            raise StewardError("a match names a cgroup, or an address or port")


class TrafficShaper:
    """One interface; `namespace` is a network namespace by name, "" the one we are in."""

    def __init__(self, interface: str, *, namespace: str = "", timeout_s: float = 10.0) -> None:
        self.interface = interface
        self._prefix = ["ip", "netns", "exec", namespace] if namespace else []
        self._timeout_s = timeout_s

    def caps(self) -> dict[int, float]:
        """Return caps in bytes a second, by the number of their class; none if it is not ours."""
        if self._root() != "htb":
            return {}
        found = {}
        for each in self._classes():
            minor = int(str(each["handle"]).partition(":")[2], 16)
            if minor != 1 and "rate" in each:
                found[minor] = float(str(each["rate"]))
        return found

    def cap(self, number: int, matches: Sequence[Match], bytes_per_s: float) -> None:
        """Let packets that match pass at this rate at most; set anew, it changes the rate."""
        for command in self.to_cap(number, matches, bytes_per_s):
            self._do(command)
        for match in matches:
            if match.cgroup:
                self._by_cgroup(number, match.cgroup)

    def release(self, number: int) -> None:
        """Take a cap off, and all of it with the last one."""
        if number not in self.caps():
            return
        for command in self.to_release(number):
            self._do(command)
        if not self.caps():
            self._do(["tc", "qdisc", "del", "dev", self.interface, "root"])

    def to_cap(self, number: int, matches: Sequence[Match], bytes_per_s: float) -> list[list[str]]:
        """Return the commands that set a cap, as things are now; filters of cgroups come after."""
        if not 2 <= number <= 0xFFFE:
            raise StewardError(f"a class has a number from 2 to 65534, not {number}")
        if bytes_per_s < 1000:
            raise StewardError("a cap below 1,000 bytes a second would stop a job")
        commands = []
        root = self._root()
        if root != "htb":
            if root not in _PLAIN:
                raise PermanentError(
                    f"{self.interface} has a queueing discipline '{root}' that is not steward's"
                )
            dev = ["dev", self.interface]
            commands += [
                ["tc", "qdisc", "replace", *dev, "root", "handle", HANDLE, "htb", "default", "1"],
                ["tc", "class", "replace", *dev, "parent", HANDLE, "classid", _UNCAPPED, "htb",
                 "rate", _UNLIMITED, "quantum", "60000"],
            ]  # fmt: skip
        elif number in self.caps():
            commands.append(self._class(number, bytes_per_s))
            return commands
        commands.append(self._class(number, bytes_per_s))
        return commands + [self._filter(number, each) for each in matches if not each.cgroup]

    def to_release(self, number: int) -> list[list[str]]:
        """Return the commands that take a cap off."""
        dev = ["dev", self.interface]
        commands = []
        if any(each.get("pref") == number for each in self._filters()):
            commands.append(["tc", "filter", "del", *dev, "parent", HANDLE, "pref", str(number)])
        return [*commands, ["tc", "class", "del", *dev, "classid", f"{HANDLE}{number:x}"]]

    def shown(self, commands: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """Return commands as a person would type them."""
        return tuple(shlex.join([*self._prefix, *each]) for each in commands)

    # -- the parts -----------------------------------------------------------------------------

    def _class(self, number: int, bytes_per_s: float) -> list[str]:
        rate = f"{bytes_per_s * 8:.0f}bit"
        burst = str(max(int(bytes_per_s / 250), _LEAST_BURST))
        return [
            "tc", "class", "replace", "dev", self.interface, "parent", HANDLE,
            "classid", f"{HANDLE}{number:x}", "htb", "rate", rate, "ceil", rate,
            "burst", burst, "cburst", burst, "quantum", "60000",
        ]  # fmt: skip

    def _filter(self, number: int, match: Match) -> list[str]:
        wanted: list[str] = []
        if match.to_address:
            wanted += ["match", "ip", "dst", match.to_address]
        if match.to_port:
            wanted += ["match", "ip", "dport", str(match.to_port), "0xffff"]
        if match.from_port:
            wanted += ["match", "ip", "sport", str(match.from_port), "0xffff"]
        return [
            "tc", "filter", "add", "dev", self.interface, "parent", HANDLE, "protocol", "ip",
            "pref", str(number), "u32", *wanted, "flowid", f"{HANDLE}{number:x}",
        ]  # fmt: skip

    def _by_cgroup(self, number: int, cgroup: str) -> None:
        """Lead the packets of a cgroup to a class, unless they are led there."""
        if any(each.get("pref") == number for each in self._filters()):
            return
        try:
            inode = Path(cgroup).stat().st_ino
        except OSError as error:
            raise PermanentError(f"the cgroup {cgroup} is not there: {error.strerror}") from None
        class_id = (0x57 << 16) | number
        program = _PROGRAM.read_bytes()
        program = program.replace(_CGROUP_MARK, inode.to_bytes(8, "little"))
        program = program.replace(_CLASS_MARK, class_id.to_bytes(4, "little"))
        with tempfile.NamedTemporaryFile(suffix=".o") as file:
            file.write(program)
            file.flush()
            self._do(
                ["tc", "filter", "add", "dev", self.interface, "parent", HANDLE, "protocol", "ip",
                 "pref", str(number), "bpf", "obj", file.name, "sec", "tc"]
            )  # fmt: skip

    def _root(self) -> str:
        """Return the kind of the root queueing discipline; `htb` only where it is ours."""
        for each in json.loads(
            self._do(["tc", "-j", "qdisc", "show", "dev", self.interface]) or "[]"
        ):
            if each.get("root"):
                kind = str(each["kind"])
                return "htb (not ours)" if kind == "htb" and each["handle"] != HANDLE else kind
        return "noqueue"

    def _classes(self) -> list[dict[str, object]]:
        """Return the classes; this version of tc writes JSON for them in newer releases only."""
        text = self._do(["tc", "class", "show", "dev", self.interface])
        found: list[dict[str, object]] = []
        for line in text.splitlines():
            words = line.split()
            if words[:2] == ["class", "htb"] and words[2].startswith(HANDLE) and "rate" in words:
                rate = _rate(words[words.index("rate") + 1])
                found.append({"handle": words[2], "rate": rate})
        return found

    def _filters(self) -> list[dict[str, object]]:
        command = ["tc", "-j", "filter", "show", "dev", self.interface, "parent", HANDLE]
        text = self._do(command) if self._root() == "htb" else ""
        return list(json.loads(text or "[]"))

    def _do(self, command: Sequence[str]) -> str:
        try:
            ran = subprocess.run(  # noqa: S603 - words of our own, no shell
                [*self._prefix, *command],
                capture_output=True,
                text=True,
                timeout=self._timeout_s,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
        except FileNotFoundError:
            raise PermanentError("there is no `tc` here: install iproute2") from None
        except subprocess.TimeoutExpired:
            raise TemporaryError(f"`{' '.join(command[:3])}` does not answer") from None
        if ran.returncode:
            said = (ran.stderr.strip() or f"status {ran.returncode}").splitlines()[-1]
            raise PermanentError(f"`{shlex.join(command)}`: {said}")
        return ran.stdout


def class_number(name: str) -> int:
    """Return the number of the class of a job: the same wherever it is asked for.

    >>> class_number("812") == class_number("812"), 2 <= class_number("x") <= 65534
    (True, True)
    """
    digest = hashlib.blake2b(name.encode(), digest_size=4).digest()
    return 2 + int.from_bytes(digest, "big") % 65_533


_UNITS = {"gbit": 1e9, "mbit": 1e6, "kbit": 1e3, "bit": 1.0}  # the longest first


def _rate(text: str) -> float:
    """Return bytes a second of a rate as tc writes it.

    >>> _rate("20Mbit"), _rate("800bit"), _rate("1500Kbit")
    (2500000.0, 100.0, 187500.0)
    """
    for unit, bits in _UNITS.items():
        number = text.lower().removesuffix(unit)
        if number != text.lower():
            return float(number) * bits / 8
    return float("nan")

"""Which kernel lines are events: a table of patterns, preselected by literals.

To search for a literal costs 40 ns; one expression for all of them, tried first, cost ten times as
much as all the literals together.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from steward.model.faults.xids import meaning_of

__all__ = ["KERNEL_PATTERNS", "KernelMatch", "KernelPattern", "matched"]

Groups = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPattern:
    """A form of line that means something.

    Named groups identify the entity: `bus` (PCI), `disk`, `net`, `switch`, `pid`, `cgroup`.
    """

    kind: str
    literals: tuple[str, ...]  # one of them is in every such line; letters as they are there
    pattern: re.Pattern[str]
    meaning: str | Callable[[Groups], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMatch:
    """The meaning of a line, and its named groups."""

    kind: str
    meaning: str
    groups: Groups


def sign(
    kind: str, literals: str, pattern: str, meaning: str | Callable[[Groups], str]
) -> KernelPattern:
    """Write one row of the table; literals are separated by `|`."""
    return KernelPattern(
        kind=kind,
        literals=tuple(literals.split("|")),
        pattern=re.compile(pattern),
        meaning=meaning,
    )


def _xid(groups: Groups) -> str:
    return meaning_of(int(groups["code"]))


def _sxid(groups: Groups) -> str:
    how = f" ({groups['how'].lower()})" if groups.get("how") else ""
    return f"SXid {groups['code']}{how}: an NVSwitch reports an error"


_BUS = r"(?P<bus>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})"
_NET = r"\b(?!SATA|link)(?P<net>[A-Za-z][\w.@-]{0,14})"
_DISK = r"(?P<disk>[a-z][\w-]{1,31})"
_PID = r"(?P<pid>\d+)"

KERNEL_PATTERNS: tuple[KernelPattern, ...] = (
    # -- GPUs and their switches
    sign(
        "gpu.xid",
        "NVRM: Xid",
        rf"NVRM: Xid \(PCI:{_BUS}(?:\.\d)?\): (?P<code>\d+)(?:, pid='?(?:{_PID}|<unknown>)'?)?",
        _xid,
    ),
    sign(
        "gpu.lost",
        "fallen off the bus",
        rf"NVRM:.* GPU (?:at PCI:)?{_BUS}(?:\.\d)?:? .*fallen off the bus",
        "the GPU has fallen off the bus; the node has to be restarted",
    ),
    sign(
        "gpu.sxid",
        "SXid (",
        r"nvidia-nvswitch(?P<switch>\d+): SXid \(PCI:[\w:.]+\): (?P<code>\d+), (?!Data )"
        r"(?:(?P<how>Fatal|Non-fatal))?",
        _sxid,
    ),
    sign(
        "gpu.firmware-silent",
        "Heartbeat timed out",
        r"NVRM: GPU\d+ \w+: Heartbeat timed out",
        "the GPU's system processor does not answer",
    ),
    sign(
        "gpu.driver-failed",
        "NVRM: RmInitAdapter|NVRM: API mismatch|NVRM: GPU",
        rf"NVRM: (?:GPU {_BUS}\.\d: )?(?:RmInitAdapter failed|API mismatch)",
        "the NVIDIA driver cannot use a GPU",
    ),
    # -- processes
    sign(
        "process.out-of-memory",
        "oom-kill:",
        rf"oom-kill:constraint=.*task_memcg=(?P<cgroup>[^,]*),task=(?P<task>[^,]*),pid={_PID}",
        "memory ran out and a process was killed",
    ),
    sign(
        "process.out-of-memory",
        "ut of memory: Kill",
        rf"(?:O|cgroup o)ut of memory: Kill(?:ed)? process {_PID} ",
        "memory ran out and a process was killed",
    ),
    sign(
        "process.crashed",
        "segfault at|general protection|trap invalid opcode|trap divide error|trap int3",
        rf"(?:\S+\[{_PID}\]:? (?:segfault at|general protection|trap (?:invalid|divide|int3)))",
        "a process crashed",
    ),
    sign(
        "process.hung",
        "blocked for more than",
        rf"INFO: task .+:{_PID} blocked for more than \d+ seconds",
        "a process waits in the kernel and cannot go on",
    ),
    # -- processors and memory
    sign(
        "host.locked-up",
        "lockup|LOCKUP|detected stall",
        r"(?:BUG: soft lockup - CPU#\d+ stuck|hard LOCKUP on cpu|self-detected stall on CPU|"
        r"detected stalls on CPUs)",
        "a core is stuck in the kernel",
    ),
    sign(
        "host.memory-uncorrected",
        "EDAC ",
        r"EDAC .*\b\d+ (?:UE|uncorrected|Uncorrected)\b",
        "memory had an error that could not be corrected",
    ),
    sign(
        "host.memory-corrected",
        "EDAC ",
        r"EDAC .*\b\d+ (?:CE|corrected|Corrected)\b",
        "memory had an error that was corrected",
    ),
    sign(
        "host.hardware-error",
        "[Hardware Error]",
        r"\[Hardware Error\]:\s+(?:Machine check events logged|CPU \d+: Machine Check|"
        r"event severity: |section_type: )",
        "the hardware reports an error",
    ),
    sign(
        "host.hot",
        "clock throttled",
        r"(?:Core|Package) temperature(?:/speed)? above threshold, cpu clock throttled",
        "a processor is too hot and runs slower",
    ),
    sign(
        "host.kernel-fault",
        "Kernel panic|kernel BUG at|BUG: unable to handle|Oops: ",
        r"(?:Kernel panic - not syncing|kernel BUG at |BUG: unable to handle|Oops: [0-9a-f]{4})",
        "the kernel itself failed",
    ),
    # -- PCI Express; the lines "AER: ... error received" only announce these
    sign(
        "pcie.uncorrected",
        "PCIe Bus Error",
        rf"{_BUS}\.\d: (?:AER: )?PCIe Bus Error: severity=Uncorrect",
        "PCI Express had an error that could not be corrected",
    ),
    sign(
        "pcie.corrected",
        "PCIe Bus Error",
        rf"{_BUS}\.\d: (?:AER: )?PCIe Bus Error: severity=Correct",
        "PCI Express had an error that was corrected",
    ),
    sign(
        "pcie.power",
        "insufficient power",
        rf"{_BUS}\.\d: .*insufficient power on the PCIe slot",
        "a PCI Express slot gives too little power",
    ),
    # -- disks and file systems
    sign(
        "disk.failed",
        "controller is down|Removing after probe failure|Disabling device after reset",
        rf"nvme {_DISK}: (?:controller is down; will reset|Removing after probe failure|"
        r"Disabling device after reset)",
        "a disk does not answer",
    ),
    sign(
        "disk.slow",
        ", aborting|, reset controller|, completion polled|, disable controller",
        rf"nvme {_DISK}: I/O (?:tag )?\d+ .*QID \d+ timeout, ",
        "a disk did not answer in time",
    ),
    sign(
        "disk.error",
        "I/O error|medium error|target error",
        rf"(?:I/O|medium|target) error,? (?:on )?dev(?:ice)? {_DISK}, ",
        "a disk could not read or write",
    ),
    sign(
        "files.read-only",
        "read-only|readonly|hutting down filesystem|has been shut down|hut down filesystem",
        rf"(?:EXT[234]-fs|BTRFS|XFS|F2FS-fs)\b.*\((?:device )?{_DISK}\).*(?:Remounting filesystem "
        r"read-only|forced readonly|[Ss]hutting down filesystem|has been shut down)",
        "a file system can no longer be written to",
    ),
    sign(
        "files.error",
        "EXT4-fs error|EXT3-fs error|orruption|BTRFS error|BTRFS: error|BTRFS critical|log I/O err",
        rf"(?:EXT[234]-fs error|BTRFS:? (?:error|critical)|XFS) \((?:device )?{_DISK}\)"
        r"(?!: (?:Mounting|Ending|Starting))",
        "a file system has found an error",
    ),
    sign(
        "files.silent",
        "not responding",
        r"nfs: server (?P<server>\S+) not responding",
        "a file server does not answer; programs that use it wait",
    ),
    sign(
        "files.back",
        "nfs: server",
        r"nfs: server (?P<server>\S+) OK",
        "a file server answers again",
    ),
    sign(
        "files.silent",
        "Lustre: ",
        r"Lustre: .*: Connection to (?P<server>\S+) .*was lost",
        "a file server does not answer; programs that use it wait",
    ),
    # -- network
    sign(
        "link.down",
        "definitely down for interface",
        r"link status definitely down for interface (?P<net>[\w.@-]+)",
        "a network link went down",
    ),
    sign(
        "link.up",
        "definitely up for interface",
        r"link status definitely up for interface (?P<net>[\w.@-]+)",
        "a network link came up",
    ),
    sign(
        "link.down",
        "ink down|ink Down|ink is Down|ink is down|ink is DOWN|definitely down",
        rf"{_NET}\)?:? (?:NIC )?[Ll]ink (?:is |status definitely )?(?:[Dd]own|DOWN)\b",
        "a network link went down",
    ),
    sign(
        "link.down",
        "Cable unplugged",
        rf"{_BUS}\.\d: Port module event.*Cable unplugged",
        "a network cable was pulled",
    ),
    sign(
        "link.up",
        "ink up|ink Up|ink is Up|ink is up|definitely up|link becomes ready",
        rf"{_NET}\)?:? (?:NIC )?[Ll]ink (?:is |status definitely )?(?:[Uu]p\b|becomes ready)",
        "a network link came up",
    ),
)


def _by_literal() -> dict[str, tuple[KernelPattern, ...]]:
    literals = dict.fromkeys(literal for each in KERNEL_PATTERNS for literal in each.literals)
    return {
        literal: tuple(each for each in KERNEL_PATTERNS if literal in each.literals)
        for literal in literals
    }


_PATTERNS_BY_LITERAL = _by_literal()


def matched(text: str) -> KernelMatch | None:
    """Return what a line of the kernel means; None for nearly all of them.

    >>> matched("NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus.").kind
    'gpu.xid'
    """
    for literal in [literal for literal in _PATTERNS_BY_LITERAL if literal in text]:
        for each in _PATTERNS_BY_LITERAL[literal]:
            match = each.pattern.search(text)
            if match:
                groups = {key: value for key, value in match.groupdict().items() if value}
                meaning = each.meaning if isinstance(each.meaning, str) else each.meaning(groups)
                return KernelMatch(kind=each.kind, meaning=meaning, groups=groups)
    return None

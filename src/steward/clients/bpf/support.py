"""Says what stands in the way of probes on this machine, without loading any."""

from __future__ import annotations

import platform
import re
from pathlib import Path

from steward.clients.bpf.btf import VMLINUX, kernel_types
from steward.clients.bpf.programs.shared import ProbeSet
from steward.errors import StewardError

__all__ = ["MACHINES", "obstacle", "refusals"]

MACHINES = ("x86_64", "aarch64")

_SYS_ADMIN, _PERFMON, _BPF = 21, 38, 39
_OLDEST = (5, 13)  # memory of tasks that tracing programs may use


def obstacle(*, types: Path = VMLINUX, proc: Path = Path("/proc")) -> StewardError | None:
    """Return why no probe at all can run here, or None."""
    if platform.machine() not in MACHINES:
        return StewardError(
            f"probes are not known for {platform.machine()} processors",
            hint=f"they are for {' and '.join(MACHINES)}",
        )
    release = (proc / "sys/kernel/osrelease").read_text().strip()
    version = tuple(int(part) for part in re.findall(r"\d+", release)[:2])
    if version < _OLDEST:
        return StewardError(
            f"the kernel is {release}; probes need {_OLDEST[0]}.{_OLDEST[1]}",
            hint="use a newer kernel",
        )
    if not types.exists():
        return StewardError(
            f"{types} is missing: this kernel does not describe its types",
            hint="it needs a kernel with CONFIG_DEBUG_INFO_BTF",
        )
    if not _allowed(proc):
        return StewardError(
            "this user may not load probes",
            hint="run as root, or give CAP_BPF and CAP_PERFMON (and CAP_SYS_PTRACE, for CUDA)",
        )
    return None


def refusals(sets: tuple[ProbeSet, ...], *, types: Path = VMLINUX) -> dict[str, str]:
    """Return the sets whose hooks this kernel lacks or has changed, each with the reason."""
    refused = {}
    known = kernel_types(types)
    for each in sets:
        try:
            each.check(known)
        except StewardError as fault:
            refused[each.name] = fault.problem
    return refused


def _allowed(proc: Path) -> bool:
    try:
        status = (proc / "self/status").read_text()
    except OSError:
        return False
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    have = int(found.group(1), 16) if found else 0
    return bool(have >> _SYS_ADMIN & 1) or bool(have >> _BPF & 1 and have >> _PERFMON & 1)

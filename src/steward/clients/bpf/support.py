"""Checks what prevents probes on this machine, without loading any."""

from __future__ import annotations

import ctypes
import platform
import re
from pathlib import Path

from steward.errors import StewardError

__all__ = ["LIBRARY", "MACHINES", "VMLINUX", "obstacle"]

LIBRARY = "libbpf.so.1"
MACHINES = ("x86_64", "aarch64")
VMLINUX = Path("/sys/kernel/btf/vmlinux")

_SYS_ADMIN, _PERFMON, _BPF = 21, 38, 39
_OLDEST = (5, 13)  # memory of tasks that tracing programs may use


def obstacle(
    *, vmlinux: Path = VMLINUX, proc: Path = Path("/proc"), library: str = LIBRARY
) -> StewardError | None:
    """Return why no probe at all can run here, or None."""
    if platform.machine() not in MACHINES:
        return StewardError(
            f"probes do not run on {platform.machine()} processors",
            hint=f"they run on {' and '.join(MACHINES)}",
        )
    release = (proc / "sys/kernel/osrelease").read_text().strip()
    version = tuple(int(part) for part in re.findall(r"\d+", release)[:2])
    if version < _OLDEST:
        return StewardError(
            f"the kernel is {release}; probes need {_OLDEST[0]}.{_OLDEST[1]}",
            hint="use a newer kernel",
        )
    if not vmlinux.exists():
        return StewardError(
            f"{vmlinux} is missing: this kernel does not describe its types",
            hint="it needs a kernel with CONFIG_DEBUG_INFO_BTF",
        )
    if not _found(library):
        return StewardError(
            f"{library} is not installed",
            hint="apt-get install libbpf1 (Debian, Ubuntu) or dnf install libbpf (Fedora, RHEL)",
        )
    if not _allowed(proc):
        return StewardError(
            "this user may not load probes",
            hint="run as root, or give CAP_BPF and CAP_PERFMON (and CAP_SYS_PTRACE, for CUDA)",
        )
    return None


def _found(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _allowed(proc: Path) -> bool:
    try:
        status = (proc / "self/status").read_text()
    except OSError:
        return False
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    have = int(found.group(1), 16) if found else 0
    return bool(have >> _SYS_ADMIN & 1) or bool(have >> _BPF & 1 and have >> _PERFMON & 1)

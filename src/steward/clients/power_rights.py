"""Whether this process may set the power limits of GPUs, found out without setting one."""

from __future__ import annotations

import os
from pathlib import Path

from steward.model.event import Availability

__all__ = ["may_set_limits"]

SYS_ADMIN = 21  # number of the capability that the driver asks for


def may_set_limits(status: Path = Path("/proc/self/status")) -> Availability:
    """Return whether the driver would let this process set a limit, without setting one.

    The driver asks for root with CAP_SYS_ADMIN. Whether it is there is known without a trial, which
    would write to the GPU.
    """
    hint = "run steward as root; in a container also with CAP_SYS_ADMIN"
    if os.geteuid() != 0:
        reason = "this process is not root: the driver would answer `no permission`"
        return Availability(status="missing", reason=reason, hint=hint)
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        held = int(next(x for x in lines if x.startswith("CapEff:")).split()[1], 16)
    except (OSError, StopIteration, ValueError, IndexError):
        reason = "unknown whether the driver lets this process set a limit"
        return Availability(status="limited", reason=reason, hint=hint)
    if not held >> SYS_ADMIN & 1:
        reason = "root without CAP_SYS_ADMIN: the driver would answer `no permission`"
        return Availability(status="missing", reason=reason, hint=hint)
    return Availability(status="ok", reason="this process may set power limits")

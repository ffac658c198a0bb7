"""How systemd ends steward's unit: whether jobs go on while steward is restarted."""

from __future__ import annotations

import shutil
import subprocess

__all__ = ["UNIT", "kill_mode"]

UNIT = "steward.service"
WITHIN_S = 5.0


def kill_mode(unit: str = UNIT) -> str:
    """Return the `KillMode` of a unit that is there; empty where systemd knows none."""
    program = shutil.which("systemctl")
    if program is None:
        return ""
    command = [program, "show", "--property=LoadState,KillMode", unit]
    try:
        done = subprocess.run(  # noqa: S603 - only asks
            command, capture_output=True, text=True, check=False, timeout=WITHIN_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    said = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    return said.get("KillMode", "") if said.get("LoadState") == "loaded" else ""

"""Control groups for jobs: a group of its own per attempt, where this machine lets us make one.

Where systemd runs the machine it owns the tree of groups, and root asks it for a scope per attempt;
elsewhere, and for other accounts, folders are made in what was delegated to us.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steward.model.job import JobShape

__all__ = ["Confinement"]

ROOTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
CONTROLLERS = ("cpu", "memory", "pids")
MOST_PROCESSES = 32768
PERIOD_US = 100_000
BOOTED = Path("/run/systemd/system")  # is there where systemd is the first process
SLICE = "steward.slice"
PROBE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """Where groups of jobs are made; None: processes are only followed by their parents."""

    root: Path | None = None

    @classmethod
    def find(cls) -> Confinement:
        """Return what works here, found by trying it."""
        scopes = SystemdScopes.probe()
        if scopes is not None:
            return scopes
        for base in ROOTS:
            if (base / "cgroup.controllers").exists():
                folder = base / "steward-jobs" if os.geteuid() == 0 else _own(base)
                if folder is not None and _can_make_groups(folder):
                    return cls(root=folder)
        return cls()

    def limits(self) -> tuple[str, ...]:
        """Return the controllers that can limit a job here."""
        if self.root is None:
            return ()
        with suppress(OSError):
            return tuple((self.root / "cgroup.subtree_control").read_text().split())
        return ()

    def make(self, name: str, shape: JobShape) -> Path | None:
        """Make a group with the limits of a job; None where there are no groups."""
        if self.root is None:
            return None
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        if shape.memory_bytes:
            _set(folder / "memory.max", str(shape.memory_bytes))
            _set(folder / "memory.swap.max", "0")
        if shape.cpus:
            _set(folder / "cpu.max", f"{shape.cpus * PERIOD_US} {PERIOD_US}")
        _set(folder / "pids.max", str(MOST_PROCESSES))
        return folder

    def started_by(self, _: str, __: JobShape, command: list[str]) -> list[str]:
        """Return the command that starts a shim whose job has a group."""
        return command

    def remove(self, name: str) -> None:
        """Remove a group in which nothing runs any more."""
        if self.root is not None:
            with suppress(OSError):
                (self.root / name).rmdir()

    def describe(self) -> str:
        """Say for `steward doctor` how far jobs are limited."""
        if self.root is None:
            return "no control groups: jobs are ended by parentage, memory and CPU have no limit"
        named = ", ".join(self.limits()) or "none"
        return f"control groups in {self.root}, limits: {named}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemdScopes(Confinement):
    """A transient scope of systemd per attempt, in a slice of its own, whose group is `root`.

    The shim is in the scope as well: systemd starts none without a process. A scope is no part of
    steward's unit, so that a restart of the unit ends no job, whatever its `KillMode`.
    """

    program: str = "systemd-run"

    @classmethod
    def probe(cls, booted: Path = BOOTED, base: Path = ROOTS[0]) -> SystemdScopes | None:
        """Return the scopes of this machine; None without systemd, its program, or the right."""
        program = shutil.which("systemd-run")
        if not booted.exists() or program is None or os.geteuid() != 0:
            return None
        made = cls(root=base / SLICE, program=program)
        command = made.started_by(f"steward-probe-{os.getpid()}", JobShape(gpus=0), ["/bin/true"])
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=PROBE_S)  # noqa: S603 - ours
        except (OSError, subprocess.TimeoutExpired):
            return None
        return made if done.returncode == 0 else None

    def limits(self) -> tuple[str, ...]:
        """Return the controllers that systemd sets for a scope."""
        return CONTROLLERS

    def make(self, name: str, _: JobShape) -> Path | None:
        """Return where the group will be: systemd makes it when the shim is started."""
        assert self.root is not None  # noqa: S101 - `probe` sets it
        return self.root / f"{name}.scope"

    def started_by(self, name: str, shape: JobShape, command: list[str]) -> list[str]:
        """Return the command with systemd's before it; that becomes the shim by exec."""
        limits = [f"TasksMax={MOST_PROCESSES}"]
        if shape.memory_bytes:
            limits += [f"MemoryMax={shape.memory_bytes}", "MemorySwapMax=0"]
        if shape.cpus:
            limits.append(f"CPUQuota={100 * shape.cpus}%")
        asked = [word for each in limits for word in ("-p", each)]
        head = [self.program, "--scope", "--quiet", "--collect", f"--slice={SLICE}"]
        return [*head, f"--unit={name}.scope", *asked, "--", *command]

    def remove(self, name: str) -> None:
        """Do nothing: a scope ends with its last process."""

    def describe(self) -> str:
        """Say for `steward doctor` how far jobs are limited."""
        return f"scopes of systemd in {SLICE}, limits: {', '.join(self.limits())}"


def _own(base: Path) -> Path | None:
    """Return the group of this process, if it was delegated to us."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                return base / line[3:].lstrip("/") / "steward-jobs"
    return None


def _can_make_groups(folder: Path) -> bool:
    try:
        folder.mkdir(exist_ok=True)
        for name in CONTROLLERS:
            with suppress(OSError):
                (folder.parent / "cgroup.subtree_control").write_text(f"+{name}")
            with suppress(OSError):
                (folder / "cgroup.subtree_control").write_text(f"+{name}")
        probe = folder / f"probe-{os.getpid()}"
        probe.mkdir(exist_ok=True)
        usable = os.access(probe / "cgroup.procs", os.W_OK)
        probe.rmdir()
    except OSError:
        return False
    return usable


def _set(file: Path, value: str) -> None:
    with suppress(OSError):  # a controller that is not there: `limits` tells
        file.write_text(value)

"""Programs that do a known amount of work inside a job's control group, for tests against truth."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import numpy as np

from patience import until
from steward.clients.cgroups import CgroupReader
from steward.observe.collectors.ebpf import Ebpf

_NUMBERS = count(os.getpid() * 100)


@contextmanager
def job_group() -> Iterator[tuple[str, Path]]:
    """Make a control group that looks like one of Slurm's, in the hierarchy that tells jobs."""
    cgroups = CgroupReader()
    job = str(next(_NUMBERS))
    top = cgroups.hierarchies()[cgroups.hierarchy()] / "slurm"
    step = top / "uid_0" / f"job_{job}" / "step_0"
    step.mkdir(parents=True)
    try:
        yield job, step
    finally:
        until(lambda: _removed(step), why=f"the end of {step}")
        step.parent.rmdir()
        for folder in (top / "uid_0", top):
            with suppress(OSError):  # another job is in it
                folder.rmdir()


def _removed(group: Path) -> bool:
    """Remove a group; the kernel needs a moment after its last process."""
    with suppress(OSError):
        group.rmdir()
    return not group.exists()


class Load:
    """A program that waits for a byte, does its work, writes a byte, and waits again."""

    def __init__(self, work: str, *, group: Path, pin: int | None = None) -> None:
        text = """
            import ctypes, mmap, os, select, socket, sys, threading, time
            def ready():
                os.write(1, b'.')
                os.read(0, 1)
            {work}
            ready()
            work()
            ready()
            """
        program = textwrap.dedent(text).replace("{work}", textwrap.dedent(work).strip())
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        (group / "cgroup.procs").write_text(str(self.process.pid))
        if pin is not None:
            os.sched_setaffinity(self.process.pid, {pin})
        self.wait()

    @property
    def pid(self) -> int:
        return self.process.pid

    def go(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(b".")
        self.process.stdin.flush()

    def wait(self) -> None:
        assert self.process.stdout
        assert self.process.stdout.read(1) == b".", "the load has failed"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()


def read(probes: Ebpf) -> dict[str, dict[str, float]]:
    """Read once: entity, name, value."""
    layout = probes.layout()
    values = np.full(layout.width, np.nan)
    probes.sample(values)
    numbers = iter(values.tolist())
    return {block.entity: {name: next(numbers) for name in block.names} for block in layout.blocks}


def grown(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Return what was counted in between; a new entity had counted nothing."""
    return {name: value - before.get(name, 0.0) for name, value in after.items()}

"""Asks the kernel from inside: waiting, disks, faults, TCP, system calls, CUDA calls, by job."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from steward.clients.bpf.btf import kernel_types
from steward.clients.bpf.probes import chosen
from steward.clients.bpf.session import Session
from steward.clients.bpf.support import refusals
from steward.clients.bpf.syscalls import Bpf, Kernel
from steward.clients.cgroups import CgroupReader
from steward.clients.host import hostname
from steward.errors import StewardError
from steward.model.event import Availability, Event, Observation
from steward.model.identity import NodeId
from steward.model.layout import Block, Layout

__all__ = ["DEFAULT_SETS", "Ebpf"]

# all but launches of CUDA kernels, which are so many that a probe on each is felt
DEFAULT_SETS = ("sched", "block", "faults", "tcp", "syscalls", "cuda")
_NOTES = ("probes.lost", "probes.unattributed")
_NOTHING = Layout(blocks=())
_MOVED_AFTER_S = 60.0


class Ebpf:
    """Counters from inside the kernel, of the node, its jobs and its disks.

    `sets` are the probe sets to run: sched, block, faults, tcp, syscalls, cuda, cuda-launch.
    `places` is how many control groups of jobs, and disks, can be told apart at one time.
    `node` is what the machine is called; empty means its own host name.
    """

    name = "ebpf"
    vocabulary = "ebpf"

    def __init__(
        self,
        *,
        node: str = "",
        sets: Sequence[str] = DEFAULT_SETS,
        places: int = 256,
        kernel: Kernel | None = None,
        cgroups: CgroupReader | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.node = NodeId(node or hostname())
        self._sets = chosen(sets)
        self._places = places
        self._kernel = kernel or Bpf()
        self._cgroups = cgroups or CgroupReader()
        self._now_s = now_s
        self._session: Session | None = None
        self._layout = _NOTHING
        self._parts: tuple[object, ...] = ()
        self._failed: StewardError | None = None
        self._checked_s = now_s()
        self._told: set[str] = set()

    def available(self) -> Availability:
        problem = self._failed or self._kernel.obstacle()
        if problem:
            return Availability(status="missing", reason=problem.problem, hint=problem.hint)
        refused = self._refused()
        running = [each.name for each in self._sets if each.name not in refused]
        reason = f"probes for {', '.join(running)} (needs no tracefs, kprobes or compiler)"
        if not refused:
            return Availability(status="ok", reason=reason)
        return Availability(
            status="limited" if running else "missing",
            reason="; ".join([reason, *(f"not {name}: {why}" for name, why in refused.items())]),
            hint="the others go on; leave a set out with the option `sets`",
        )

    def layout(self) -> Layout:
        session = self._started()
        if session is None:
            return _NOTHING
        session.look(self._now_s())
        if self._parts is not session.parts:
            self._parts, self._layout = session.parts, self._laid_out(session)
        return self._layout

    def sample(self, into: NDArray[np.float64]) -> None:
        session = self._session
        if session is None:
            return
        session.read(into[: -len(_NOTES)], self._now_s())
        note = session.probes.note
        into[-2] = note("lost_tasks") + note("lost_requests")
        into[-1] = note("full_slots")

    def collect(self, t_s: float) -> Observation:
        """Look for libraries to probe and for what changed; say what cannot be had, once."""
        session = self._started()
        if session is None:
            return Observation(events=self._events(t_s, self._obstacles()))
        if self._now_s() - self._checked_s > _MOVED_AFTER_S:
            self._checked_s = self._now_s()
            if session.moved():
                self.close()
                session = self._started()
        if session is None:
            return Observation(events=self._events(t_s, self._obstacles()))
        session.libraries.look()
        return Observation(events=self._events(t_s, _worth_telling(session)))

    def costs(self) -> dict[str, tuple[int, int]]:
        """Return nanoseconds and runs of each program, if the kernel is measuring them."""
        return self._session.probes.costs() if self._session else {}

    def close(self) -> None:
        """Take the probes off the kernel; the next look loads them again."""
        if self._session is not None:
            self._session.close()
        self._session, self._layout, self._parts = None, _NOTHING, ()

    # -- inside ----------------------------------------------------------------------------------

    def _started(self) -> Session | None:
        if self._session is not None or self._failed is not None:
            return self._session
        self._failed = self._kernel.obstacle()
        if self._failed is not None:
            return None
        try:
            types = kernel_types(self._kernel.types)
            self._session = Session(
                self._kernel, types, self._sets, cgroups=self._cgroups, places=self._places
            )
            types.put_away()  # libraries that are found later ask what the sets have asked
        except StewardError as fault:
            self._failed = fault
        return self._session

    def _refused(self) -> dict[str, str]:
        if self._session is not None:
            return self._session.probes.refused
        try:
            return refusals(self._sets, types=self._kernel.types)
        except StewardError as fault:
            return dict.fromkeys((each.name for each in self._sets), fault.problem)

    def _laid_out(self, session: Session) -> Layout:
        *others, (_, of_node) = session.parts
        blocks = (Block(entity=self.node + part, names=names) for part, names in others)
        return Layout(blocks=(*blocks, Block(entity=self.node, names=(*of_node, *_NOTES))))

    def _obstacles(self) -> dict[str, str]:
        fault = self._failed
        if fault is None:
            return {}
        return {"collector.missing": f"{fault.problem}; {fault.hint}"}

    def _events(self, t_s: float, said: dict[str, str]) -> tuple[Event, ...]:
        new = {kind: text for kind, text in said.items() if f"{kind} {text}" not in self._told}
        self._told |= {f"{kind} {text}" for kind, text in new.items()}
        return tuple(
            Event(t_s=t_s, kind=kind.partition(" ")[0], subject=self.node, text=text, source="ebpf")
            for kind, text in new.items()
        )


def _worth_telling(session: Session) -> dict[str, str]:
    """Return what an operator should know: sets that do not run, places that are all taken."""
    said = {
        f"collector.limited {name}": f"no probes for {name}: {why}"
        for name, why in session.probes.refused.items()
    }
    note = session.probes.note
    if note("full_slots"):
        said["probes.full"] = "more groups than places: some jobs are counted with the node only"
    if note("lost_tasks") or note("lost_requests"):
        said["probes.lost"] = "some events could not be remembered; see kernel.probes.lost_per_s"
    if not session.attributed:
        said["probes.unattributed"] = (
            f"jobs are told apart in the hierarchy '{session.hierarchy}', which has no controller; "
            "they are counted with the node only"
        )
    return said

"""Counts events inside the kernel: waits, disks, faults, TCP, system calls, CUDA calls, by job."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from steward.clients.bpf.libbpf import LibBpf
from steward.clients.bpf.loader import KernelTypes, Loader
from steward.clients.bpf.probe_sets import choose_sets
from steward.clients.bpf.probes import find_refusals
from steward.clients.bpf.session import Session
from steward.clients.cgroups import CgroupReader
from steward.clients.host import hostname
from steward.errors import StewardError
from steward.model.event import Availability, Event, Observation
from steward.model.identity import NodeId
from steward.model.layout import Block, Layout

__all__ = ["DEFAULT_SETS", "Ebpf"]

# all but launches of CUDA kernels, which are so many that a probe on each costs too much
DEFAULT_SETS = ("sched", "block", "faults", "tcp", "syscalls", "cuda")
_NOTES = ("probes.lost", "probes.unattributed")
_NOTHING = Layout(blocks=())
_CHECK_HIERARCHY_S = 60.0


class Ebpf:
    """Counters from inside the kernel, of the node, its jobs and its disks.

    `sets` are the probe sets to run: sched, block, faults, tcp, syscalls, cuda, cuda-launch.
    `max_groups` is how many control groups of jobs, and disks, can have their own counters.
    `node` is what the machine is called; empty means its own host name.
    """

    name = "ebpf"
    vocabulary = "ebpf"

    def __init__(
        self,
        *,
        node: str = "",
        sets: Sequence[str] = DEFAULT_SETS,
        max_groups: int = 256,
        loader: Loader | None = None,
        cgroups: CgroupReader | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.node = NodeId(node or hostname())
        self._sets = choose_sets(sets)
        self._max_groups = max_groups
        self._loader = loader or LibBpf()
        self._cgroups = cgroups or CgroupReader()
        self._now_s = now_s
        self._session: Session | None = None
        self._layout = _NOTHING
        self._parts: tuple[object, ...] = ()
        self._failed: StewardError | None = None
        self._checked_s = now_s()
        self._reported: set[str] = set()

    def available(self) -> Availability:
        problem = self._failed or self._loader.obstacle()
        if problem:
            return Availability(status="missing", reason=problem.problem, hint=problem.hint)
        refused = self._refused()
        running = [each.name for each in self._sets if each.name not in refused]
        reason = f"probes for {', '.join(running)}"
        if not refused:
            return Availability(status="ok", reason=reason)
        return Availability(
            status="limited" if running else "missing",
            reason="; ".join([reason, *(f"not {name}: {why}" for name, why in refused.items())]),
            hint="the other sets run; leave one out with the option `sets`",
        )

    def layout(self) -> Layout:
        session = self._started()
        if session is None:
            return _NOTHING
        session.refresh(self._now_s())
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
        """Scan for libraries to probe; report each problem once."""
        session = self._started()
        if session is None:
            return Observation(events=self._events(t_s, self._obstacles()))
        if self._now_s() - self._checked_s > _CHECK_HIERARCHY_S:
            self._checked_s = self._now_s()
            if session.is_outdated():
                self.close()
                session = self._started()
        if session is None:
            return Observation(events=self._events(t_s, self._obstacles()))
        session.libraries.scan()
        return Observation(events=self._events(t_s, _problems(session)))

    def costs(self) -> dict[str, tuple[int, int]]:
        """Return nanoseconds and runs of each program, if the kernel is measuring them."""
        return self._session.probes.costs() if self._session else {}

    def close(self) -> None:
        """Unload the probes; the next `layout` loads them again."""
        if self._session is not None:
            self._session.close()
        self._session, self._layout, self._parts = None, _NOTHING, ()

    # -- inside ----------------------------------------------------------------------------------

    def _started(self) -> Session | None:
        if self._session is not None or self._failed is not None:
            return self._session
        self._failed = self._loader.obstacle()
        if self._failed is not None:
            return None
        try:
            self._session = Session(
                self._loader,
                self._types(),
                self._sets,
                cgroups=self._cgroups,
                max_groups=self._max_groups,
            )
        except StewardError as fault:
            self._failed = fault
        return self._session

    def _refused(self) -> dict[str, str]:
        if self._session is not None:
            return self._session.probes.refused
        try:
            return find_refusals(self._sets, self._types())
        except StewardError as fault:
            return dict.fromkeys((each.name for each in self._sets), fault.problem)

    def _types(self) -> KernelTypes:
        return self._loader.types([name for each in self._sets for name in each.tracepoints])

    def _laid_out(self, session: Session) -> Layout:
        *others, (_, of_node) = session.parts
        blocks = (Block(entity=self.node + part, names=names) for part, names in others)
        return Layout(blocks=(*blocks, Block(entity=self.node, names=(*of_node, *_NOTES))))

    def _obstacles(self) -> dict[str, str]:
        fault = self._failed
        if fault is None:
            return {}
        return {"collector.missing": f"{fault.problem}; {fault.hint}"}

    def _events(self, t_s: float, texts: dict[str, str]) -> tuple[Event, ...]:
        new = {kind: text for kind, text in texts.items() if f"{kind} {text}" not in self._reported}
        self._reported |= {f"{kind} {text}" for kind, text in new.items()}
        return tuple(
            Event(t_s=t_s, kind=kind.partition(" ")[0], subject=self.node, text=text, source="ebpf")
            for kind, text in new.items()
        )


def _problems(session: Session) -> dict[str, str]:
    """Return limitations for the operator: sets that do not run, events without a job."""
    texts = {
        f"collector.limited {name}": f"no probes for {name}: {why}"
        for name, why in session.probes.refused.items()
    }
    note = session.probes.note
    if note("full_slots"):
        texts["probes.full"] = (
            "more groups than `max_groups`: some jobs are counted with the node only"
        )
    if note("lost_tasks") or note("lost_requests"):
        texts["probes.lost"] = "some events were lost; see kernel.probes.lost_per_s"
    if not session.attributed:
        texts["probes.unattributed"] = (
            f"jobs have groups in the hierarchy '{session.hierarchy}', which has no controller; "
            "they are counted with the node only"
        )
    return texts

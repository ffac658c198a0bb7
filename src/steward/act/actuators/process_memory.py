"""Moves blocks of a process between memory and swap, or between NUMA nodes."""

from __future__ import annotations

import errno
import mmap

import numpy as np

from steward.clients.linux.pages.calls import COLD, PAGEOUT, WILLNEED, move_pages, process_madvise
from steward.clients.processes import ProcessTable
from steward.errors import PermanentError, TemporaryError
from steward.model.actions import MEMORY_ACTIONS, Demote, MemoryAction, Pin, Promote
from steward.model.decision import Decision, Receipt
from steward.model.event import Availability

__all__ = ["NodeMemory", "SwapMemory"]

_GONE = (errno.ESRCH, errno.ENOENT)
_REFUSED = (errno.EPERM, errno.EACCES)


class SwapMemory:
    """Moves by advice: `pageout` writes to swap, `willneed` reads back, the kernel does the rest.

    With `only_cold` blocks are marked as the first to be reclaimed, and stay where they are until
    memory is short. Advice may be taken in part: the receipt says for how much.
    """

    name = "swap-memory"

    def __init__(self, *, only_cold: bool = False) -> None:
        self._demotion = COLD if only_cold else PAGEOUT
        self._receipts: dict[str, Receipt] = {}

    def available(self) -> Availability:
        """Return whether there is swap that pages can go to."""
        with open("/proc/swaps", encoding="utf-8") as file:  # noqa: PTH123 - of the kernel
            swaps = file.read().splitlines()[1:]
        if not swaps:
            return Availability(
                status="missing",
                reason="this machine has no swap",
                hint="a zram device or a swap file makes a slow tier",
            )
        return Availability(status="ok", reason=f"{len(swaps)} swap areas")

    def actions(self) -> tuple[type[MemoryAction], ...]:
        """Return the actions that it can carry out."""
        return MEMORY_ACTIONS

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        """Give the advice; doing it twice changes nothing more."""
        if decision.id in self._receipts:
            return self._receipts[decision.id]
        action = decision.action
        match action:
            case Promote():
                text, result = self._advised(action, WILLNEED)
            case Demote():
                text, result = self._advised(action, self._demotion)
            case Pin():
                text, result = "no policy moves them", "done"
            case _:
                raise PermanentError(f"it cannot {action.type}", where=self.name)
        receipt = _receipt(decision, t_s, result, text)
        self._receipts = {**dict(list(self._receipts.items())[-999:]), decision.id: receipt}
        return receipt

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        """Return what came of it: advice is given at once."""
        return self.carry_out(decision, t_s)

    def _advised(self, action: Promote | Demote, advice: int) -> tuple[str, str]:
        _check_process(action)
        wanted = sum(end - start for start, end in action.blocks)
        try:
            taken = process_madvise(action.pid, action.blocks, advice)
        except OSError as fault:
            raise _fault(fault, action.pid) from fault
        text = f"{taken / 2**20:.1f} of {wanted / 2**20:.1f} MiB"
        return text, "done" if taken >= wanted else "partly"


class NodeMemory:
    """Moves pages between two NUMA nodes with `move_pages`."""

    name = "node-memory"

    def __init__(self, *, near: int, far: int) -> None:
        self._node = {Promote: near, Demote: far}
        self._receipts: dict[str, Receipt] = {}

    def available(self) -> Availability:
        """Return whether this machine has both nodes."""
        missing = sorted({*self._node.values()} - {*online_nodes()})
        if missing:
            return Availability(
                status="missing",
                reason=f"this machine has no NUMA node {missing[0]}",
                hint="between memory and swap blocks can be moved on any machine",
            )
        return Availability(status="ok", reason="both NUMA nodes are there")

    def actions(self) -> tuple[type[MemoryAction], ...]:
        """Return the actions that it can carry out."""
        return MEMORY_ACTIONS

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        """Move the pages that are present; doing it twice moves nothing more."""
        if decision.id in self._receipts:
            return self._receipts[decision.id]
        action = decision.action
        if isinstance(action, Pin):
            receipt = _receipt(decision, t_s, "done", "no policy moves them")
        elif isinstance(action, (Promote, Demote)):
            receipt = self._moved(decision, action, t_s)
        else:
            raise PermanentError(f"it cannot {action.type}", where=self.name)
        self._receipts = {**dict(list(self._receipts.items())[-999:]), decision.id: receipt}
        return receipt

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        """Return what came of it: pages are moved at once."""
        return self.carry_out(decision, t_s)

    def _moved(self, decision: Decision, action: Promote | Demote, t_s: float) -> Receipt:
        _check_process(action)
        node = self._node[type(action)]
        addresses = [
            address for start, end in action.blocks for address in range(start, end, mmap.PAGESIZE)
        ]
        try:
            status = move_pages(action.pid, addresses, [node] * len(addresses))
        except OSError as fault:
            raise _fault(fault, action.pid) from fault
        there = int(np.sum(status == node))
        present = int(np.sum(status != -errno.ENOENT))
        text = f"{there} of {present} present pages are on node {node}"
        return _receipt(decision, t_s, "done" if there == present else "partly", text)


def online_nodes(file: str = "/sys/devices/system/node/online") -> list[int]:
    """Return the NUMA nodes of this machine, [0] where the kernel has none."""
    try:
        with open(file, encoding="ascii") as opened:  # noqa: PTH123 - of the kernel
            text = opened.read().strip()
    except OSError:
        return [0]
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _check_process(action: Promote | Demote) -> None:
    """Raise where the process has ended, or its number is another's by now."""
    found = ProcessTable().one(action.pid)
    if found is None or f"{action.pid}@{found.start_s:.0f}" != action.process:
        raise PermanentError("the process has ended", where=f"process {action.pid}")


def _fault(fault: OSError, pid: int) -> PermanentError | TemporaryError:
    where = f"process {pid}"
    if fault.errno in _GONE:
        return PermanentError("the process has ended", where=where)
    if fault.errno in _REFUSED:
        hint = "moving pages of other users' processes needs CAP_SYS_NICE and CAP_SYS_PTRACE"
        return PermanentError("this user may not move its pages", where=where, hint=hint)
    if fault.errno in (errno.EAGAIN, errno.EBUSY, errno.EINTR):
        return TemporaryError((fault.strerror or str(fault)).lower(), where=where)
    if fault.errno == errno.ENOMEM:  # of madvise
        return PermanentError("blocks of it are not mapped any more", where=where)
    if fault.errno in (errno.ENODEV, errno.EINVAL):
        hint = "look at /sys/devices/system/node and at the block's mapping"
        return PermanentError("its pages cannot be moved there", where=where, hint=hint)
    return PermanentError((fault.strerror or str(fault)).lower(), where=where)


def _receipt(decision: Decision, t_s: float, result: str, text: str) -> Receipt:
    return Receipt(
        decision=decision.id,
        t_s=t_s,
        result="done" if result == "done" else "partly",
        gpus=(),
        text=text,
    )

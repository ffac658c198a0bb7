"""The agent's main loop: collects every few seconds, packs, sends, and reports its status."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from steward.clock import Clock
from steward.errors import StewardError
from steward.model.event import Event, Fault, Observation
from steward.observe.agent.shipper import Shipper
from steward.observe.watch import Watch
from steward.store.atomic import make_folder, write_atomic

if TYPE_CHECKING:  # an agent that forwards nothing has no room for it
    from steward.observe.forwarding import Forwarder

__all__ = ["STATUS_FILE", "Agent", "agent_id", "read_status"]

STATUS_FILE = "status.json"
POSITIONS_FILE = "positions.json"
LAST_LOOK_S = 1.0  # how long the last look may take
LAST_SEND_S = 2.5  # and sending what is left: all in all less than 5 s
MOST_FAULTS = 200


def agent_id(folder: Path) -> str:
    """Return the id of the agent whose buffer is here; it outlives restarts and new host names."""
    file = folder / "agent-id"
    with suppress(OSError):  # a fault of the folder is reported when it is written to
        known = file.read_text(encoding="ascii", errors="replace").strip()
        if known.isalnum():
            return known
    made = secrets.token_hex(8)
    try:
        make_folder(folder)
        write_atomic(file, f"{made}\n".encode())
    except OSError as fault:
        raise StewardError(
            f"nothing can be kept here: {(fault.strerror or str(fault)).lower()}",
            where=str(folder),
            hint="name a folder that the agent may write to with --spool",
        ) from fault
    return made


def read_status(folder: Path) -> dict[str, object]:
    """Return what an agent wrote about itself last."""
    file = folder / STATUS_FILE
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError) as fault:
        raise StewardError(
            "no agent has written its status here",
            where=str(file),
            hint="is it running? `--spool` names the folder that it was started with",
        ) from fault
    return content if isinstance(content, dict) else {}


class Agent:
    """Collects and ships. `report` is called with a line for each change of status."""

    def __init__(  # noqa: PLR0913 - all that an agent holds is seen here
        self,
        watch: Watch,
        shipping: Shipper,
        *,
        clock: Clock,
        folder: Path,
        send_every_s: float,
        report: Callable[[str], None],
        forwarding: Forwarder | None = None,
    ) -> None:
        self._forwarding = forwarding
        self._watch = watch
        self._shipping = shipping
        self._clock = clock
        self._folder = folder
        self._send_every_s = send_every_s
        self._report = report
        self._last_report = ""
        self._began_s = clock.now_s()
        self._faults: dict[tuple[str, str], float] = {}
        watch.resume(_read(folder / POSITIONS_FILE))

    def run(self, stop: threading.Event) -> None:
        """Collect and send until the stop event is set; then send what is left, in bounded time."""
        sending = threading.Event()
        sender = threading.Thread(
            target=self._shipping.run, args=(sending, self._clock), name="send", daemon=True
        )
        sender.start()
        while not stop.is_set():
            self._turn()
            now_s = self._clock.now_s()
            due_s = ceil((now_s + 1e-3) / self._send_every_s) * self._send_every_s
            self._clock.wait(due_s - now_s, stop)
        self._watch.stop()
        self._watch.timeout_s = LAST_LOOK_S
        self._turn()
        if self._forwarding is not None:
            self._forwarding.finish()
        self.close()
        self._send_rest(LAST_SEND_S)
        self._end_forwarding()
        self._write_status()
        sending.set()
        sender.join(timeout=0.2)  # a request that hangs is not waited for: its parcel is on disk

    def once(self, every_s: float) -> bool:
        """Look for two samples, send all there is, and report whether the server has it."""
        self._watch.look(self._clock.now_s())  # rates need something to begin with
        self._clock.wait(1.5 * every_s, threading.Event())
        self._watch.stop()
        self._turn()
        while self._shipping.buffer.waiting_parcels and not self._shipping.status.failures:
            self._shipping.step()
        self._report_sending()
        self._end_forwarding()
        self._write_status()
        return not self._shipping.buffer.waiting_parcels

    def close(self) -> None:
        """Close all sources: sockets, programs in the kernel, programs that follow logs."""
        self._watch.close()

    def _turn(self) -> None:
        self._write_status()  # before the next parcel waits: what then waits could not be sent
        t_s = self._clock.now_s()
        seen, faults = self._watch.look(t_s)
        events = (*seen.events, *(fault.event() for fault in faults if self._is_new(fault)))
        events = (*events, *self._forward(seen, t_s))
        self._shipping.take(replace(seen, events=events) if events else seen)
        self._write_positions()
        self._report_sending()
        if self._forwarding is not None:
            self._forwarding.go()

    def _forward(self, seen: Observation, t_s: float) -> tuple[Event, ...]:
        events = () if self._forwarding is None else self._forwarding.take(seen, t_s)
        for event in events:
            self._report(f"{event.subject}: {event.text}")
        return events

    def _end_forwarding(self) -> None:
        if self._forwarding is not None:
            self._forwarding.close()

    def _write_positions(self) -> None:
        """Note how far lines were read, after the parcel that has them is on disk."""
        positions = self._watch.positions()
        if positions:
            _write(self._folder / POSITIONS_FILE, positions)

    def _is_new(self, fault: Fault) -> bool:
        """Return whether this was not reported within the last hour."""
        key = (fault.where, fault.problem)
        new = fault.t_s - self._faults.get(key, float("-inf")) > 3600.0
        if new:
            self._report(f"{fault.where}: {fault.problem}")
            self._faults[key] = fault.t_s
            while len(self._faults) > MOST_FAULTS:
                self._faults.pop(next(iter(self._faults)))
        return new

    def _send_rest(self, within_s: float) -> None:
        until_s = self._clock.now_s() + within_s
        never = threading.Event()
        while self._shipping.buffer.waiting_parcels and self._clock.now_s() < until_s:
            if self._shipping.status.failures:
                break  # no server: the rest stays on disk for the next start
            self._clock.wait(0.05, never)
        self._report_sending()
        left = self._shipping.buffer.waiting_parcels
        self._report(f"stopped; {left} parcels wait in {self._folder}" if left else "stopped")

    def _report_sending(self) -> None:
        """Report the status of sending, when it has changed."""
        status = self._shipping.status
        trouble = self._shipping.buffer.problem or status.problem
        now = trouble or ("sending" if status.sent_parcels else "")
        if now and now != self._last_report:
            waiting = self._shipping.buffer.waiting_parcels
            self._report(f"{now}; {waiting} parcels wait" if trouble else now)
            self._last_report = now

    def _write_status(self) -> None:
        shipping, sender = self._shipping, self._shipping.sender
        offset = shipping.offset
        forwarded = () if self._forwarding is None else self._forwarding.status
        status = {
            "t_s": self._clock.now_s(),
            "since_s": self._began_s,
            "pid": os.getpid(),
            "node": sender.node,
            "agent": sender.agent,
            "version": sender.version,
            "collectors": list(self._watch.names),
            "missing": dict(self._watch.missing),
            "waiting_parcels": shipping.buffer.waiting_parcels,
            "waiting_bytes": shipping.buffer.waiting_bytes,
            "lost_parcels": shipping.lost_parcels,
            "disk_problem": shipping.buffer.problem,
            "damage": list(shipping.buffer.damage()),
            "clock_offset_s": None if offset is None else offset.offset_s,
            "round_trip_s": None if offset is None else offset.round_trip_s,
            "pace": {name: asdict(stats) for name, stats in self._watch.pace.items()},
            **asdict(shipping.status),
            **({"forwarding": [asdict(each) for each in forwarded]} if forwarded else {}),
        }
        _write(self._folder / STATUS_FILE, status, durable=False)


def _write(file: Path, value: Mapping[str, object], *, durable: bool = True) -> None:
    with suppress(OSError):  # a full disk is reported elsewhere
        write_atomic(file, (json.dumps(value, indent=1) + "\n").encode(), durable=durable)


def _read(file: Path) -> dict[str, object]:
    with suppress(OSError, ValueError):
        content = json.loads(file.read_bytes())
        return content if isinstance(content, dict) else {}
    return {}

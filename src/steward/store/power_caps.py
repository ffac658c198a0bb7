"""The power limits that steward has set, with what was there before: durable before they are set.

A limit outlives the process that set it. What is in this file has to be taken back by somebody.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from steward.errors import StewardError
from steward.model.identity import DecisionId, GpuId, JobId
from steward.store.atomic import write_atomic

__all__ = ["PowerCap", "PowerCapFile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCap:
    """One GPU whose limit steward has changed for a job.

    `ours` are the limits that steward may have set: two while one is replaced by another, of which
    a crash leaves either. Any other limit is somebody else's.
    """

    gpu: GpuId
    uuid: str
    job: JobId
    decision: DecisionId
    before_watts: float
    ours: tuple[float, ...]
    t_s: float

    @property
    def watts(self) -> float:
        """The limit that it should have now."""
        return self.ours[-1]


_CAPS: TypeAdapter[tuple[PowerCap, ...]] = TypeAdapter(tuple[PowerCap, ...])


class PowerCapFile:
    """All caps of this machine, by GPU. Written as a whole, by rename."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._caps = {each.gpu: each for each in self._read()}

    def _read(self) -> tuple[PowerCap, ...]:
        try:
            return _CAPS.validate_json(self.file.read_bytes())
        except FileNotFoundError:
            return ()
        except (OSError, ValidationError) as fault:
            raise StewardError(
                f"it is unknown which power limits were changed: {fault}",
                where=str(self.file),
                hint="compare `nvidia-smi -q -d POWER` with the default limits, set them back "
                "with `nvidia-smi -pl`, and remove this file",
            ) from fault

    def all(self) -> tuple[PowerCap, ...]:
        """Return the caps that are in force, as far as is known."""
        return tuple(self._caps.values())

    def of(self, gpu: GpuId) -> PowerCap | None:
        """Return the cap of a GPU, if it has one."""
        return self._caps.get(gpu)

    def put(self, *caps: PowerCap) -> None:
        """Add or replace caps; durable on return."""
        self._write({**self._caps, **{each.gpu: each for each in caps}})

    def remove(self, *gpus: GpuId) -> None:
        """Remove the caps of these GPUs; durable on return."""
        self._write({gpu: each for gpu, each in self._caps.items() if gpu not in gpus})

    def _write(self, caps: dict[GpuId, PowerCap]) -> None:
        text = json.dumps(_CAPS.dump_python(tuple(caps.values()), mode="json"))
        try:
            write_atomic(self.file, text.encode())
        except OSError as fault:
            problem = f"cannot be written: {(fault.strerror or str(fault)).lower()}"
            raise StewardError(problem, where=str(self.file)) from fault
        self._caps = caps

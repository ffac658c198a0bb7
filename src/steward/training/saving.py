"""Writing a staged checkpoint in the background, and reading one."""

from __future__ import annotations

import io
import json
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steward.training.checkpoints import CheckpointFolder, Part, write_part
from steward.training.protocol import SaveAnswer, TrainingError, read_json, write_json
from steward.training.state import Snapshot, decode

__all__ = ["BackgroundSave", "read_checkpoint"]

RANKS_TIMEOUT_S = 600.0  # how long rank 0 waits for the parts of the others
_POLL_S = 0.01


@dataclass(kw_only=True)
class BackgroundSave:
    """One checkpoint on its way to disk: every rank writes its parts, rank 0 publishes.

    Ranks meet in the temporary folder, not in collectives, which a background thread must not call
    beside the training's own.
    """

    folder: CheckpointFolder
    rank: int
    size: int
    manifest: dict[str, Any]  # what rank 0 writes beside the files
    request_id: str
    began_s: float  # time.perf_counter at the step boundary
    report: Callable[[SaveAnswer], None]  # called in the thread
    blocked_s: float = 0.0
    answer: SaveAnswer = field(init=False)
    _thread: threading.Thread = field(init=False)

    def start(self, parts: Snapshot | Exception, staged: Callable[[], None]) -> None:
        """Write `parts` once they are `staged`; an exception is why there are none."""
        self.blocked_s = time.perf_counter() - self.began_s
        # Not a daemon: a training that ends while a checkpoint is written completes it.
        self._thread = threading.Thread(
            target=self._run, args=(parts, staged), name="steward-checkpoint"
        )
        self._thread.start()

    def wait(self) -> SaveAnswer:
        """Return the answer, once everything is on disk or has failed."""
        self._thread.join()
        return self.answer

    @property
    def running(self) -> bool:
        """Return True until the answer is there."""
        return self._thread.is_alive()

    def _run(self, parts: Snapshot | Exception, staged: Callable[[], None]) -> None:
        step, temporary = self.manifest["step"], None
        try:
            temporary = self.folder.begin(step)
            files = self._write(temporary, parts, staged)
            if self.rank == 0:
                files = self._gather(temporary, files)
                path = self.folder.publish(temporary, {**self.manifest, "files": files})
            else:
                path = self.folder.at(step)
        except Exception as fault:  # noqa: BLE001 - whatever it is, the training goes on
            cannot = fault is parts and isinstance(fault, TrainingError)
            self._finish("cannot" if cannot else "failed", why=_text(fault))
            if temporary is not None and self.rank == 0:
                shutil.rmtree(temporary, ignore_errors=True)
        else:
            self._finish("saved", files=files, path=path)
        self.report(self.answer)

    def _write(
        self, temporary: Path, parts: Snapshot | Exception, staged: Callable[[], None]
    ) -> dict[str, Part]:
        """Write this rank's parts, and a record of them or of their failure for rank 0."""
        record = temporary / f"{_name(self.rank)}.record"
        record.unlink(missing_ok=True)
        try:
            if isinstance(parts, Exception):
                raise parts
            staged()
            files = _write_parts(temporary, _name(self.rank), parts)
        except Exception as fault:
            if self.rank:
                _leave(record, _text(fault))
            raise
        if self.rank:
            write_json(record, {"files": files})
        return files

    def _gather(self, temporary: Path, files: dict[str, Part]) -> dict[str, Part]:
        """Return the parts of all ranks, once they are written."""
        end_s = time.monotonic() + RANKS_TIMEOUT_S
        for rank in range(1, self.size):
            record = temporary / f"{_name(rank)}.record"
            while not record.exists():
                if time.monotonic() > end_s:
                    raise TrainingError(
                        f"rank {rank} wrote nothing within {RANKS_TIMEOUT_S:.0f} s",
                        where=str(self.folder.path),
                        hint="all ranks need the same folder on a file system that they share",
                    )
                time.sleep(_POLL_S)
            found: dict[str, Any] = {"fault": "no room for its record"}
            if record.stat().st_size:
                found = read_json(record)
            if "fault" in found:
                raise TrainingError(f"rank {rank}: {found['fault']}")
            files = {**files, **found["files"]}
            record.unlink()
        return files

    def _finish(
        self,
        result: Any,
        *,
        why: str = "",
        files: dict[str, Part] | None = None,
        path: Path | str = "",
    ) -> None:
        self.answer = SaveAnswer(
            id=self.request_id,
            result=result,
            step=self.manifest["step"],
            checkpoint=str(path),
            bytes=sum(each["bytes"] for each in (files or {}).values()),
            blocked_s=round(self.blocked_s, 6),
            seconds=round(time.perf_counter() - self.began_s, 6),
            why=why,
        )


def _leave(record: Path, fault: str) -> None:
    """Leave a fault for rank 0; an empty file where there is no room for words."""
    try:
        write_json(record, {"fault": fault})
    except OSError:
        record.touch()


def _name(rank: int) -> str:
    return f"rank-{rank:05d}"


def _text(fault: Exception) -> str:
    if isinstance(fault, OSError) and fault.strerror:
        return f"{fault.filename}: {fault.strerror}" if fault.filename else fault.strerror
    return str(fault) or repr(fault)


def _write_parts(folder: Path, name: str, parts: Snapshot) -> dict[str, Part]:
    files = {}
    if parts.tensors:
        torch = sys.modules["torch"]
        files[f"{name}.pt"] = write_part(
            folder / f"{name}.pt", lambda file: torch.save(parts.tensors, file)
        )
    if parts.arrays:
        buffer = io.BytesIO()
        sys.modules["numpy"].savez(buffer, **parts.arrays)
        files[f"{name}.npz"] = write_part(
            folder / f"{name}.npz", lambda file: _write_all(file, buffer.getbuffer())
        )
    text = json.dumps(parts.tree, allow_nan=False).encode()
    files[f"{name}.json"] = write_part(folder / f"{name}.json", lambda file: _write_all(file, text))
    return files


def _write_all(file: Any, data: Any) -> None:
    file.write(data)


def read_checkpoint(path: Path, rank: int, devices: Callable[[str], bool]) -> dict[str, Any]:
    """Return the state of one rank, object by object.

    Tensors are on the CPU, except for those objects whose name `devices` accepts: they get theirs
    back on the devices where they were.
    """
    opened: dict[str, Any] = {}

    def part(name: str) -> Any:
        if name not in opened:
            opened[name] = _open(path / name)
        return opened[name]

    def state(name: str, tree: Any) -> Any:
        def tensor(record: dict[str, Any]) -> Any:
            found = part(f"{_name(record.get('rank', rank))}.pt")[record["$tensor"]]
            found = found.clone()  # a view of a buffer with everything, mapped from the file
            return found.to(record["device"]) if devices(name) else found

        return decode(tree, tensor, lambda key: part(f"{_name(rank)}.npz")[key])

    trees = read_json(path / f"{_name(rank)}.json")
    return {name: state(name, tree) for name, tree in trees.items()}


def _open(path: Path) -> Any:
    if path.suffix == ".npz":
        import numpy as np  # noqa: PLC0415 - was there when the checkpoint was written

        with np.load(path, allow_pickle=False) as found:
            return dict(found)
    import torch  # noqa: PLC0415

    return torch.load(path, map_location="cpu", weights_only=True, mmap=True)

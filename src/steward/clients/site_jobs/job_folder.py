"""The folder of a job: how far it says it is, and its checkpoints, kept once verified."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steward.clients.local_jobs.exchange import number_of, read_reply
from steward.errors import PermanentError
from steward.training.protocol import CHECKPOINTS, DONE, MANIFEST, PROGRESS

__all__ = ["FolderLook", "Saved", "keep_checkpoint", "look_into", "newest_checkpoint"]

_CHUNK = 1 << 20
_KEPT = 2  # checkpoints of one job


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderLook:
    """What a job says of itself."""

    step: float | None = None
    steps: float | None = None  # of all the work
    written_s: float | None = None
    complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint that is complete by its manifest; `step` counts as progress does."""

    path: Path
    step: int
    created_s: float


def look_into(folder: str) -> FolderLook:
    """Return what a job's files say; nothing where they are not ours to read."""
    if not folder:
        return FolderLook()
    place = Path(folder)
    progress = read_reply(place / PROGRESS)
    written_s = number_of(progress.get("written_s"))
    return FolderLook(
        step=float(number_of(progress["step"])) if "step" in progress else None,
        steps=float(number_of(progress.get("steps"))) or None,
        written_s=float(written_s) or None,
        complete=bool(read_reply(place / DONE)),
    )


def newest_checkpoint(folder: str) -> Saved | None:
    """Return the newest checkpoint of a job."""
    found = []
    for file in Path(folder).glob(f"{CHECKPOINTS}/step-*/{MANIFEST}"):
        record = read_reply(file)
        step, created_s = record.get("step"), number_of(record.get("created_s"))
        if isinstance(step, int) and not file.parent.name.endswith(".corrupt"):
            found.append(Saved(path=file.parent, step=step, created_s=float(created_s)))
    return max(found, key=lambda each: (each.step, each.created_s), default=None)


def keep_checkpoint(saved: Saved, folder: Path) -> Path:
    """Copy a checkpoint into a folder, verify every byte of the copy, and return it.

    Raises `PermanentError` for one that is damaged: nothing is kept of it.
    """
    kept = folder / saved.path.name
    if kept.exists():
        return kept
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f".{saved.path.name}.tmp"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        shutil.copytree(saved.path, draft)
        faults = list(_faults(draft))
    except OSError as fault:
        faults = [f"{fault.filename}: {(fault.strerror or str(fault)).lower()}"]
    if faults:
        shutil.rmtree(draft, ignore_errors=True)
        raise PermanentError(
            f"the checkpoint is damaged: {'; '.join(faults)}", where=str(saved.path)
        )
    for file in draft.rglob("*"):
        _sync(file)
    draft.rename(kept)
    _sync(folder)
    for old in sorted(folder.glob("step-*"))[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return kept


def _faults(checkpoint: Path) -> Iterator[str]:
    files = read_reply(checkpoint / MANIFEST).get("files")
    if not isinstance(files, dict) or not files:
        yield f"its {MANIFEST} names no files"
        return
    for name, part in files.items():
        why = _fault(checkpoint, str(name), part)
        if why:
            yield f"{name}: {why}"


def _fault(checkpoint: Path, name: str, part: Any) -> str:  # noqa: ANN401 - JSON
    path = checkpoint / name
    if not path.resolve().is_relative_to(checkpoint.resolve()) or path.is_symlink():
        return "it leads out of the checkpoint"
    if not path.is_file():
        return "it is missing"
    if not isinstance(part, dict) or path.stat().st_size != part.get("bytes"):
        return "it has another size"
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return "" if digest.hexdigest() == part.get("sha256") else "it has another content"


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""The folder of checkpoints: complete or absent, verified before use, two kept.

`step-000123/` has parts per rank and a manifest with the size and SHA-256 of each part. It is built
as `.step-000123.tmp` and renamed when everything in it is on disk.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from steward.training.protocol import MANIFEST, TrainingError, read_json, write_json

__all__ = ["CheckpointFolder", "HashingFile", "Part", "faults_of", "seal", "write_part"]

FORMAT = 1
KEPT = 2
CHUNK_BYTES = 1 << 20
_NAME = re.compile(r"step-(\d{6,})")
_LEFTOVER = re.compile(r"\.step-(\d{6,})\.(tmp|old)")

Part = dict[str, Any]  # `bytes` and `sha256` of one file


class HashingFile:
    """A file that hashes what is written to it.

    A write fault is kept, not raised: torch.save calls `write` from C++, which cannot clean up
    after an exception. `close` raises it.
    """

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._bytes = 0
        self._fault: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of `data` and return its size."""
        with memoryview(data).cast("B") as view:
            if self._fault is None:
                try:
                    self._write(view)
                except OSError as fault:
                    self._fault = fault
            return len(view)

    def _write(self, view: memoryview) -> None:
        for start in range(0, len(view), CHUNK_BYTES):
            chunk = view[start : start + CHUNK_BYTES]
            self._hash.update(chunk)
            self._bytes += len(chunk)
            while len(chunk):  # an unbuffered file may write less
                chunk = chunk[self._file.write(chunk) :]

    def flush(self) -> None:
        """Do nothing: `close` flushes."""

    def close(self) -> Part:
        """Force everything to disk and return the record for the manifest."""
        if self._fault is not None:
            raise self._fault
        os.fsync(self._file.fileno())
        return {"bytes": self._bytes, "sha256": self._hash.hexdigest()}


def write_part(path: Path, write: Callable[[HashingFile], None]) -> Part:
    """Write one durable part of a checkpoint and return its record for the manifest."""
    with path.open("wb", buffering=0) as file:
        hashing = HashingFile(file)
        write(hashing)
        return hashing.close()


def faults_of(checkpoint: Path, *, content: bool = True) -> list[str]:
    """Return what is wrong with a checkpoint: nothing if it is whole.

    With `content` every byte is read; without, sizes are compared only.
    """
    try:
        manifest = read_json(checkpoint / MANIFEST)
        files: Mapping[str, Part] = manifest["files"]
        if manifest["format"] != FORMAT:
            return [f"{MANIFEST}: format {manifest['format']}; this version reads {FORMAT}"]
        if _step(checkpoint) not in (None, manifest["step"]):
            return [f"{MANIFEST}: step {manifest['step']} in a folder named {checkpoint.name}"]
        if not files:
            return [f"{MANIFEST}: names no files"]
        found = (_fault(checkpoint / name, part, content=content) for name, part in files.items())
        return [fault for fault in found if fault]
    except TrainingError as fault:
        return [str(fault)]
    except (KeyError, TypeError, AttributeError) as fault:
        return [f"{MANIFEST}: not a manifest: {fault!r}"]


def _fault(path: Path, part: Part, *, content: bool) -> str:
    try:
        if (size := path.stat().st_size) != part["bytes"]:
            return f"{path.name}: {size} bytes, not {part['bytes']}"
        if not content or _digest(path) == part["sha256"]:
            return ""
    except OSError as fault:
        return f"{path.name}: {fault.strerror}"
    return f"{path.name}: the content differs from its SHA-256"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(folder: Path, manifest: dict[str, Any]) -> int:
    """Make files that another program wrote durable, add a manifest, and return their size."""
    files: dict[str, Part] = {}
    for each in sorted(folder.rglob("*")):
        if each.is_file() and each.name != MANIFEST:
            with each.open("rb") as file:
                os.fsync(file.fileno())
            size = each.stat().st_size
            files[str(each.relative_to(folder))] = {"bytes": size, "sha256": _digest(each)}
    _write_manifest(folder, {**manifest, "files": files})
    _sync(folder.parent)
    return sum(each["bytes"] for each in files.values())


def _write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    record = {"format": FORMAT, "created_s": time.time(), **manifest}
    write_json(folder / MANIFEST, record, durable=True)
    _sync(folder)


def _step(path: Path) -> int | None:
    found = _NAME.fullmatch(path.name)
    return int(found[1]) if found else None


class CheckpointFolder:
    """All checkpoints of one job. One process (rank 0) publishes, removes and renames."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def listed(self) -> list[Path]:
        """Return the published checkpoints, newest first, whole or not."""
        if not self.path.is_dir():
            return []
        return sorted(
            (each for each in self.path.iterdir() if _step(each) is not None),
            key=lambda each: -(_step(each) or 0),
        )

    def at(self, step: int) -> Path:
        """Return where the checkpoint of `step` is or would be."""
        return self.path / f"step-{step:06d}"

    def newest_whole(self) -> tuple[Path | None, list[str]]:
        """Return the newest checkpoint that verifies, and why newer ones did not.

        Those are renamed to `NAME.corrupt`, which keeps them for a person to look at.
        """
        passed: list[str] = []
        for each in self.listed():
            faults = faults_of(each)
            if not faults:
                return each, passed
            passed.append(f"{each.name}: {'; '.join(faults)}")
            aside = each.with_name(f"{each.name}.corrupt")
            shutil.rmtree(aside, ignore_errors=True)
            each.rename(aside)
        return None, passed

    def begin(self, step: int) -> Path:
        """Return the folder in which every rank writes its parts of `step`."""
        temporary = self.path / f".{self.at(step).name}.tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        return temporary

    def publish(self, temporary: Path, manifest: dict[str, Any]) -> Path:
        """Make a folder of complete parts the newest checkpoint; then remove all but two.

        A step that was saved before stays as it is: the training is where it was then.
        """
        final = self.at(manifest["step"])
        if final.exists():
            shutil.rmtree(temporary, ignore_errors=True)
            return final
        _write_manifest(temporary, manifest)
        temporary.rename(final)
        _sync(self.path)
        for each in self.listed()[KEPT:]:
            self._remove(each)
        self.clean(before=manifest["step"])
        return final

    def _remove(self, checkpoint: Path) -> None:
        """Remove a checkpoint in two steps: half removed, it must not look like a corrupt one."""
        old = checkpoint.with_name(f".{checkpoint.name}.old")
        checkpoint.rename(old)
        shutil.rmtree(old, ignore_errors=True)

    def clean(self, before: float = math.inf) -> None:
        """Remove what interrupted writes and removals left behind, of steps before `before`."""
        if self.path.is_dir():
            for each in self.path.iterdir():
                found = _LEFTOVER.fullmatch(each.name)
                if found and int(found[1]) < before:
                    shutil.rmtree(each, ignore_errors=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Exchange files with a job in a folder that belongs to its user, who is not trusted.

steward may be root: a link that the user planted must not lead it anywhere, and what it reads has
a limit. The names are those of `docs/jobs/checkpoints.md`.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from steward.training.protocol import MANIFEST

__all__ = ["has_all_files", "number_of", "read_own", "read_reply", "text_of", "write_for_job"]

MOST_BYTES = 1 << 20
MOST_TEXT = 4096
MOST_NUMBER = 2**53


def read_own(path: Path, *, offset: int = 0, most_bytes: int = MOST_BYTES) -> bytes:
    """Return a part of a file that belongs to the owner of its folder; empty for all else.

    All else: links, other names of somebody else's file, pipes, folders, nothing. A negative
    `offset` counts from the end.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != path.parent.stat().st_uid:
            return b""
        begin = offset if offset >= 0 else max(status.st_size + offset, 0)
        return os.pread(handle, most_bytes, begin)
    except OSError:
        return b""
    finally:
        os.close(handle)


def read_reply(path: Path) -> dict[str, Any]:
    """Return the JSON object that a job wrote; empty where there is none that can be read."""
    try:
        record = json.loads(read_own(path))
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def has_all_files(folder: Path, checkpoint: str) -> bool:
    """Return whether a checkpoint below a job's folder has the files of its manifest in full.

    Sizes are compared; what is in them is verified by whoever loads it.
    """
    path = Path(checkpoint)
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
        files = read_reply(path / MANIFEST).get("files") if inside else None
        if not isinstance(files, dict) or not files:
            return False
        return all((path / name).lstat().st_size == part["bytes"] for name, part in files.items())
    except (OSError, ValueError, TypeError, KeyError, RuntimeError):
        return False


def text_of(value: object, most: int = MOST_TEXT) -> str:
    """Return what a job wrote as text that can be kept: not too long, and valid Unicode."""
    return str(value)[:most].encode("utf-8", "replace").decode("utf-8")


def number_of(value: object) -> float:
    """Return what a job wrote as a number of ordinary size; 0 for all else."""
    if isinstance(value, int | float) and 0 <= value < MOST_NUMBER:
        return value
    return 0


def write_for_job(path: Path, record: dict[str, Any]) -> None:
    """Replace a file by rename; its user can read it."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(draft, flags, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(record, file)
            os.fchmod(handle, 0o644)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise

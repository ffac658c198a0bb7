"""Write files that appear whole and durably, or not at all, and readable by their owner only.

Use `write_atomic` and `atomic_file` for everything below the data folder. `whole_file` is for
outputs that a person names: it follows the umask and writes through links, pipes and devices.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = [
    "PRIVATE_FILE",
    "PRIVATE_FOLDER",
    "TMP",
    "atomic_file",
    "make_folder",
    "sync_folder",
    "whole_file",
    "write_atomic",
]

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
TMP = ".tmp"


def write_atomic(file: Path, content: bytes | memoryview, *, durable: bool = True) -> None:
    """Replace `file` by one with this content; durable on return, unchanged when it raises.

    `durable=False` leaves out the syncs, for state that may be older after a power failure.
    """
    with atomic_file(file, durable=durable) as draft:
        draft.write(content)


@contextmanager
def atomic_file(
    file: Path, *, mode: int = PRIVATE_FILE, durable: bool = True
) -> Iterator[IO[bytes]]:
    """Open a draft that becomes `file`, synced with its folder, when the block ends well.

    A draft that a crash leaves behind ends in `TMP`. An `OSError` names `file`, not the draft.
    """
    draft = file.with_name(f".{file.name}.{os.getpid()}-{threading.get_ident()}{TMP}")
    try:
        draft.unlink(missing_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            if durable:
                os.fsync(handle)
        draft.replace(file)
        if durable:
            sync_folder(file.parent)
    except OSError as fault:
        if fault.filename in (draft, str(draft)):
            fault.filename = str(file)
        raise
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


@contextmanager
def whole_file(out: Path) -> Iterator[IO[bytes]]:
    """Open an output that a person named; a plain file there stays until the new one is whole.

    Anything else that the name leads to (a link, a pipe, a device such as /dev/stdout) is written
    to and never replaced: root would lose the device.
    """
    if out.is_symlink() or (out.exists() and not out.is_file()):
        with out.open("wb") as file:
            yield file
    else:
        with atomic_file(out, mode=0o666) as file:
            yield file


def make_folder(folder: Path, *, mode: int = PRIVATE_FOLDER) -> None:
    """Make a folder and its missing parents, durably, all with `mode`; existing ones stay."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=mode, exist_ok=True)
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

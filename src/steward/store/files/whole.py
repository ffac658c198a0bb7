"""Files that people ask for by name: they appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["whole_file"]


@contextmanager
def whole_file(out: Path) -> Iterator[IO[bytes]]:
    """Open a file to write; a plain one that was there stays whole until the new one is.

    Anything else that the name leads to (a link, a pipe, a device such as /dev/stdout) is written
    to and never replaced: root would lose the device.
    """
    if out.is_symlink() or (out.exists() and not out.is_file()):
        with out.open("wb") as file:
            yield file
        return
    draft = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        with draft.open("wb") as file:
            yield file
        draft.replace(out)
    except OSError as fault:
        if fault.filename in (draft, str(draft)):
            fault.filename = str(out)  # nobody has asked for the draft
        raise
    finally:
        draft.unlink(missing_ok=True)

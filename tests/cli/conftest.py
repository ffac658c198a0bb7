"""What several tests of the command line need."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest


@pytest.fixture
def read_only(tmp_path: Path) -> Callable[[Path], AbstractContextManager[None]]:
    """Return what makes a folder read-only for a while, also for a process that began as root."""

    @contextmanager
    def closed(folder: Path) -> Iterator[None]:
        was = os.geteuid()
        for parent in (tmp_path, *tmp_path.parents):
            if was == 0 and parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
                parent.chmod(parent.stat().st_mode | 0o011)
        inside = [folder, *folder.rglob("*")]
        for each in inside:
            each.chmod(0o555 if each.is_dir() else 0o444)
        if was == 0:
            os.seteuid(pwd.getpwnam("nobody").pw_uid)
        try:
            yield
        finally:
            if was == 0:
                os.seteuid(was)
            for each in inside:
                each.chmod(0o755 if each.is_dir() else 0o644)

    return closed

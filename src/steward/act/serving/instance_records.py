"""What a fleet has begun, one small file per instance: it is read again after a restart."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from steward.errors import PermanentError, StewardError, TemporaryError
from steward.store.atomic import make_folder, write_atomic

__all__ = ["InstanceRecords"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


class InstanceRecords:
    """Records by the name of an instance, durable when a call returns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the record of an instance, or None if nothing was begun."""
        try:
            record = json.loads(self._file(name).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as fault:
            problem = f"the record of {name} cannot be read: {fault}"
            hint = "look what runs under that name, stop it, and remove the file"
            raise PermanentError(problem, where=str(self._file(name)), hint=hint) from fault
        return record if isinstance(record, dict) else None

    def write(self, name: str, record: dict[str, Any]) -> None:
        """Keep a record."""
        try:
            make_folder(self.folder)
            write_atomic(self._file(name), json.dumps(record).encode())
        except OSError as fault:
            problem = f"the record of {name} cannot be written: {fault.strerror or fault}"
            raise TemporaryError(problem, where=str(self.folder)) from fault

    def remove(self, name: str) -> None:
        """Forget an instance."""
        self._file(name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """Return the instances that have a record."""
        return sorted(each.stem for each in self.folder.glob("*.json"))

    def _file(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise StewardError(f"'{name}' is no name of an instance", where=str(self.folder))
        return self.folder / f"{name}.json"

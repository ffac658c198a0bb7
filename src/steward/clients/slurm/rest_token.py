"""The token for slurmrestd: from a file that only its owner may read, or from $SLURM_JWT."""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import time
from typing import Any

from steward.clients.slurm.program import SlurmError

__all__ = ["RestToken"]

_HINT = "plugs.slurm.rest_token_file names a file with what `scontrol token` prints"
_MOST_BYTES = 2**16
_SHAPE = re.compile(r"[A-Za-z0-9_.=-]*")  # anything else would be quoted in an error


class RestToken:
    """A JWT, read again when its file changes. Nothing here prints it.

    `user` is who it is for, if that is not the name inside it; `variable` has it if no file does.
    """

    def __init__(self, file: str = "", *, user: str = "", variable: str = "SLURM_JWT") -> None:
        self._file = file
        self._user = user
        self._variable = variable
        self._seen: tuple[int, int, int] | None = None
        self._text = ""

    def __repr__(self) -> str:
        return f"RestToken({self._file or self._variable!r})"

    @property
    def user(self) -> str:
        """The account that the token is for; empty without one."""
        return self._user or str(_claims(self._read()).get("sun") or "")

    def headers(self) -> dict[str, str]:
        """Return the headers that slurmrestd reads; none where no token is given."""
        token = self._read()
        named = {"X-SLURM-USER-NAME": self.user} if self.user else {}
        return {**named, "X-SLURM-USER-TOKEN": token} if token else named

    @property
    def is_expired(self) -> bool:
        """Whether its own words say that it is over."""
        return self._expired_s() > 0

    def problem(self) -> str:
        """Return what can be seen to be wrong with the token from here."""
        if not self._read():
            return "needs a token, and none is given"
        over_s = self._expired_s()
        return f"the token expired {over_s:.0f} s ago" if over_s > 0 else ""

    def _expired_s(self) -> float:
        expires_s = _claims(self._read()).get("exp")
        return time.time() - expires_s if isinstance(expires_s, int | float) else 0.0

    def _read(self) -> str:
        text = self._in_file() if self._file else os.environ.get(self._variable, "").strip()
        if not _SHAPE.fullmatch(text):
            where = self._file or f"${self._variable}"
            raise SlurmError("holds no token", where=where, hint=_HINT)
        return text

    def _in_file(self) -> str:
        try:
            handle = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as fault:
            problem = f"cannot be read: {(fault.strerror or str(fault)).lower()}"
            raise SlurmError(problem, where=self._file, hint=_HINT) from fault
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
                problem = "is no file that only its owner may read"
                hint = f"chmod 600 {self._file}"
                raise SlurmError(problem, where=self._file, hint=hint)
            if seen != self._seen:
                text = file.read(_MOST_BYTES).decode("ascii", "replace").strip()
                self._text, self._seen = text.removeprefix("SLURM_JWT="), seen
        return self._text


def _claims(token: str) -> dict[str, Any]:
    """Return what a JWT says about itself, unchecked: slurmctld checks it."""
    part = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        made = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return {}
    return made if isinstance(made, dict) else {}

"""Seals on steward's notes in comments: whoever owns a job may write any comment.

A seal is an HMAC over what a note says and the job that it is on, so that it fits no other job,
run or decision. Its key lies in the folder of the store, for steward's account alone.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from dataclasses import replace
from pathlib import Path

from steward.clients.slurm.changes import Command
from steward.clients.slurm.job_mark import JobMark, LastDecision
from steward.errors import StewardError

__all__ = ["Seals", "read_key"]

KEY_BYTES = 32
_COMMENT, _JOB = "Comment=", "JobId="


class Seals:
    """Seals notes and knows them again. Without a key, every note counts as far as it can be."""

    def __init__(self, key: bytes = b"") -> None:
        self._key = key

    def fits(self, address: str, did: LastDecision) -> bool:
        """Return whether steward has written this note on this job."""
        return not self._key or hmac.compare_digest(did.seal, self._seal(address, did))

    def sealed(self, command: Command) -> Command:
        """Return a command with a seal on the note in the comment that it sets, if it sets one."""
        address = next((each for each in command if each.startswith(_JOB)), "")
        return tuple(
            f"{_COMMENT}{self._with_seal(address.removeprefix(_JOB), part)}"
            if self._key and address and part.startswith(_COMMENT)
            else part
            for part in command
        )

    def _with_seal(self, address: str, part: str) -> str:
        mark = JobMark.read(part.removeprefix(_COMMENT))
        if mark.did is None:
            return mark.comment
        return replace(mark, did=replace(mark.did, seal=self._seal(address, mark.did))).comment

    def _seal(self, address: str, did: LastDecision) -> str:
        text = f"{address} {replace(did, seal='').word}"
        digest = hmac.new(self._key, text.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest[:16]).decode().rstrip("=")


def read_key(path: Path) -> bytes:
    """Return the key in a file, which is made if it is not there; refuse one others may read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    else:
        with os.fdopen(handle, "wb") as made:
            made.write(secrets.token_bytes(KEY_BYTES))
    hint = "remove it: another is made, and notes of before count for nothing"
    if path.stat().st_mode & 0o077:
        raise StewardError("others may read the key of steward's notes", where=str(path), hint=hint)
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise StewardError("it is no whole key of steward's notes", where=str(path), hint=hint)
    return key

"""The output of a job, part by part, as every engine gives it to people."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Protocol

__all__ = ["JobLog", "LogPart", "whole_characters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """What comes next of a log. No text: there is no more now, and never if the job is `over`.

    `note` is for people, beside the output: what is missing in it.
    """

    text: str
    over: bool
    note: str = ""


class JobLog(Protocol):
    """All that a job prints, over all its runs."""

    def read(self) -> LogPart:
        """Return what follows what was read before."""


def whole_characters(data: bytes) -> bytes:
    """Return bytes of UTF-8 without the beginning of a character that goes on in the next part."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    rest = len(decoder.getstate()[0])
    return data[: len(data) - rest]

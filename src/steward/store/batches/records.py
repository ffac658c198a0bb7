"""Files, batches and items as the store hands them out."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "ANSWERED",
    "CANCELLED",
    "CLAIMED",
    "ENDED",
    "EXPIRED",
    "FAILED",
    "WAITING",
    "BatchRecord",
    "FileRecord",
    "Item",
    "ItemAnswer",
    "LineFault",
    "NewItem",
    "new_id",
]

# Codes of an item's state; from ANSWERED on it is over.
WAITING, CLAIMED, ANSWERED, FAILED, EXPIRED, CANCELLED = range(6)
ENDED = ("completed", "failed", "expired", "cancelled")  # of a batch


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """A file without its content."""

    id: str
    tenant: str
    purpose: str
    filename: str
    bytes: int
    created_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFault:
    """What is wrong with a line of an input file; line 0 is the file as a whole."""

    line: int
    code: str
    message: str
    param: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """A batch, with how many of its items are over."""

    id: str
    tenant: str
    endpoint: str
    input_file: str
    window: str
    metadata: Mapping[str, str]
    status: str
    errors: tuple[LineFault, ...]
    output_file: str | None
    error_file: str | None
    total: int
    completed: int
    failed: int
    created_s: float
    expires_s: float
    reached_s: Mapping[str, float | None]  # when it got into each state


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """One line of an input file: a request to send, or what is wrong with it."""

    line: int
    custom_id: str | None
    model: str = ""
    body: bytes = b""
    fault: LineFault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A request that its owner may send."""

    batch: str
    line: int
    id: str
    custom_id: str
    tenant: str
    path: str
    model: str
    body: bytes
    within_s: float  # from when it was claimed
    attempts: int  # before this one


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemAnswer:
    """What became of an item: the line that goes into the output or the error file."""

    batch: str
    line: int
    answer: bytes
    failed: bool


def new_id(prefix: str) -> str:
    """Return an id that nobody can guess."""
    return f"{prefix}{secrets.token_hex(12)}"

"""Reads the lines of a batch's input file: requests, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from steward.store.batches import LineFault, NewItem

__all__ = ["ENDPOINTS", "InputLines", "lines_of"]

ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")
_BLANK = b" \t\r\n"
_LONGEST_ID = 512


class _WrongLineError(Exception):
    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


@dataclass(slots=True, kw_only=True)
class InputLines:
    """The reader of one file, whose requests all go to `endpoint`."""

    endpoint: str
    line_limit_bytes: int
    most_requests: int
    requests: int = 0
    _custom_ids: set[str] = field(default_factory=set)

    def items(self, parts: Iterable[bytes]) -> Iterator[NewItem]:
        """Yield an item per line that is not blank; lines count from 1.

        Ends at the first request more than allowed, with a fault: the caller looks at `too_many`.
        """
        for number, line in enumerate(lines_of(parts, self.line_limit_bytes), start=1):
            if line is not None and not line.strip(_BLANK):
                continue
            self.requests += 1
            if self.too_many:
                return
            yield self._item(number, line)

    @property
    def too_many(self) -> bool:
        """Return whether the file has more requests than a batch may have."""
        return self.requests > self.most_requests

    def _item(self, number: int, line: bytes | None) -> NewItem:
        fields: Any = None
        try:
            if line is None:
                limit = self.line_limit_bytes
                raise _WrongLineError("line_too_long", f"it is longer than {limit} bytes")
            fields = _object(line)
            custom_id = self._custom_id(fields)
            body = self._body(fields)
            encoded = _encoded(body)
        except _WrongLineError as wrong:
            message = f"line {number}: {wrong.message}"
            fault = LineFault(line=number, code=wrong.code, message=message, param=wrong.param)
            given = fields.get("custom_id") if isinstance(fields, dict) else None
            known = given[:_LONGEST_ID].replace("\0", "�") if isinstance(given, str) else None
            return NewItem(line=number, custom_id=known, fault=fault)
        return NewItem(line=number, custom_id=custom_id, model=body["model"], body=encoded)

    def _custom_id(self, fields: dict[str, Any]) -> str:
        value = fields.get("custom_id")
        if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ID:
            message = f"`custom_id` has to be text of 1 to {_LONGEST_ID} characters"
            raise _WrongLineError("missing_required_parameter", message, "custom_id")
        _refuse_nul(value, "custom_id")
        if value in self._custom_ids:
            message = f"an earlier line has the `custom_id` '{value}' too"
            raise _WrongLineError("duplicate_custom_id", message, "custom_id")
        self._custom_ids.add(value)
        return value

    def _body(self, fields: dict[str, Any]) -> dict[str, Any]:
        if fields.get("method") != "POST":
            raise _WrongLineError("invalid_method", "`method` has to be POST", "method")
        if fields.get("url") != self.endpoint:
            message = f"`url` has to be the batch's endpoint, {self.endpoint}"
            raise _WrongLineError("mismatched_endpoint", message, "url")
        body = fields.get("body")
        if not isinstance(body, dict):
            raise _WrongLineError("invalid_request", "`body` has to be an object", "body")
        if not isinstance(body.get("model"), str) or not body["model"]:
            message = "`body.model` has to name a model"
            raise _WrongLineError("missing_required_parameter", message, "body.model")
        _refuse_nul(body["model"], "body.model")
        if body.get("stream"):
            message = "`body.stream` cannot be true in a batch"
            raise _WrongLineError("invalid_request", message, "body.stream")
        return body


def lines_of(parts: Iterable[bytes], limit_bytes: int) -> Iterator[bytes | None]:
    """Yield the lines of a file that comes in parts; None for one that is too long to be held."""
    held = b""
    skipping = False
    for part in parts:
        *whole, rest = (held + part).split(b"\n")
        for line in whole:
            yield None if skipping or len(line) > limit_bytes else line
            skipping = False
        held = rest
        if len(held) > limit_bytes:
            held, skipping = b"", True
    if held or skipping:
        yield None if skipping or len(held) > limit_bytes else held


def _object(line: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as fault:
        raise _WrongLineError("invalid_json_line", f"it is no JSON: {fault}") from None
    if not isinstance(fields, dict):
        raise _WrongLineError("invalid_json_line", "it is no JSON object")
    return fields


def _encoded(body: dict[str, Any]) -> bytes:
    """Return a body as it is sent; what can be read is nested deeper than what can be written."""
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError as fault:
        message = f"`body` cannot be sent: {fault}"
        raise _WrongLineError("invalid_request", message, "body") from None


def _refuse_nul(text: str, param: str) -> None:
    if "\0" in text:  # no text of PostgreSQL may have one
        raise _WrongLineError("invalid_request", f"`{param}` has a NUL character", param)

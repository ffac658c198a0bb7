"""Reads what a request asks for: its prompt, its length in tokens, its limits."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import orjson

__all__ = ["Asked", "Refusal", "asked_of"]

BYTES_PER_TOKEN = 4  # of English, roughly; there is no tokenizer here
_COMPLETION_TOKENS = 16  # what OpenAI and vLLM let a completion without `max_tokens` have


class Refusal(Exception):  # noqa: N818 - what a client is answered, not a fault of ours
    """An answer with an error, in OpenAI's form."""

    def __init__(self, status: int, message: str, *, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = orjson.dumps(
            {"error": {"message": message, "type": kind, "param": param, "code": status}}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request, as the server needs it."""

    model: str
    text: bytes  # the prompt, as far as it decides on the answer
    prompt_tokens: int
    max_tokens: int | None
    stream: bool
    include_usage: bool
    ignore_eos: bool
    inputs: int = 1  # of embeddings

    @property
    def digest(self) -> int:
        """Return a number that the same prompt always has."""
        return zlib.crc32(self.text)

    def prefix_keys(self, block_tokens: int) -> list[int]:
        """Return a key for each whole block of the prompt, which depends on all blocks before."""
        size = block_tokens * BYTES_PER_TOKEN
        keys = []
        key = zlib.crc32(self.model.encode())
        for start in range(0, len(self.text) - size + 1, size):
            key = hash((key, self.text[start : start + size]))
            keys.append(key)
        return keys


def asked_of(body: bytes, route: str) -> Asked:
    """Read the body of a request to one of the routes that compute something."""
    fields = _fields(body)
    if fields.get("n") not in (None, 1):
        raise _wrong("only n=1 is served", "n")
    text, tokens, inputs = _prompt(fields, route)
    limits = {
        "chat": ("max_completion_tokens", "max_tokens"),
        "completions": ("max_tokens",),
        "responses": ("max_output_tokens",),
        "embeddings": (),
    }[route]
    given = [_count(fields, name) for name in limits]
    limit = next((each for each in given if each is not None), None)
    if route == "completions" and limit is None:
        limit = _COMPLETION_TOKENS
    options = fields.get("stream_options")
    return Asked(
        model=_text_field(fields, "model"),
        text=text,
        prompt_tokens=tokens,
        max_tokens=limit,
        stream=bool(fields.get("stream")) and route != "embeddings",
        include_usage=isinstance(options, dict) and bool(options.get("include_usage")),
        ignore_eos=bool(fields.get("ignore_eos")),
        inputs=inputs,
    )


def _fields(body: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as fault:
        raise _wrong(f"the body is no JSON: {fault}") from None
    if not isinstance(fields, dict):
        raise _wrong("the body is no JSON object")
    return fields


def _prompt(fields: dict[str, Any], route: str) -> tuple[bytes, int, int]:
    """Return the prompt as bytes, its tokens, and how many inputs it is made of."""
    name = {"chat": "messages", "completions": "prompt"}.get(route, "input")
    value = fields.get(name)
    if not value:
        raise _wrong(f"`{name}` is missing or empty", name)
    if isinstance(value, str):
        return _counted([value], name)
    if not isinstance(value, list):
        raise _wrong(f"`{name}` is neither text nor a list", name)
    if all(isinstance(each, int) for each in value):  # tokens
        return orjson.dumps(value), len(value), 1
    if all(isinstance(each, dict) for each in value):
        parts = [part for each in value for part in _message(each, name)]
        return (*_counted(parts, name)[:2], 1)
    if not all(isinstance(each, str) for each in value):
        raise _wrong(f"`{name}` mixes things of several kinds", name)
    if len(value) > 1 and route != "embeddings":
        raise _wrong("only one prompt per request is served", name)
    return _counted(value, name)


def _message(message: dict[str, Any], name: str) -> list[str]:
    content = message.get("content")
    if isinstance(content, list):
        texts = [each.get("text") for each in content if isinstance(each, dict)]
        content = "".join(each for each in texts if isinstance(each, str))
    if content is not None and not isinstance(content, str):
        raise _wrong(f"a message in `{name}` has a content that is no text", name)
    return [f"{message.get('role', '')}:", content or ""]


def _counted(parts: list[str], name: str) -> tuple[bytes, int, int]:
    try:
        text = "\n".join(parts).encode()
    except UnicodeEncodeError:
        raise _wrong(f"`{name}` holds half a surrogate pair", name) from None
    return text, max(1, -(-len(text) // BYTES_PER_TOKEN)), len(parts)


def _count(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _wrong(f"`{name}` is {value!r}, not a whole number from 1", name)
    return value


def _text_field(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise _wrong(f"`{name}` is missing", name)
    return value


def _wrong(message: str, param: str | None = None) -> Refusal:
    return Refusal(400, message, kind="BadRequestError", param=param)

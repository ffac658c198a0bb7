"""The few fields of a request's body that the gateway reads; the body itself is never changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from steward.service.gateway.call import Usage
from steward.service.gateway.openai_errors import GatewayError

__all__ = ["RequestFields", "deadline_of", "read_fields", "usage_in", "usage_of"]

_PROMPT = re.compile(rb'"(?:prompt_tokens|input_tokens)"\s*:\s*(\d{1,12})')
_OUTPUT = re.compile(rb'"(?:completion_tokens|output_tokens)"\s*:\s*(\d{1,12})')
_TAIL_BYTES = 4096  # of an answer: usage mostly stands at its end
_LONGEST_NAME = 256
_LONGEST_DEADLINE_MS = 30 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFields:
    """What the queue has to know of a body."""

    model: str  # "" if it names none
    stream: bool


def read_fields(body: bytes) -> RequestFields:
    """Read a body; raise what its sender has to be told."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as fault:
        problem = f"the body is not JSON: {fault}" if body else "the body is empty"
        raise GatewayError(400, problem, code="invalid_json") from None
    if not isinstance(value, dict):
        raise GatewayError(400, "the body is not a JSON object", code="invalid_json")
    model, stream = value.get("model", ""), value.get("stream")
    if not isinstance(model, str) or len(model) > _LONGEST_NAME:
        raise GatewayError(
            400,
            f"'model' has to be text of at most {_LONGEST_NAME} characters",
            code="invalid_model",
            param="model",
        )
    if stream is not None and not isinstance(stream, bool):
        raise GatewayError(
            400, "'stream' has to be true or false", code="invalid_type", param="stream"
        )
    return RequestFields(model=model, stream=bool(stream))


def deadline_of(headers: Mapping[str, str]) -> float | None:
    """Return the deadline that `x-slo-ttft-ms` asks for, in seconds from now."""
    given = headers.get("x-slo-ttft-ms")
    if given is None:
        return None
    if not given.isascii() or not given.isdecimal() or len(given) > 12:
        raise GatewayError(
            400,
            "the header x-slo-ttft-ms has to be a whole number of milliseconds",
            code="invalid_header",
            param="x-slo-ttft-ms",
        )
    return min(int(given), _LONGEST_DEADLINE_MS) / 1000


def usage_in(text: bytes) -> Usage | None:
    """Return the tokens that an answer, or the last event of a stream, says it took.

    Quotes inside of answers are escaped, so no text of a model looks like the fields.
    """
    prompt = _last(_PROMPT, text)
    if prompt is None:
        return None
    return Usage(prompt_tokens=prompt, output_tokens=_last(_OUTPUT, text) or 0)


def usage_of(body: bytes) -> Usage | None:
    """Return the tokens that a whole answer says it took.

    What a client asks for may follow them, as long as it likes: log probabilities of the prompt.
    """
    found = usage_in(body[-_TAIL_BYTES:])
    if found is not None or b'"usage"' not in body:
        return found
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    usage = value.get("usage") if isinstance(value, dict) else None
    return usage_in(orjson.dumps(usage)) if isinstance(usage, dict) else None


def _last(pattern: re.Pattern[bytes], text: bytes) -> int | None:
    found = pattern.findall(text)
    return int(found[-1]) if found else None

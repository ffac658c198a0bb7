"""What an upstream's reply means for an item: its line in the output, or another attempt."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from steward.service.gateway.call import UpstreamReply
from steward.store.batches import Item, ItemAnswer

__all__ = ["Verdict", "judged"]

_BUSY = (429, 503)  # there is nobody to answer it now: no fault of the request, ask again
_AGAIN = (408, 409, 425, 500, 502, 504)  # may succeed another time, or never
_BUSY_WAIT_S = 2.0
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0


class Verdict(NamedTuple):
    """Either an answer, or how long to wait before the item is sent again."""

    answer: ItemAnswer | None
    after_s: float = 0.0
    failed: bool = True  # counts as one of the item's attempts


def judged(item: Item, reply: UpstreamReply, *, attempts: int) -> Verdict:
    """Return what to do with a reply; `attempts` is how often an item that fails is sent."""
    body = _json(reply)
    if reply.status in _BUSY:
        return Verdict(None, _busy_wait_s(reply), failed=False)
    if (reply.status in _AGAIN or body is None) and item.attempts + 1 < attempts:
        return Verdict(None, min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(item.attempts, 10)))
    if body is None:
        error = {
            "code": "invalid_upstream_answer",
            "message": f"the upstream answered {reply.status} with something that is no JSON",
        }
        return Verdict(_answer(item, None, error=error, failed=True))
    response = {"status_code": reply.status, "request_id": reply.request_id, "body": body}
    return Verdict(_answer(item, response, error=None, failed=reply.status >= 400))


def _busy_wait_s(reply: UpstreamReply) -> float:
    given = reply.headers.get("Retry-After", "")
    asked_s = float(given[:9]) if given.isascii() and given.isdecimal() else 0.0
    return min(_LONGEST_WAIT_S, max(_BUSY_WAIT_S, asked_s))


def _json(reply: UpstreamReply) -> orjson.Fragment | None:
    """Return the body as it is, if it is JSON."""
    try:
        orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return None
    return orjson.Fragment(reply.body.strip())


def _answer(
    item: Item, response: dict[str, Any] | None, *, error: dict[str, str] | None, failed: bool
) -> ItemAnswer:
    record = {"id": item.id, "custom_id": item.custom_id, "response": response, "error": error}
    line = orjson.dumps(record).replace(b"\n", b" ") + b"\n"  # line feeds of a body laid out nicely
    return ItemAnswer(batch=item.batch, line=item.line, answer=line, failed=failed)

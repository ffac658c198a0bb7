"""The bytes of answers in OpenAI's forms: whole, and as server-sent events token by token."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import Any

import orjson

from steward.service.stand_in.prompts import Asked

__all__ = ["Answer"]

# Words of five letters: each event of an answer has the same length, and is built by joining.
_WORDS = (
    *(b" amber", b" birch", b" cedar", b" delta", b" ember", b" fjord", b" grove", b" haven"),
    *(b" inlet", b" jolly", b" kayak", b" lemon", b" maple", b" night", b" ocean", b" pearl"),
    *(b" quilt", b" river", b" stone", b" tulip", b" umbra", b" vivid", b" wheat", b" xenon"),
    *(b" yield", b" zebra", b" acorn", b" brick", b" cloud", b" dunes", b" eagle", b" flint"),
)
_MARK = " @@@@@"
_PREFIX = {"chat": "chatcmpl", "completions": "cmpl", "responses": "resp", "embeddings": "embd"}
_EMBEDDING = [round((each % 7 - 3) / 16, 4) for each in range(64)]
_numbers = itertools.count()


@dataclass(slots=True, kw_only=True)
class Answer:
    """What one request is answered, while it grows."""

    route: str
    asked: Asked
    reason: str  # why it will end: stop or length
    cached_tokens: int = 0
    id: str = field(init=False)
    _created: int = field(init=False)
    _before: bytes = field(init=False, default=b"")
    _after: bytes = field(init=False, default=b"")

    def __post_init__(self) -> None:
        number = next(_numbers)
        self.id = f"{_PREFIX[self.route]}-{self.asked.digest:08x}{number:016x}"
        self._created = int(time.time())
        if self.asked.stream:
            event = self._event(self._delta(_MARK))
            before, after = _chunked(event).split(_MARK.encode())
            self._before, self._after = before, after

    def first_events(self) -> bytes:
        """Return what comes before the first token."""
        if self.route == "chat":
            return _chunked(self._event(self._choice({"delta": {"role": "assistant"}}, None)))
        if self.route == "responses":
            record = {"type": "response.created", "response": self._response("in_progress", 0)}
            return _chunked(self._event(record))
        return b""

    def token_events(self, begin: int, end: int) -> bytes:
        """Return the events of the tokens from `begin` up to `end`, in HTTP chunks."""
        before, after, first = self._before, self._after, self.asked.digest
        if end - begin == 1:
            return before + _WORDS[(first + begin) & 31] + after
        words = [_WORDS[(first + each) & 31] for each in range(begin, end)]
        return before + (after + before).join(words) + after

    def last_events(self, generated: int) -> bytes:
        """Return what comes after the last token."""
        if self.route == "responses":
            record = {
                "type": "response.completed",
                "response": self._response("completed", generated),
            }
            return _chunked(self._event(record))
        end: dict[str, Any] = {"delta": {}} if self.route == "chat" else {"text": ""}
        events = [self._event(self._choice(end, self.reason))]
        if self.asked.include_usage:
            events.append(
                self._event({**self._head(), "choices": [], "usage": self._usage(generated)})
            )
        return b"".join(_chunked(each) for each in [*events, b"data: [DONE]\n\n"])

    def body(self, generated: int) -> bytes:
        """Return the answer as a whole."""
        if self.route == "embeddings":
            rows = [
                {"object": "embedding", "index": each, "embedding": _EMBEDDING}
                for each in range(self.asked.inputs)
            ]
            head = {"id": self.id, "object": "list", "created": self._created}
            record = {**head, "model": self.asked.model, "data": rows, "usage": self._usage(0)}
        elif self.route == "responses":
            record = self._response("completed", generated)
        else:
            text = self.text(generated)
            said = {"message": {"role": "assistant", "content": text}}
            whole = said if self.route == "chat" else {"text": text}
            record = {**self._choice(whole, self.reason), "usage": self._usage(generated)}
            record["object"] = "chat.completion" if self.route == "chat" else "text_completion"
        return orjson.dumps(record)

    def text(self, generated: int) -> str:
        """Return so many tokens of the answer."""
        first = self.asked.digest
        return b"".join(_WORDS[(first + each) & 31] for each in range(generated)).decode()

    def _delta(self, text: str) -> dict[str, Any]:
        if self.route == "responses":
            kind = "response.output_text.delta"
            place = {"output_index": 0, "content_index": 0}
            return {"type": kind, "item_id": f"msg-{self.id}", **place, "delta": text}
        part = {"delta": {"content": text}} if self.route == "chat" else {"text": text}
        return self._choice(part, None)

    def _choice(self, part: dict[str, Any], reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, **part, "logprobs": None, "finish_reason": reason}
        return {**self._head(), "choices": [choice]}

    def _head(self) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.route == "chat" else "text_completion"
        return {
            "id": self.id,
            "object": kind,
            "created": self._created,
            "model": self.asked.model,
        }

    def _response(self, status: str, generated: int) -> dict[str, Any]:
        part = {"type": "output_text", "text": self.text(generated), "annotations": []}
        message = {
            "type": "message",
            "id": f"msg-{self.id}",
            "role": "assistant",
            "status": status,
            "content": [part],
        }
        cut = {"reason": "max_output_tokens"} if self.reason == "length" else None
        over = status == "completed"
        prompt = self.asked.prompt_tokens
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created,
            "status": "incomplete" if over and cut else status,
            "incomplete_details": cut if over else None,
            "model": self.asked.model,
            "output": [message] if over else [],
            "usage": {
                "input_tokens": prompt,
                "output_tokens": generated,
                "total_tokens": prompt + generated,
            },
        }

    def _usage(self, generated: int) -> dict[str, Any]:
        prompt = self.asked.prompt_tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": generated,
            "total_tokens": prompt + generated,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }

    def _event(self, record: dict[str, Any]) -> bytes:
        name = f"event: {record['type']}\n".encode() if self.route == "responses" else b""
        return name + b"data: " + orjson.dumps(record) + b"\n\n"


def _chunked(event: bytes) -> bytes:
    """Frame bytes as one chunk of HTTP/1.1."""
    return b"%x\r\n%b\r\n" % (len(event), event)

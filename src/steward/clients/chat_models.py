"""Chat with a language model: Ollama's own protocol, or any OpenAI-compatible server.

A model only ever returns JSON text; how long it may take is bounded as a whole, not per read.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from steward.clients.web import Endpoint, open_client
from steward.errors import StewardError, TemporaryError

if TYPE_CHECKING:
    import httpx

__all__ = ["ChatModel", "Kind", "kind_of"]

Kind = Literal["ollama", "openai"]
MOST_BYTES = 1 << 18  # of one answer: one that never ends is cut off
CONTEXT_TOKENS = 16_384  # Ollama cuts the front of a longer question silently
_LEAST_SHARE = 0.5  # of the tokens that we sent, that it must have counted
_BYTES_PER_TOKEN = 6.0  # at most: fewer counted tokens than that mean that a part was cut off


def kind_of(url: str) -> Kind:
    """Return the protocol of an address: OpenAI's ends in /v1.

    >>> kind_of("http://localhost:11434"), kind_of("http://gpu01:8000/v1")
    ('ollama', 'openai')
    """
    return "openai" if url.rstrip("/").endswith("/v1") else "ollama"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    text: str
    counted: int | None = None


class ChatModel:
    """One model behind an address. `ask` returns its text or raises a `StewardError`."""

    def __init__(
        self, endpoint: Endpoint, *, model: str, kind: Kind | None = None, timeout_s: float = 30.0
    ) -> None:
        self.name = model
        self._endpoint = endpoint
        self._kind: Kind = kind or kind_of(endpoint.url)
        self._timeout_s = timeout_s
        self._client: httpx.Client | None = None
        self._lock = threading.Lock()

    def ask(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any], *, until_s: float
    ) -> str:
        """Return the model's answer, which is to be JSON of a schema; by `time.monotonic`."""
        until_s = min(until_s, time.monotonic() + self._timeout_s)
        path, body = self._request(list(messages), dict(schema))
        text, counted = "", None
        for part in self._stream(path, body, until_s):
            text += part.text
            counted = part.counted if part.counted is not None else counted
        self._check_whole(messages, counted)
        return text

    def _request(
        self, messages: list[Mapping[str, str]], schema: dict[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        if self._kind == "ollama":
            options = {"temperature": 0, "num_ctx": CONTEXT_TOKENS, "num_predict": 1024}
            return "/api/chat", {
                "model": self.name,
                "messages": messages,
                "format": schema,
                "stream": True,
                "think": False,
                "options": options,
            }
        named = {"name": "answer", "schema": schema, "strict": False}
        return "/chat/completions", {
            "model": self.name,
            "messages": messages,
            "temperature": 0,
            "max_tokens": 1024,
            "stream": True,
            "response_format": {"type": "json_schema", "json_schema": named},
        }

    def _stream(self, path: str, body: dict[str, Any], until_s: float) -> Iterator[_Part]:
        import httpx  # noqa: PLC0415 - 7 MB that most commands need not load

        url = self._endpoint.url.rstrip("/") + path
        size = 0
        left_s = max(0.1, until_s - time.monotonic())
        try:
            with self._open().stream("POST", url, json=body, timeout=left_s) as answer:
                if answer.status_code != 200:
                    problem = f"answers {answer.status_code}"
                    raise StewardError(problem, where=url, hint="is the model's name right?")
                for line in _lines(answer, until_s, url):
                    size += len(line)
                    if size > 4 * MOST_BYTES:
                        raise StewardError("its answer does not end", where=url)
                    yield from self._read(line)
        except httpx.HTTPError as fault:
            problem = f"{type(fault).__name__}: {fault}"[:200]
            raise TemporaryError(problem, where=url, hint="is it running?") from fault

    def _read(self, line: str) -> Iterator[_Part]:
        """Read one line of a stream: of Ollama JSON, of OpenAI an event with JSON."""
        line = line.strip()
        if self._kind == "openai":
            if not line.startswith("data:") or line == "data: [DONE]":
                return
            line = line.removeprefix("data:")
        if not line:
            return
        try:
            found = json.loads(line)
            if self._kind == "ollama":
                counted = found.get("prompt_eval_count") if found.get("done") else None
                yield _Part(text=str(found["message"]["content"]), counted=counted)
            else:
                for choice in found["choices"]:
                    yield _Part(text=str(choice["delta"].get("content") or ""))
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            raise StewardError("its answer is no chat", where=self._endpoint.url) from fault

    def _check_whole(self, messages: Sequence[Mapping[str, str]], counted: int | None) -> None:
        """Raise if the server counted so few tokens that it must have cut the question."""
        if counted is None:
            return
        sent = sum(len(each["content"]) for each in messages) / _BYTES_PER_TOKEN
        if counted < sent * _LEAST_SHARE:
            raise StewardError(
                f"it read {counted} tokens of about {sent:.0f}: the rest was cut off",
                where=self._endpoint.url,
                hint="raise its context length",
            )

    def _open(self) -> httpx.Client:
        with self._lock:
            if self._client is None:
                self._client = open_client(self._endpoint, owner=self)
            return self._client


def _lines(answer: httpx.Response, until_s: float, url: str) -> Iterator[str]:
    """Yield lines until the time is over; a server that trickles gets no more time."""
    rest = ""
    for chunk in answer.iter_text():
        rest += chunk
        if time.monotonic() > until_s:
            raise TemporaryError("it takes too long", where=url)
        if len(rest) > 4 * MOST_BYTES:
            raise StewardError("its answer does not end", where=url)
        *whole, rest = rest.split("\n")
        yield from whole
    yield rest

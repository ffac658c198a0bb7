"""Replays recorded requests at a real server, in real time and in an open loop.

Requests are sent when they are due, however slow the server is. Times count from when a request
was due, not from when this program got round to sending it; that lateness is measured beside.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import numpy as np
from numpy.typing import NDArray

from steward import __version__
from steward.clients.openai_stream import StreamedAnswer, stream_answer
from steward.clients.transport_rule import check_transport
from steward.errors import StewardError
from steward.model.serving.requests import RequestTrace

__all__ = ["ReplayTarget", "Replayed", "prompt_text", "replay", "served_models"]

CLASS_HEADER = "x-steward-class"
_LEAD_S = 0.2  # until the first request: the session is open by then
_CHAT_TOKENS = 8  # what a chat template adds, about
# Words that common tokenizers have as one token each, with the space before them.
_COMMON = (
    "the of and to in is you that it he was for on are as with his they at be this have from or "
    "one had by word but not what all were we when your can said there use an each which she do "
    "how their if will up other about out many then them these so some her would make like him "
    "into time has look two more write go see number no way could people my than first water"
)
_WORDS = _COMMON.split()
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTarget:
    """Where requests go, and in what form."""

    url: str  # without /v1
    model: str = ""  # of requests that name none; empty is the first that the server lists
    api_key: str = ""
    chat: bool = True  # else /v1/completions
    ignore_eos: bool = True  # answers as long as recorded; not every server knows it
    connections: int = 1024
    timeout_s: float = 600.0
    plain_http: bool = False

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            hint = "write http://HOST:PORT or https://HOST"
            raise StewardError(f"'{self.url}' is not an address", where="--url", hint=hint)
        if self.api_key:  # prompts are made up: only a key has to be kept from others
            check_transport(self.url, plain_http=self.plain_http)

    @property
    def base(self) -> str:
        """Return the address without a trailing slash or `/v1`."""
        return self.url.rstrip("/").removesuffix("/v1")

    @property
    def headers(self) -> dict[str, str]:
        """Return what every request carries."""
        key = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        return {"User-Agent": f"steward/{__version__}", **key}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replayed:
    """What became of each request, along the trace; seconds from when the first one was due."""

    due_s: Floats
    sent_s: Floats  # NaN: never
    first_s: Floats
    finish_s: Floats
    output_tokens: NDArray[np.int64]  # that came, as the server or else this program counted
    prompt_tokens: Floats  # as the server counted them; NaN if it did not
    errors: tuple[str, ...]  # kind by request, empty for none
    details: Mapping[str, str]  # the first of each kind
    held: int  # sent late since all connections were in use
    interrupted: bool = False

    @property
    def settled(self) -> NDArray[np.int64]:
        """Return the rows that were answered or failed: not those that were broken off."""
        failed = np.array([bool(each) for each in self.errors], bool)
        return np.flatnonzero(np.isfinite(self.finish_s) | failed)

    @property
    def late_s(self) -> Floats:
        """Return how late this program sent, for what was sent."""
        late: Floats = (self.sent_s - self.due_s)[np.isfinite(self.sent_s)]
        return late


def served_models(target: ReplayTarget) -> tuple[str, ...]:
    """Return the models that the server lists."""
    return asyncio.run(_served_models(target))


async def _served_models(target: ReplayTarget) -> tuple[str, ...]:
    where = f"{target.base}/v1/models"
    try:
        timeout = aiohttp.ClientTimeout(total=10.0)
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=target.headers) as session,
            session.get(where) as reply,
        ):
            if reply.status != 200:
                hint = "it may want a key: --api-key-env NAME"
                raise StewardError(f"answers {reply.status}", where=where, hint=hint)
            listed = await reply.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault) or type(fault).__name__
        problem = f"no server answers: {reason}"
        raise StewardError(problem, where=where, hint="is it running there?") from None
    except ValueError:
        hint = "is this an OpenAI-compatible server? else name the model: --model"
        raise StewardError("answers with no JSON", where=where, hint=hint) from None
    rows = listed.get("data") if isinstance(listed, dict) else None
    names = [each.get("id") for each in rows or () if isinstance(each, dict)]
    return tuple(each for each in names if isinstance(each, str) and each)


def prompt_text(tokens: int, blocks: Sequence[int], block_tokens: int, *, seed: int) -> str:
    """Return a text of about so many tokens; equal blocks at the start are equal text."""
    words: list[str] = []
    for block in blocks:
        if len(words) >= tokens:
            break
        words += _drawn(min(block_tokens, tokens - len(words)), (1, block))
    words += _drawn(tokens - len(words), (2, seed))
    return " ".join(words)


def _drawn(count: int, seed: tuple[int, int]) -> list[str]:
    chosen = np.random.default_rng(seed).integers(0, len(_WORDS), max(0, count))
    return [_WORDS[each] for each in chosen.tolist()]


async def replay(
    trace: RequestTrace,
    target: ReplayTarget,
    *,
    models: Sequence[str],
    stop: asyncio.Event,
    progress: Callable[[int, int, int], None] = lambda _sent, _open, _failed: None,
) -> Replayed:
    """Send all requests when they are due; end early, with what is known, when `stop` is set."""
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=target.timeout_s)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, headers=target.headers
    ) as session:
        sender = _Sender(trace, target, tuple(models), session, progress)
        return await sender.run(stop)


class _Sender:
    """Keeps the schedule, and one task for each request in flight."""

    def __init__(
        self,
        trace: RequestTrace,
        target: ReplayTarget,
        models: tuple[str, ...],
        session: aiohttp.ClientSession,
        progress: Callable[[int, int, int], None],
    ) -> None:
        self._trace, self._target, self._session = trace, target, session
        self._models, self._progress = models, progress
        self._answers: dict[int, StreamedAnswer] = {}
        self._open: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(target.connections)
        self._held = self._failed = 0

    async def run(self, stop: asyncio.Event) -> Replayed:
        due_s = self._trace.arrival_s - self._trace.arrival_s[0]
        stopped = asyncio.create_task(stop.wait())
        sending = asyncio.create_task(self._send_all(begin_s := time.monotonic() + _LEAD_S, due_s))
        try:
            await asyncio.wait({stopped, sending}, return_when=asyncio.FIRST_COMPLETED)
            if not stop.is_set():
                await sending
        finally:
            open_ = [stopped, sending, *self._open]
            for each in open_:
                each.cancel()
            await asyncio.gather(*open_, return_exceptions=True)
        return self._replayed(begin_s, due_s, interrupted=stop.is_set())

    async def _send_all(self, begin_s: float, due_s: Floats) -> None:
        for row, after_s in enumerate(due_s.tolist()):
            body, headers = self._body(row), self._class(row)  # made before it is due
            await asyncio.sleep(max(0.0, begin_s + after_s - time.monotonic()))
            self._held += self._slots.locked()
            await self._slots.acquire()
            task = asyncio.create_task(self._one(row, body, headers))
            self._open.add(task)
            task.add_done_callback(self._open.discard)
            self._progress(row + 1, len(self._open), self._failed)
        while self._open:
            await asyncio.wait(self._open, return_when=asyncio.FIRST_COMPLETED)
            self._progress(len(due_s), len(self._open), self._failed)

    async def _one(self, row: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        answer = self._answers[row] = StreamedAnswer(sent_s=time.monotonic())
        path = "/v1/chat/completions" if self._target.chat else "/v1/completions"
        try:
            await stream_answer(self._session, self._target.base + path, body, headers, answer)
        finally:
            self._failed += bool(answer.error)
            self._slots.release()

    def _body(self, row: int) -> dict[str, Any]:
        trace, target = self._trace, self._target
        blocks = trace.prefix_ids[trace.prefix_start[row] : trace.prefix_start[row + 1]].tolist()
        extra = _CHAT_TOKENS if target.chat else 0
        tokens = max(1, int(trace.prompt_tokens[row]) - extra)
        text = prompt_text(tokens, blocks, trace.prefix_block_tokens, seed=row)
        prompt: dict[str, Any] = (
            {"messages": [{"role": "user", "content": text}]} if target.chat else {"prompt": text}
        )
        return {
            "model": self._model(row),
            "max_tokens": int(trace.output_tokens[row]),
            "stream": True,
            "stream_options": {"include_usage": True},
            **({"ignore_eos": True} if target.ignore_eos else {}),
            **prompt,
        }

    def _model(self, row: int) -> str:
        code = int(self._trace.model[row])
        named = self._trace.models[code] if code >= 0 else ""
        return named if named in self._models else self._target.model or self._models[0]

    def _class(self, row: int) -> dict[str, str]:
        return {CLASS_HEADER: self._trace.classes[int(self._trace.deadline_class[row])].name}

    def _replayed(self, begin_s: float, due_s: Floats, *, interrupted: bool) -> Replayed:
        count = len(due_s)
        sent_s, first_s, finish_s, prompts = (np.full(count, np.nan) for _ in range(4))
        tokens = np.zeros(count, np.int64)
        errors, details = [""] * count, dict[str, str]()
        for row, answer in self._answers.items():
            sent_s[row], first_s[row] = answer.sent_s - begin_s, answer.first_s - begin_s
            tokens[row] = answer.output_tokens or answer.pieces
            prompts[row] = np.nan if answer.prompt_tokens is None else answer.prompt_tokens
            errors[row] = answer.error
            if answer.error:
                details.setdefault(answer.error, answer.detail)
            elif answer.complete and answer.pieces:
                finish_s[row] = answer.last_s - begin_s
        return Replayed(
            due_s=due_s,
            sent_s=sent_s,
            first_s=first_s,
            finish_s=finish_s,
            output_tokens=tokens,
            prompt_tokens=prompts,
            errors=tuple(errors),
            details=details,
            held=self._held,
            interrupted=interrupted,
        )

"""Which prompts an upstream has seen lately: an approximation of what its prefix cache holds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import orjson

from steward.service.gateway.ticket import Ticket
from steward.service.gateway.upstream import Upstream

__all__ = ["PrefixIndex", "SeenPrefixes", "prompt_blocks"]

_BLOCK_BYTES = 1024  # some 256 tokens
_MOST_BLOCKS = 256  # of one prompt; what comes after is taken as new
_KEPT = 16_384  # blocks of one upstream, the least recently used leave


def prompt_blocks(body: bytes) -> tuple[int, ...]:
    """Return a hash for each whole block of the prompt, of it and all before it.

    Hashes are of this process only. Anything but an object with a prompt has none.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ()
    if not isinstance(value, dict):
        return ()
    prompt = next((value[key] for key in ("messages", "prompt", "input") if key in value), None)
    text = orjson.dumps([value.get("model"), value.get("instructions"), prompt])
    found, before = [], 0
    for at in range(min(len(text) // _BLOCK_BYTES, _MOST_BLOCKS)):
        begin = at * _BLOCK_BYTES
        before = hash((before, text[begin : begin + _BLOCK_BYTES]))
        found.append(before)
    return tuple(found)


class SeenPrefixes:
    """The blocks of one upstream, the least recently used first; bounded."""

    def __init__(self, most: int = _KEPT) -> None:
        self._most = most
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def add(self, blocks: Sequence[int]) -> None:
        """Note a prompt that was sent there; its beginning stays longest."""
        for each in reversed(blocks):
            self._blocks[each] = None
            self._blocks.move_to_end(each)
        while len(self._blocks) > self._most:
            self._blocks.popitem(last=False)

    def leading(self, blocks: Sequence[int]) -> int:
        """Return how many of a prompt's first blocks are known."""
        for count, each in enumerate(blocks):
            if each not in self._blocks:
                return count
        return len(blocks)


class PrefixIndex:
    """`PrefixCaches` of a view: tickets by row of a request, upstreams by row of an instance."""

    def __init__(
        self, tickets: Mapping[int, Ticket], at: Callable[[int], tuple[Upstream, str]]
    ) -> None:
        self._tickets = tickets
        self._at = at
        self._seen: dict[str, SeenPrefixes] = {}

    def sent(self, ticket: Ticket, upstream: Upstream) -> None:
        """Note that a prompt was sent to an upstream."""
        if ticket.blocks:
            self._seen.setdefault(upstream.name, SeenPrefixes()).add(ticket.blocks)

    def keep(self, names: set[str]) -> None:
        """Forget upstreams that are gone."""
        self._seen = {name: each for name, each in self._seen.items() if name in names}

    def forget(self, upstream: Upstream) -> None:
        """Forget what an upstream had: it failed, and may have been started anew."""
        self._seen.pop(upstream.name, None)

    def __bool__(self) -> bool:
        return bool(self._seen)

    def cached_tokens(self, request: int, instance: int) -> int:
        """Return how many leading tokens of a prompt are likely to be cached."""
        ticket = self._tickets.get(request)
        seen = self._seen.get(self._at(instance)[0].name)
        if ticket is None or seen is None or not ticket.blocks:
            return 0
        share = seen.leading(ticket.blocks) * _BLOCK_BYTES / max(len(ticket.call.body), 1)
        return min(int(share * ticket.prompt_tokens), ticket.prompt_tokens - 1)

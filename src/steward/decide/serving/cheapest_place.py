"""Which instance a request delays least: by load, and by what of its prompt is cached there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from steward.decide.serving.demand import USUAL_OUTPUT_TOKENS
from steward.model.serving.instance_type import InstanceType
from steward.model.serving.view import ServingView

__all__ = ["Sent", "cheapest", "rooms"]

_FULL_SHARE = 0.9  # of the KV cache: from here on what is sent waits for blocks
_FEW = 2  # that wait inside a full instance, where they can no longer be put in order


@dataclass(slots=True)
class Sent:
    """What one call has sent so far: the view's columns do not count it yet."""

    requests: dict[int, int] = field(default_factory=dict)  # by instance
    tokens: dict[int, int] = field(default_factory=dict)

    def add(self, row: int, tokens: int) -> None:
        """Count a request in."""
        self.requests[row] = self.requests.get(row, 0) + 1
        self.tokens[row] = self.tokens.get(row, 0) + tokens


def rooms(view: ServingView) -> list[int]:
    """Return how many requests to send each instance at most: few where KV blocks are short."""
    instances = view.instances
    found: list[int] = instances.room.tolist()
    for row, room in enumerate(found):
        if room > 0:
            kind = view.types[int(instances.type[row])]
            if instances.kv_tokens[row] > _FULL_SHARE * kind.kv_tokens:
                found[row] = max(0, min(room, _FEW - int(instances.waiting[row])))
    return found


def cheapest(view: ServingView, request: int, choices: Sequence[int], sent: Sent) -> int:
    """Return the instance where a request costs least, the first of several."""
    if len(choices) == 1:
        return choices[0]
    output = USUAL_OUTPUT_TOKENS
    if view.forecasts is not None:
        output = float(view.forecasts.output_tokens[request])
    return min(choices, key=lambda row: _cost_s(view, request, (row, output), sent))


def _cost_s(view: ServingView, request: int, at: tuple[int, float], sent: Sent) -> float:
    """Return the request's own time, and by how much it delays those that run there."""
    row, output = at
    instances = view.instances
    kind = view.types[int(instances.type[row])]
    prompt = int(view.requests.prompt_tokens[request])
    if view.prefixes is not None:
        prompt -= view.prefixes.cached_tokens(request, row)
    held = int(instances.kv_tokens[row]) + sent.tokens.get(row, 0)
    others = int(instances.running[row]) + int(instances.waiting[row]) + sent.requests.get(row, 0)
    prefill_s, step_s = _times(kind, prompt, others + 1, held)
    full = held + prompt > _FULL_SHARE * kind.kv_tokens
    return prefill_s * (1 + others) + output * step_s * (2.0 if full else 1.0)


def _times(kind: InstanceType, prompt: int, batch: int, held: int) -> tuple[float, float]:
    times = kind.step_times
    prefill_s = prompt * (times.token_s + times.token_beyond_s + times.attention_s * prompt / 2)
    return prefill_s, times.step_s(decode_sequences=batch, kv_tokens=held)

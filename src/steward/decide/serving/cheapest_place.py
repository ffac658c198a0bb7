"""Which instance a request delays least: by load, and by what of its prompt is cached there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from steward.decide.serving.demand import USUAL_OUTPUT_TOKENS
from steward.model.serving.instance_type import InstanceType
from steward.model.serving.view import SENT, ServingView

__all__ = ["Sent", "cheapest", "rooms", "sent_so_far"]

_FULL_SHARE = 0.9  # of the KV cache: from here on what is sent waits for blocks
_ITL_SHARE = 0.55  # of the promised time between tokens that one step may take
_ENOUGH = 0.75  # of these tokens: a request more would hardly fit
_FEW = 2  # that wait inside a full instance, where they can no longer be put in order


@dataclass(slots=True)
class Sent:
    """What was sent to each instance and has not begun, with what this call has sent so far."""

    most: list[float]  # prompt tokens that an instance computes within the time between tokens
    pending: list[int]  # prompt tokens that wait there
    requests: dict[int, int] = field(default_factory=dict)  # of this call, by instance
    tokens: dict[int, int] = field(default_factory=dict)

    def add(self, row: int, tokens: int) -> None:
        """Count a request in."""
        self.requests[row] = self.requests.get(row, 0) + 1
        self.tokens[row] = self.tokens.get(row, 0) + tokens
        self.pending[row] += tokens

    def bears(self, row: int, tokens: int) -> bool:
        """Return whether the next step stays short enough for those that decode meanwhile.

        A step computes all prompts that wait, and everybody else's next token comes after it. One
        prompt is always let through.
        """
        return self.pending[row] == 0 or self.pending[row] + tokens <= self.most[row]


def sent_so_far(view: ServingView) -> Sent:
    """Return what waits inside the instances, before this call sends anything."""
    instances, requests = view.instances, view.requests
    pending = [0] * len(instances)
    if instances.waiting.any():
        there = np.flatnonzero(requests.state == SENT)
        tokens = requests.prompt_tokens[there] + requests.generated_tokens[there]
        waiting = np.bincount(requests.instance[there], tokens, len(instances))
        pending = [int(each) for each in waiting]
    itl_s = min((each.itl_s for each in view.classes if each.itl_s is not None), default=np.inf)
    most = []
    for row, code in enumerate(instances.type.tolist()):
        times = view.types[code].step_times
        held, batch = int(instances.kv_tokens[row]), int(instances.running[row])
        left_s = _ITL_SHARE * itl_s - times.step_s(decode_sequences=batch, kv_tokens=held)
        most.append(max(0.0, left_s) / max(times.token_s + times.token_beyond_s, 1e-9))
    return Sent(most=most, pending=pending)


def rooms(view: ServingView, sent: Sent) -> list[int]:
    """Return how many requests to send each instance at most.

    Few where KV blocks are short; none where as much waits as the next step should compute.
    """
    instances = view.instances
    found: list[int] = instances.room.tolist()
    for row, room in enumerate(found):
        if room > 0:
            kind = view.types[int(instances.type[row])]
            if instances.kv_tokens[row] > _FULL_SHARE * kind.kv_tokens:
                found[row] = max(0, min(room, _FEW - int(instances.waiting[row])))
            if sent.pending[row] > _ENOUGH * sent.most[row]:
                found[row] = 0
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

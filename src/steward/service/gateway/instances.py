"""The upstreams as rows of instances: one row for each upstream and model that it serves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from steward.model.serving.instance_type import InstanceType
from steward.service.gateway.live_view import InstanceRow, LiveView
from steward.service.gateway.upstream import Upstream

__all__ = ["Instances"]

Pair = tuple[str, str]  # an upstream's name and a model


class Instances:
    """Upstreams by name, and which row of the view stands for which of them.

    An upstream that serves several models has a row for each. The rows share its places, so a
    dispatcher may see more room than there is: what it sends too much stays in the queue.
    """

    def __init__(self, view: LiveView) -> None:
        self._view = view
        self.upstreams: dict[str, Upstream] = {}
        self._leaving: list[Upstream] = []  # removed, and still answering
        self._pairs: list[tuple[Upstream, str]] = []
        self._codes: list[tuple[int, int]] = []  # of type and model, by row
        self._slots: list[int | None] = []  # of upstreams, as they were believed when numbered

    @property
    def all(self) -> list[Upstream]:
        """Return those that are configured, then those that only finish what they have."""
        return [*self.upstreams.values(), *self._leaving]

    @property
    def models(self) -> list[str]:
        """Return the models of all upstreams, whether or not they are up."""
        return sorted({model for each in self.upstreams.values() for model in each.models})

    def at(self, row: int) -> tuple[Upstream, str]:
        """Return the upstream and the model of a row."""
        return self._pairs[row]

    @property
    def by_row(self) -> list[Upstream]:
        """Return the upstream of each row."""
        return [each for each, _ in self._pairs]

    def row_of(self, upstream: Upstream, model: str) -> int:
        """Return the row of an upstream's model, -1 if there is none."""
        pairs = enumerate(self._pairs)
        return next((row for row, each in pairs if each == (upstream, model)), -1)

    def replace(self, upstreams: Iterable[Upstream]) -> None:
        """Take these upstreams instead; those that are left out finish what they have."""
        new = {each.name: each for each in upstreams}
        for each in self.upstreams.values():
            if new.get(each.name) is not each and each.in_flight:
                each.draining = True
                self._leaving.append(each)
        self.upstreams = new
        self.renumber()

    def settle(self) -> None:
        """Forget removed upstreams that have nothing in flight any more."""
        if any(not each.in_flight for each in self._leaving):
            self._leaving = [each for each in self._leaving if each.in_flight]
            self.renumber()

    def believe(self) -> None:
        """Change the types where upstreams were seen to run more at once than was believed."""
        if self._slots != [each.slots for each in self.all]:
            self.renumber()

    def renumber(self) -> None:
        """Make the rows anew, after upstreams or their models have changed."""
        before = {(id(each), model): row for row, (each, model) in enumerate(self._pairs)}
        self._pairs = [(each, model) for each in self.all for model in each.models]
        self._slots = [each.slots for each in self.all]
        kinds = [_kind_of(each, model) for each, model in self._pairs]
        most: dict[str, int] = {}  # of one type, the largest: its instances are alike
        for kind, (each, _) in zip(kinds, self._pairs, strict=True):
            most[kind.name] = max(most.get(kind.name, 0), each.slots or 0)
        self._codes = [
            (self._view.type_code(_with_slots(kind, most[kind.name])), self._view.model_code(model))
            for kind, (_, model) in zip(kinds, self._pairs, strict=True)
        ]
        moved = {
            before[id(each), model]: row
            for row, (each, model) in enumerate(self._pairs)
            if (id(each), model) in before
        }
        self._view.move(moved)

    def rows(self, t_s: float) -> list[InstanceRow]:
        """Return the rows as they are now."""
        return [
            InstanceRow(
                type=kind,
                model=model,
                state=each.state,
                limit=each.limit,
                room=each.room(t_s),
                role=each.role,
            )
            for (each, _), (kind, model) in zip(self._pairs, self._codes, strict=True)
        ]

    def has_room(self, t_s: float) -> bool:
        """Return whether any upstream may get a request now."""
        return any(each.room(t_s) for each in self.upstreams.values())


def _kind_of(upstream: Upstream, model: str) -> InstanceType:
    """Return the type of an instance: those with the same limits and profile learn together."""
    settings, kind = upstream.settings, upstream.kind
    name = f"{model} ({kind.name}, {settings.gpus} GPU, {settings.limit})"
    return replace(
        kind,
        name=name,
        model=model,
        gpus=settings.gpus,
        kv_tokens=settings.kv_tokens,
        max_sequences=settings.limit,
        max_batched_tokens=max(kind.max_batched_tokens, 2 * settings.limit),
        max_waiting=settings.max_waiting,
    )


def _with_slots(kind: InstanceType, slots: int) -> InstanceType:
    """Return the type with what was seen of how many run at once; 0 is nothing yet."""
    return replace(kind, max_sequences=min(kind.max_sequences, slots)) if slots else kind

"""The objects of one kind as they were last seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from steward.clients.kubernetes import ObjectChange, Reflector

__all__ = ["KeptObjects"]


class _Named(Protocol):
    @property
    def uid(self) -> str: ...


T = TypeVar("T", bound=_Named)


@dataclass(slots=True)
class KeptObjects(Generic[T]):
    """What a reflector has brought, by uid."""

    reflector: Reflector[T]
    objects: dict[str, T] = field(default_factory=dict)

    def fold(self) -> set[str]:
        """Take in what is new; return which have changed."""
        changes: list[ObjectChange[T]] = self.reflector.changes()
        for change in changes:
            if change.gone or change.now is None:
                self.objects.pop(change.uid, None)
            else:
                self.objects[change.uid] = change.now
        return {change.uid for change in changes}

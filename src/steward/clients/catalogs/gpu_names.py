"""What others call a GPU, as the name that it has in the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable

from steward.model.planning.catalog import Accelerator

__all__ = ["GpuNames"]

_SHOWN = 12
_NEAR = 0.08  # of memory: clouds write 141 GB as 144384 MiB, drivers as 143771


class GpuNames:
    """Find accelerators by name, alias, and memory; remember which names nobody knows."""

    def __init__(self, accelerators: Iterable[Accelerator]) -> None:
        self._accelerators = tuple(accelerators)
        self._by_key = {
            _key(name): each
            for each in reversed(self._accelerators)
            for name in (*each.aliases, each.name)
        }
        self.unknown: set[str] = set()

    def name(self, text: str, memory_bytes: float | None = None, *, gpus: int = 1) -> str:
        """Return the catalogue's name, or the text itself where it is not known.

        `memory_bytes` decides between cards of one name, such as A100 with 40 and 80 GB. Some
        write the memory of all `gpus` there.
        """
        if not text:
            return ""
        found = self._by_key.get(_key(text))
        if memory_bytes and (found is None or not _is_near(found, memory_bytes)):
            of_one = self._of_family(text, memory_bytes / max(1, gpus))
            found = self._of_family(text, memory_bytes) or of_one
        if found is None:
            self.unknown.add(text)
        return text if found is None else found.name

    def note(self) -> tuple[str, ...]:
        """Return a sentence about the names that nobody knew; none if all were known."""
        if not self.unknown:
            return ()
        names = sorted(self.unknown)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        listed = f"{', '.join(names[:_SHOWN])}{more}"
        hint = "their memory and speed are not known; `import gpus` adds accelerators"
        return (f"no accelerator of the catalogue is called {listed}: {hint}",)

    def _of_family(self, text: str, memory_bytes: float) -> Accelerator | None:
        family = _family(text)
        near = [
            each
            for each in self._accelerators
            if _family(each.name) == family and _is_near(each, memory_bytes)
        ]
        return max(near, key=lambda each: each.watts, default=None)  # clouds have the SXM boards


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _family(name: str) -> str:
    return _key(re.split(r"[-_ ]", name, maxsplit=1)[0])


def _is_near(each: Accelerator, memory_bytes: float) -> bool:
    return abs(each.memory_bytes / memory_bytes - 1.0) <= _NEAR

"""Three small parts that all pages are made of. They send nothing while nothing changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from nicegui import ui
from nicegui.element import Element

from steward.service.pages.markup import Markup

__all__ = ["Chart", "Html", "Rows", "set_prop"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Html(ui.html):
    """A piece of markup. It is escaped where it is made, so the browser need not clean it."""

    def __init__(
        self, markup: Markup | None = None, *, tag: str = "div", classes: str = ""
    ) -> None:
        super().__init__(markup or "", sanitize=False, tag=tag)
        self.classes(classes)

    def show(self, markup: Markup) -> None:
        """Replace the markup, if it is different."""
        if markup != self.content:
            self.set_content(markup)


class Chart:
    """A chart that is drawn again at most every `every_s` seconds, and only if it changed."""

    def __init__(
        self, options: dict[str, Any], *, classes: str = "st-chart st-low", every_s: float = 0.0
    ) -> None:
        self.element = ui.echart(options).classes(classes)
        self._every_s = every_s
        self._drawn_s = float("-inf")

    def show(self, make: Callable[[], list[dict[str, Any]]]) -> None:
        """Draw these series, unless it is too early."""
        now_s = time.monotonic()
        if now_s < self._drawn_s + self._every_s:
            return
        series = make()
        if series != self.element.options["series"]:
            self._drawn_s = now_s
            self.element.options["series"] = series
            self.element.update()


def set_prop(element: Element, name: str, value: str) -> None:
    """Set an attribute, if it is different. Names of jobs and people are safe as values."""
    if element.props.get(name) != value:
        element.props[name] = value


class Rows(Generic[K, V]):
    """One element per key, kept as long as its key is there: what is open in a row stays open.

    `make` builds the element of a new row and returns it with what brings it up to date.
    """

    def __init__(
        self, parent: Element, make: Callable[[V], tuple[Element, Callable[[V], None]]]
    ) -> None:
        self._parent = parent
        self._make = make
        self._rows: dict[K, tuple[Element, Callable[[V], None]]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def show(self, items: Sequence[tuple[K, V]]) -> None:
        """Make the rows those of `items`, in their order."""
        wanted = dict(items)
        for key in [key for key in self._rows if key not in wanted]:
            self._rows.pop(key)[0].delete()
        for key, value in wanted.items():
            if key in self._rows:
                self._rows[key][1](value)
            else:
                with self._parent:
                    self._rows[key] = self._make(value)
        self._order(list(wanted))

    def _order(self, keys: list[K]) -> None:
        children = self._parent.default_slot.children
        for place, key in enumerate(keys):
            element = self._rows[key][0]
            if children[place] is not element:
                element.move(target_index=place)

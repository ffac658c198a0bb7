"""A dialog that names what is about to be done, and a message about what came of it."""

from __future__ import annotations

from typing import Literal

from nicegui import ui

from steward.service.pages.markup import Markup
from steward.service.pages.rows import Html

__all__ = ["Confirmation", "toast"]


class Confirmation:
    """One per page, so that it outlives the row whose button opened it."""

    def __init__(self) -> None:
        with ui.dialog() as self._dialog, ui.element("div").classes("st-confirm"):
            self._text = Html()
            with ui.element("div").classes("st-confirm-buttons"):
                self._no = ui.button("", color=None, on_click=self._cancel)
                self._no.props("flat no-caps dense").classes("st-plain-button")
                self._yes = ui.button("", color=None, on_click=self._confirm)
                self._yes.props("no-caps unelevated dense").classes("st-choice st-choice-approve")

    async def ask(self, text: Markup, *, yes: str, no: str = "Cancel") -> bool:
        """Show `text` and return True once a person presses the button `yes`, not `no`."""
        self._text.show(text)
        self._no.set_text(no)
        self._yes.set_text(yes)
        return bool(await self._dialog)

    def _cancel(self) -> None:
        self._dialog.submit(result=False)

    def _confirm(self) -> None:
        self._dialog.submit(result=True)


def toast(message: str, kind: Literal["positive", "negative"]) -> None:
    """Show a message for a few seconds."""
    ui.notify(message, type=kind, position="top", multi_line=True)

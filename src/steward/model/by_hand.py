"""What a person would type to do by hand what was decided."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ByHand"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ByHand:
    """Commands for a shell, in this order, for a decision as things are now.

    `text` says what they do, or why there are none. Without commands, `possible` tells what needs
    none, such as advice, from what this engine cannot do or not any more.
    """

    text: str
    commands: tuple[str, ...] = ()
    possible: bool = True

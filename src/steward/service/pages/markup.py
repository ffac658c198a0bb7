"""HTML that cannot be broken into: whatever is not marked as markup is text, and is escaped."""

from __future__ import annotations

from html import escape

from steward.inspection.markdown import as_html

__all__ = ["Markup", "join", "prose", "tag"]


class Markup(str):
    """HTML that was made here. Names of jobs and people never are."""

    __slots__ = ()


def tag(name: str, /, *children: str | Markup | None, **attributes: str | float | None) -> Markup:
    """Return one element. `class_` is `class`, other underscores are dashes; None is left out.

    >>> tag("b", "<script>", class_="x", aria_label='say "hi"')
    '<b class="x" aria-label="say &quot;hi&quot;">&lt;script&gt;</b>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{join(*children)}</{name}>")


def join(*children: str | Markup | None) -> Markup:
    """Return pieces one after another; plain text among them is escaped."""
    return Markup(
        "".join(
            child if isinstance(child, Markup) else escape(child)
            for child in children
            if child is not None
        )
    )


def prose(text: str) -> Markup:
    """Return Markdown as HTML; HTML in it stays text."""
    return tag("div", Markup(as_html(text)), class_="st-prose")

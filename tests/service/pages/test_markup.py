from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from steward.service.pages.markup import Markup, join, tag


class Reader(HTMLParser):
    """Reads back what a browser would see."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((name, dict(attributes)))

    def handle_data(self, text: str) -> None:
        self.text += text


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"))


@given(TEXT, TEXT)
def test_no_text_and_no_value_can_become_an_element_or_an_attribute(text: str, value: str) -> None:
    read = Reader(tag("b", text, title=value))

    assert read.tags == [("b", {"title": value})]
    assert read.text == text


def test_markup_stays_markup_and_nothing_is_left_out_silently() -> None:
    inner = tag("i", "a < b")

    assert join(inner, " & ", None, Markup("<br>")) == "<i>a &lt; b</i> &amp; <br>"


def test_names_of_attributes_follow_html() -> None:
    assert tag("p", class_="x", aria_label="y", hidden=None) == '<p class="x" aria-label="y"></p>'

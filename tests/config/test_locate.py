"""Where each key of a TOML text is."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.config.locate import KeyPath, Place, nearest, places_of

TEXT = '''\
# a comment with [brackets] and = signs
site.name = "x # y"   # dotted, at the top
[loop]
  every_s = 5
"autonomy" = 'auto'

[observe]
collectors = [  # over
  "host",
  # not an element
  "nvml", ]
text = """
[not.a.table]
key = 1
"""
[tenants."bio lab"]
weight = 2
[tenants.'x.y']
weight = 3
[plugs]
lend-idle = { check_after_s = 600, deep = { a = [1, 2] } }
[[things.list]]
a = 1
[[things.list]]
a = 2
[things.list.inside]
b = 2026-01-01 10:00:00
'''


@pytest.mark.parametrize(
    ("path", "line", "column", "value_column"),
    [
        (("site",), 2, 1, 13),
        (("site", "name"), 2, 1, 13),
        (("loop",), 3, 1, 1),
        (("loop", "every_s"), 4, 3, 13),
        (("loop", "autonomy"), 5, 1, 14),
        (("observe", "collectors"), 8, 1, 14),
        (("observe", "collectors", 0), 9, 3, 3),
        (("observe", "collectors", 1), 11, 3, 3),
        (("observe", "text"), 12, 1, 8),
        (("tenants", "bio lab"), 16, 1, 1),
        (("tenants", "bio lab", "weight"), 17, 1, 10),
        (("tenants", "x.y", "weight"), 19, 1, 10),
        (("plugs", "lend-idle", "check_after_s"), 21, 15, 31),
        (("plugs", "lend-idle", "deep", "a", 1), 21, 53, 53),
        (("things", "list", 0, "a"), 23, 1, 5),
        (("things", "list", 1, "a"), 25, 1, 5),
        (("things", "list", 1, "inside", "b"), 27, 1, 5),
    ],
)
def test_each_key_is_found_where_it_stands(
    path: KeyPath, line: int, column: int, value_column: int
) -> None:
    places = places_of(TEXT)

    assert places[path] == Place(line=line, column=column, value_column=value_column)


def test_what_stands_inside_of_a_string_is_not_a_key() -> None:
    places = places_of(TEXT)

    assert ("not", "a", "table") not in places
    assert ("observe", "key") not in places


def test_a_key_without_a_place_is_shown_at_the_table_around_it() -> None:
    places = places_of("[loop]\nevery_s = 5\n")

    assert nearest(places, ("loop", "autonomy")) == places["loop",]
    assert nearest(places, ("guard", "x")) is None


KEYS = st.text(min_size=0, max_size=6)
SCALARS = st.one_of(st.integers(-5, 5), st.booleans(), st.text(max_size=8))
TREES = st.recursive(
    st.dictionaries(KEYS, SCALARS | st.lists(SCALARS, max_size=3), max_size=4),
    lambda inside: st.dictionaries(KEYS, inside | SCALARS, max_size=4),
    max_leaves=12,
)


@given(tree=TREES)
def test_every_value_of_a_document_is_found_on_its_line(tree: dict[str, Any]) -> None:
    lines: list[str] = []
    where: dict[KeyPath, int] = {}
    _write(tree, (), lines, where)
    text = "\n".join(lines)
    assert tomllib.loads(text) == tree

    places = places_of(text)

    assert {path: places[path].line for path in where} == where


@given(text=st.text(alphabet="[]{}=.,'\"#\\\n ab1", max_size=60))
def test_any_text_comes_to_its_end(text: str) -> None:
    places = places_of(text)

    assert all(1 <= place.line <= text.count("\n") + 1 for place in places.values())


def _write(
    table: dict[str, Any], path: KeyPath, lines: list[str], where: dict[KeyPath, int]
) -> None:
    """Write a tree as TOML and note on which line each value is."""
    for key, value in table.items():
        if not isinstance(value, dict):
            lines.append(f"{_quoted(key)} = {_toml(value)}")
            where[*path, key] = len(lines)
    for key, value in table.items():
        if isinstance(value, dict):
            lines.append(f"[{'.'.join(_quoted(str(part)) for part in (*path, key))}]")
            where[*path, key] = len(lines)
            _write(value, (*path, key), lines, where)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value).lower()

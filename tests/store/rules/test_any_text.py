"""Reading any text gives rules or faults, and nothing else."""

from __future__ import annotations

import string

from hypothesis import given, settings
from hypothesis import strategies as st

from rule_texts import EVERYTHING, file, must_hold
from steward.store.rules import examine_text
from steward.store.rules.language.fields import MAPPINGS

SEEDS = [
    EVERYTHING,
    file("sequence: {window: 1s, event: {source: a}, order: [x, {regex: y, count: 3}]}"),
    file("set: {match: [{promql: {expr: up == 0, for: 5m}}]}", terms="a: {set: {match: [a]}}"),
    "section: version\n---\nrules: &r []\nterms: {<<: &t {a: b}, c: *r}\n",
]
KEYS = sorted({name for shape in MAPPINGS.values() for name in shape.fields})
PIECES = [
    *KEYS,
    *("[", "]", "{", "}", "&a ", "*a", "<<: *a", "- ", "? ", ": ", "\n", "\n  ", "---\n", "|\n"),
    *("!!str ", "!x ", "'", '"', "~", "-1s", "1e999", "9" * 40, "\t", "\x85", "\u2028", "\ud800"),
    *("\x00", "💥", "%", "@", "`", "#", "\r"),
]


@given(st.text(max_size=200), st.booleans())
def test_any_text_gives_rules_or_faults(text: str, lenient: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    must_hold(examine_text(text, file="f", lenient=lenient))


@settings(max_examples=200)
@given(
    st.sampled_from(SEEDS),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(PIECES)),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_a_rule_file_with_anything_put_in_or_cut_out_gives_rules_or_faults(
    text: str,
    changes: list[tuple[float, int, str]],
    lenient: bool,  # noqa: FBT001
) -> None:
    for share, cut, piece in changes:
        at = int(share * len(text))
        text = text[:at] + piece + text[at + cut :]

    must_hold(examine_text(text, file="f", lenient=lenient))


WORDS = st.one_of(
    st.sampled_from(["a", "5s", "-5s", "1", "0", "true", "x.y", "STW-1", "lend", "up", "", "~"]),
    st.text(string.printable, max_size=8).map(lambda text: f"'{text.replace(chr(39), '')}'"),
)


def written_by_shape(name: str, depth: int) -> st.SearchStrategy[str]:
    """Write mappings that have the right keys, and often the wrong values."""
    if depth == 0:
        return WORDS
    fields = MAPPINGS[name].fields.values()

    def value(shape: str) -> st.SearchStrategy[str]:
        if not shape:
            return WORDS | st.lists(WORDS, max_size=2).map(lambda each: f"[{', '.join(each)}]")
        one = st.deferred(lambda: written_by_shape(shape, depth - 1))
        return one | st.lists(one | WORDS, max_size=3).map(lambda each: f"[{', '.join(each)}]")

    entries = [
        value(each.shape).map(lambda said, key=each.name: f"{key}: {said}") for each in fields
    ]
    some = st.lists(st.sampled_from(entries).flatmap(lambda each: each), max_size=5)
    return some.map(lambda each: f"{{{', '.join(each)}}}")


@settings(max_examples=80)
@given(written_by_shape("root", 5))
def test_a_file_of_the_right_keys_with_any_values_gives_rules_or_faults(rule: str) -> None:
    must_hold(
        examine_text(f"rules: [{{cre: {{id: STW-1}}, rule: {rule}}}]", file="f", lenient=True)
    )

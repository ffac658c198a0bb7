"""YAML as it was written, with places and limits."""

from __future__ import annotations

import pytest

from rule_texts import problems
from steward.model.rules import SourceLocation
from steward.store.rules.tree import ListTree, MappingTree, Scalar, Tree, TreeError, read_documents


def only(text: str) -> Tree:
    (tree,) = read_documents(text, file="f")
    return tree


def plain(tree: Tree) -> object:
    if isinstance(tree, Scalar):
        return tree.text
    if isinstance(tree, ListTree):
        return [plain(each) for each in tree.items]
    return [(each.key.text, plain(each.value)) for each in tree.entries]


def problem(text: str) -> tuple[str, SourceLocation]:
    with pytest.raises(TreeError) as caught:
        list(read_documents(text, file="f"))
    return caught.value.problem, caught.value.place


def test_scalars_are_raw_and_know_their_quotes() -> None:
    tree = only("[502, '502', yes, 1e3, 2024-01-01, !!str 3, ~, '~', '']")

    assert isinstance(tree, ListTree)
    items = [each for each in tree.items if isinstance(each, Scalar)]
    assert [each.text for each in items] == [
        *("502", "502", "yes", "1e3", "2024-01-01", "3", "~", "~", "")
    ]
    assert [each.quoted for each in items] == [
        *(False, True, False, False, False, True, False, True, True)
    ]
    assert [each.is_null for each in items] == [*[False] * 6, True, False, False]


def test_block_texts_are_text() -> None:
    tree = only("a: |\n  1\nb: >-\n  2\n  3\n")

    assert plain(tree) == [("a", "1\n"), ("b", "2 3")]
    assert isinstance(tree, MappingTree)
    assert all(isinstance(each.value, Scalar) and each.value.quoted for each in tree.entries)


def test_places_count_characters_from_one() -> None:
    tree = only("é: [ü, b]\nc:\n  - d\n")

    assert isinstance(tree, MappingTree)
    first, second = (each.value for each in tree.entries)
    assert isinstance(first, ListTree)
    assert isinstance(second, ListTree)
    assert (first.items[1].place.line, first.items[1].place.column) == (1, 8)
    assert (second.items[0].place.line, second.items[0].place.column) == (3, 5)


def test_several_documents_come_one_by_one() -> None:
    assert [plain(each) for each in read_documents("a\n---\n- b\n---\n", file="f")] == [
        "a",
        ["b"],
        "",
    ]
    assert list(read_documents("", file="f")) == []


def test_an_alias_is_what_its_anchor_is() -> None:
    assert plain(only("a: &x [1, &y 2]\nb: *x\nc: *y")) == [
        ("a", ["1", "2"]),
        ("b", ["1", "2"]),
        ("c", "2"),
    ]


def test_merged_keys_come_after_own_ones_and_do_not_replace_them() -> None:
    text = "a: &a {p: 1, q: 2}\nb: &b {q: 3, r: 4}\nc: {<<: [*a, *b], p: 5}\nd: {<<: *b, '<<': 6}"

    found = dict(plain(only(text)))  # type: ignore[call-overload]

    assert found["c"] == [("p", "5"), ("q", "2"), ("r", "4")]
    assert found["d"] == [("<<", "6"), ("q", "3"), ("r", "4")]


def test_a_key_that_is_there_twice_is_kept_for_the_reader_to_see() -> None:
    assert plain(only("{a: 1, a: 2}")) == [("a", "1"), ("a", "2")]


@pytest.mark.parametrize(
    ("text", "said", "line", "column"),
    [
        ("a: [", "this is no YAML", 2, 1),
        ("a: b: c", "mapping values are not allowed", 1, 5),
        ("a:\n\t- b", "cannot start any token", 2, 1),
        ("a: &x [*x]", "*x stands inside &x itself", 1, 8),
        ("a: *y", "no anchor &y before *y; known: none", 1, 4),
        ("a: &x b\nc: *y", "no anchor &y before *y; known: &x", 2, 4),
        ("a: !thing b", "tags are not allowed, and this is !thing", 1, 4),
        ("a: !!python/object:os.system [b]", "tags are not allowed", 1, 4),
        ("[a]: b", "a key has to be a word", 1, 1),
        ("a: {<<: b}", "`<<` takes a mapping", 1, 9),
        ("a: {<<: [{}, [b]]}", "`<<` takes a mapping", 1, 14),
        ("a\x00", "control characters are not allowed", 1, 1),
        ("a\ud800", "character 1 cannot be written as UTF-8", 1, 1),
        ("%YAML 9\n---\na", "this is no YAML", 1, 8),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(
    text: str, said: str, line: int, column: int
) -> None:
    found, place = problem(text)

    assert said in found
    assert place == SourceLocation(file="f", line=line, column=column)


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 20_000, "? " * 20_000])
def test_depth_is_bounded(text: str) -> None:
    assert problem(text)[0] == "more than 64 levels inside one another"


def test_64_levels_are_read() -> None:
    assert only("[" * 64 + "]" * 64)


def test_a_small_text_cannot_unfold_to_a_large_one() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]

    assert "more than 200000 values, with anchors unfolded" in problem("\n".join(lines))[0]


def test_a_long_list_is_refused_before_it_is_put_together() -> None:
    found, place = problem("\n".join(["- a"] * 200_002))

    assert "more than 200000 values" in found
    assert place.line == 200_001


def test_many_documents_share_one_bound() -> None:
    big = "a: &a [" + ", ".join(["x"] * 1000) + "]\nb: [" + ", ".join(["*a"] * 80) + "]\n---\n"

    assert list(read_documents(big * 2, file="f"))
    assert "more than 200000 values" in problem(big * 3)[0]


def test_a_huge_text_is_refused_unread() -> None:
    assert "a file of more than 16 MiB" in problem("#" * 16_800_000)[0]


def test_a_text_that_is_no_yaml_is_one_fault_of_the_file() -> None:
    (found,) = problems("rules: [")

    assert found.startswith("2:1 this is no YAML: did not find expected node content")

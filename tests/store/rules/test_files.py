"""Files and folders that are read together: what they share, and what must not clash."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from rule_texts import file, one, problems, remarks
from steward.errors import StewardError
from steward.model.rules import SourceLocation, Term
from steward.store.rules import (
    RuleFault,
    RuleFaults,
    examine_rules,
    examine_text,
    parse_rules,
    read_rules,
)

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
RULE = "set: {event: {source: a}, match: [%s]}"


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_folder_stands_for_all_rule_files_in_it(tmp_path: Path) -> None:
    put(tmp_path, "b/deep/rule.yaml", file(RULE % "x", rule_id="BBBB"))
    put(tmp_path, "a.yml", file(RULE % "x", rule_id="AAAA"))
    put(tmp_path, "b/deep/test.log", "rules: broken [")
    put(tmp_path, "folder.yaml/c.yaml", file(RULE % "x", rule_id="CCCC"))

    assert [rule.id for rule in read_rules([tmp_path])] == ["AAAA", "BBBB", "CCCC"]


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    path = put(tmp_path, "a.yaml", file(RULE % "x"))

    assert len(read_rules([path, tmp_path, tmp_path / "." / "a.yaml"])) == 1


def test_a_file_that_is_named_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    assert read_rules([put(tmp_path, "rules.txt", file(RULE % "x"))])


def test_faults_of_all_files_come_together(tmp_path: Path) -> None:
    put(tmp_path, "a.yaml", "rules: [")
    put(tmp_path, "b.yaml", file("set: {}"))
    put(tmp_path, "c.yaml", file(RULE % "x", rule_id="CCCC"))
    (tmp_path / "d.yaml").write_bytes(b"rules: \xff")
    missing = tmp_path / "nowhere.yaml"

    with pytest.raises(RuleFaults) as caught:
        read_rules([tmp_path, missing])

    files = [Path(each.place.file).name for each in caught.value.faults]
    assert files == ["a.yaml", "b.yaml", "d.yaml", "nowhere.yaml"]
    assert "byte 7 is 0xff" in caught.value.faults[2].problem
    assert "No such file" in caught.value.faults[3].problem
    assert caught.value.problem.startswith("4 faults in rules\n  ")
    assert [rule.id for rule in examine_rules([tmp_path]).rules] == ["CCCC"]


def test_one_fault_is_an_error_of_its_own() -> None:
    with pytest.raises(RuleFaults) as caught:
        parse_rules(file("set: {match: [x], event: {source: a}, windw: 1s}"), file="r.yaml")

    error = caught.value
    assert isinstance(error, StewardError)
    assert (error.where, error.problem, error.hint) == (
        "r.yaml:4:43",
        "TEST-0001: there is no key `windw` in `set`",
        "did you mean 'window'?",
    )


def test_an_error_lists_twenty_faults_and_counts_the_others() -> None:
    with pytest.raises(RuleFaults) as caught:
        parse_rules("rules: [" + "1, " * 30 + "]")

    assert len(caught.value.faults) == 30
    assert caught.value.problem.endswith("and 10 more")


def test_more_faults_than_anybody_reads_are_not_all_listed() -> None:
    faults = examine_text("rules: [" + "1, " * 5_000 + "]", file="f").faults

    assert len(faults) == 1001
    assert "more to say about this file than the 1000 things listed" in faults[-1].problem
    assert faults[-1].place == SourceLocation(file="f")


def test_words_that_were_meant_are_guessed_until_there_are_many() -> None:
    keys = "\n".join(f"      titel{number}: x" for number in range(1_500))
    text = f"rules:\n  - cre:\n      id: AAAA\n{keys}\n    rule: {{{RULE % 'x'}}}"

    hints = [each.hint for each in examine_text(text, lenient=True).notes]

    assert set(hints[:200]) == {"did you mean 'title'?"}
    assert not [each for each in hints[300:] if "did you mean" in each]


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as opened:
        opened.truncate(1 << 40)

    (fault,) = examine_rules([path]).faults

    assert "a file of more than 16 MiB" in fault.problem


def test_a_folder_without_rule_files_is_a_fault(tmp_path: Path) -> None:
    put(tmp_path, "rule.json", "{}")

    (fault,) = examine_rules([tmp_path]).faults

    assert fault.problem == "a folder with no rule files: none ends in .yaml or .yml"


def test_a_file_that_is_not_there_takes_nothing_from_the_others(tmp_path: Path) -> None:
    assert read_rules([]) == ()
    put(tmp_path, "a.yaml", file(RULE % "x"))
    assert len(examine_rules([tmp_path / "b.yaml", tmp_path / "a.yaml"]).rules) == 1


def test_a_folder_that_cannot_be_found_is_a_fault(tmp_path: Path) -> None:
    (fault,) = examine_rules([tmp_path / "rulez"]).faults

    assert "cannot be read" in fault.problem


def test_a_pipe_can_be_named(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(file(RULE % "x"),))
    writer.start()

    rules = read_rules([pipe])
    writer.join()

    assert len(rules) == 1


def test_a_mark_of_byte_order_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + file(RULE % "x").encode())

    assert read_rules([path])


# -- documents ---------------------------------------------------------------------------------


def test_a_package_of_several_documents_is_read() -> None:
    text = f"section: version\nversion: 0.3.56\n---\nsection: rules\n{file(RULE % 'x')}---\n"

    assert one(text).id == "TEST-0001"


def test_a_document_without_rules_is_refused() -> None:
    assert problems("terms: {a: b}") == ["1:1 `rules` is missing in `document`"]
    assert problems("rulez: []") == [
        "1:1 there is no key `rulez` in `document`",
        "1:1 `rules` is missing in `document`",
    ]
    assert problems("[]") == ["1:1 a rule file has to be a mapping, and this is a list"]
    assert problems("rules: x") == ["1:8 `rules` has to be a list, and this is 'x'"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n", "~"])
def test_an_empty_file_is_refused(text: str) -> None:
    assert problems(text) == ["1:1 this file is empty"]


def test_an_unknown_section_is_refused_and_noted_when_lenient() -> None:
    text = f"{file(RULE % 'x')}---\nsection: ruls\n"

    assert problems(text) == ["6:10 there is no section 'ruls'; known: rules, version"]
    assert remarks(text, lenient=True) == ["there is no section 'ruls'; known: rules, version"]


def test_lists_that_lie_beside_public_rules_are_passed_over_with_a_note() -> None:
    assert remarks("tags: [{name: a}]") == ["a list of tags, no rules: it is not read"]
    assert remarks("categories: []") == ["a list of categories, no rules: it is not read"]


# -- names over several files ------------------------------------------------------------------


def test_terms_of_one_file_can_be_used_in_another(tmp_path: Path) -> None:
    put(tmp_path, "a.yaml", file(RULE % "shared"))
    put(tmp_path, "b.yaml", "rules: []\nterms: {shared: {regex: x+}}")

    parsed = examine_rules([tmp_path])

    assert parsed.valid()[0].root.clauses[0].what == Term(kind="regex", text="x+")
    assert [each.problem for each in parsed.notes] == [
        f"'shared' is the name of a term in {tmp_path / 'b.yaml'}:2:9"
    ]


def test_a_files_own_term_wins_over_others_of_that_name(tmp_path: Path) -> None:
    put(tmp_path, "a.yaml", file(RULE % "mine", terms="mine: one"))
    put(tmp_path, "b.yaml", file(RULE % "mine", rule_id="BBBB", terms="mine: two"))

    rules = read_rules([tmp_path])

    assert [each.root.clauses[0].what for each in rules] == [
        Term(kind="value", text="one"),
        Term(kind="value", text="two"),
    ]


def test_a_name_that_several_other_files_have_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        put(tmp_path, f"{name}.yaml", "rules: []\nterms: {theirs: x}")
    put(tmp_path, "c.yaml", file(RULE % "theirs"))

    (fault,) = examine_rules([tmp_path]).faults

    assert fault.problem.startswith("several files have a term 'theirs': ")


def test_names_of_rules_are_unique_over_all_files(tmp_path: Path) -> None:
    first = put(tmp_path, "a.yaml", file(RULE % "x"))
    put(tmp_path, "b.yaml", file(RULE % "y"))
    put(tmp_path, "c.yaml", file(RULE % "z", rule_id="CCCC", more="metadata: {id: AAAAAAAAAAAA}\n"))
    put(tmp_path, "d.yaml", file(RULE % "z", rule_id="DDDD", more="metadata: {id: AAAAAAAAAAAA}\n"))

    faults = examine_rules([tmp_path]).faults

    assert [(each.rule, each.problem.partition(" is also")[0]) for each in faults] == [
        ("TEST-0001", "`cre.id` TEST-0001"),
        ("DDDD", "`metadata.id` AAAAAAAAAAAA"),
    ]
    assert f"{first}:2:3" in faults[0].problem


# -- what programs call a rule -----------------------------------------------------------------


def test_missing_names_are_filled_in_for_the_rules_of_a_person() -> None:
    rule = one(file(RULE % "x", rule_id="CRE-2024-0008"))

    number = int.from_bytes(hashlib.sha1(b"CRE-2024-0008", usedforsecurity=False).digest())
    assert sum(ALPHABET.index(c) * 58**i for i, c in enumerate(reversed(rule.key))) == number
    assert len(rule.hash) >= 43
    assert rule == one(file(RULE % "x", rule_id="CRE-2024-0008"))


def test_a_hash_changes_with_every_word_and_with_the_terms_that_are_used() -> None:
    terms = "used: one\nunused: two"
    first = one(file(RULE % "used", terms=terms)).hash

    assert one(file(RULE % "used", terms=terms.replace("two", "three"))).hash == first
    assert one(file(RULE % "used", terms=terms.replace("one", "three"))).hash != first
    assert one(file(RULE % "used", terms=terms, more="metadata: {gen: 2}\n")).hash != first


def test_packages_must_bring_the_names() -> None:
    with pytest.raises(RuleFaults) as caught:
        parse_rules(file(RULE % "x"), user=False)

    assert [each.problem for each in caught.value.faults] == [
        "`metadata.id` is missing, and packages must bring it",
        "`metadata.hash` is missing, and packages must bring it",
    ]


def test_a_fault_says_where_which_rule_what_and_what_next() -> None:
    place = SourceLocation(file="a.yaml", line=3, column=4)

    assert str(RuleFault(place=place, problem="p")) == "a.yaml:3:4: p"
    assert str(RuleFault(place=place, problem="p", hint="h", rule="R")) == "a.yaml:3:4: R: p (h)"

from __future__ import annotations

from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.inspection.example_tests import TestReport, run_examples
from steward.inspection.folders import rule_folders
from steward.model.rules import Mode

LINE = "2025-06-01 00:00:01.000 boom\n"


def entry(rule_id: str, match: str = "boom") -> str:
    return (
        f"  - cre: {{id: {rule_id}}}\n"
        f"    rule: {{set: {{event: {{source: s}}, match: [{{regex: '{match}'}}]}}}}\n"
    )


def written(folder: Path, *entries: str, file: str = "rule.yaml", log: str | None = LINE) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("rules:\n" + "".join(entries) if entries else "rules: []\n")
    if log is not None:
        (folder / "test.log").write_text(log)


def report_of(folder: Path, mode: Mode = Mode.STRICT) -> TestReport:
    return run_examples(rule_folders(folder, lenient=True), mode=mode, proof_needed=False)


def whys(report: TestReport) -> dict[str, str]:
    return {each.rule: each.why for each in report.failed}


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    ("place", "file"),
    [("", "rule.yaml"), ("a b", "rule.yaml"), ("1/2/3/4", "rule.yaml"), ("x", "my.yaml"),
     ("x", "my.yml")],
)  # fmt: skip
def test_a_rule_is_found_wherever_it_lies(
    tmp_path: Path, place: str, file: str, mode: Mode
) -> None:
    written(tmp_path / place, entry("RULE-1"), file=file)

    report = report_of(tmp_path, mode)

    assert (report.hits, report.failed) == ({"RULE-1": 1}, ())


def test_what_is_wrong_with_one_rule_does_not_keep_the_others_from_being_tried(
    tmp_path: Path,
) -> None:
    written(tmp_path / "good", entry("GOOD-1"))
    written(tmp_path / "typo", entry("TYPO-1").replace("match", "matsch"))
    written(tmp_path / "pattern", entry("PATTERN-1", "(boom"))
    written(tmp_path / "nothing")
    written(tmp_path / "twice", entry("TWICE-1"), entry("TWICE-2"))
    written(tmp_path / "copy", entry("GOOD-1"))
    written(tmp_path / "empty", entry("EMPTY-1"), log=None)
    (tmp_path / "yaml").mkdir()
    (tmp_path / "yaml" / "rule.yaml").write_text("rules: [\n")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "rule.yaml").symlink_to("nowhere")

    report = report_of(tmp_path)

    failed = whys(report)
    assert (report.rules, report.fired, report.passed) == (9, 1, False)
    assert "`match` is missing" in failed["TYPO-1"]
    assert f"{tmp_path}/pattern/rule.yaml:3:" in failed["PATTERN-1"]
    assert "has 0 rules; a folder has one rule" in failed["nothing"]
    assert "has 2 rules: TWICE-1, TWICE-2" in failed["twice"]
    assert "GOOD-1" in failed["GOOD-1"]
    assert "no test.log" in failed["EMPTY-1"]
    assert "no YAML" in failed["yaml"]
    assert "cannot be read: No such file" in failed["link"]


def test_two_files_of_rules_in_one_folder_are_refused_unless_one_is_called_rule_yaml(
    tmp_path: Path,
) -> None:
    written(tmp_path / "x", entry("RULE-1"), file="a.yaml")
    written(tmp_path / "x", entry("RULE-2"), file="b.yaml")

    assert "2 files of rules (a.yaml, b.yaml)" in whys(report_of(tmp_path))["x"]

    written(tmp_path / "x", entry("RULE-3"))
    assert report_of(tmp_path).hits == {"RULE-3": 1}


def test_files_that_are_no_rules_are_passed_over(tmp_path: Path) -> None:
    written(tmp_path / "x", entry("RULE-1"))
    (tmp_path / "tags").mkdir()
    (tmp_path / "tags" / "tags.yaml").write_text("tags:\n  - name: a\n")
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    written(tmp_path / ".git", entry("RULE-2"))

    assert report_of(tmp_path).hits == {"RULE-1": 1}


def test_links_are_followed_and_never_twice(tmp_path: Path) -> None:
    written(tmp_path / "rules" / "x", entry("RULE-1"))
    written(tmp_path / "elsewhere", entry("RULE-2"))
    (tmp_path / "rules" / "y").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "rules" / "z").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "rules" / "round").symlink_to(tmp_path / "rules")

    assert report_of(tmp_path / "rules").hits == {"RULE-1": 1, "RULE-2": 1}


def test_an_example_that_cannot_be_read_fails_its_rule_only(tmp_path: Path) -> None:
    written(tmp_path / "good", entry("GOOD-1"))
    written(tmp_path / "folder", entry("FOLDER-1"), log=None)
    (tmp_path / "folder" / "test.log").mkdir()
    written(tmp_path / "link", entry("LINK-1"), log=None)
    (tmp_path / "link" / "test.log").symlink_to("nowhere")
    written(tmp_path / "timeless", entry("TIMELESS-1"), log="boom\n")

    report = report_of(tmp_path, Mode.PREQ)

    assert report.hits["GOOD-1"] == 1
    assert sorted(whys(report)) == ["FOLDER-1", "LINK-1", "TIMELESS-1"]
    assert all("test cannot be read" in why for why in whys(report).values())


@pytest.mark.parametrize(
    ("name", "problem"),
    [("nowhere", "no such folder"), ("file", "this is no folder"), ("", "no rule")],
)
def test_a_place_without_rules_is_said(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StewardError, match=problem):
        rule_folders(tmp_path / name, lenient=True)

"""Commands for those who write and share rules: check, test, explain, new, pack, install, list."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.rules.rule_files import LOG, disk_rule, idle_series
from steward.store.journal import open_journal
from told import steward, told


def test_check_says_all_faults_with_their_places_and_advice(tmp_path: Path) -> None:
    file = tmp_path / "rule.yaml"
    file.write_text(
        "rules:\n  - cre: {id: BAD-0001, severity: 2}\n    rule:\n      set:\n"
        "        event: {source: a}\n        match:\n          - regex: '(x'\n"
        "  - cre: {id: SLOW-0001, severity: 2, titel: x}\n    rule:\n      set:\n"
        "        event: {source: a}\n        match:\n          - regex: '[a-z]+'\n"
        "  - cre: {id: SLOW-0002, severity: 2}\n    rule:\n      set:\n"
        "        event: {source: a}\n        match:\n          - regex: '[a-z]+'\n",
        encoding="utf-8",
    )

    answer = steward("rules", "check", file, "--json")

    assert answer.code == 1
    assert answer.json["rules"] == 1
    faults = {(each["line"], each["rule"]) for each in answer.json["faults"]}
    assert faults == {(7, "BAD-0001"), (8, "SLOW-0001")}
    advice = [each["problem"] for each in answer.json["advice"]]
    assert any("tried on every line" in each for each in advice)
    assert any("title, cause, impact, mitigation" in each for each in advice)
    assert any("must stay silent" in each for each in advice)
    text = steward("rules", "check", file)
    assert f"{file}:8:39: fault: SLOW-0001: " in text.out
    assert "did you mean 'title'?" in text.out


def test_check_shows_a_broken_pattern_of_a_rule_that_has_other_faults_as_well(
    tmp_path: Path,
) -> None:
    file = tmp_path / "rule.yaml"
    file.write_text(
        "rules:\n  - cre: {id: BAD-0001, severity: 2, titel: x}\n    rule:\n      set:\n"
        "        event: {source: a}\n        match:\n          - regex: '(x'\n",
        encoding="utf-8",
    )

    answer = steward("rules", "check", file, "--json")

    assert [each["line"] for each in answer.json["faults"]] == [2, 7]
    assert "does not compile" in answer.json["faults"][1]["problem"]


def test_check_of_good_rules_is_0(tmp_path: Path) -> None:
    answer = steward("rules", "check", disk_rule(tmp_path))

    assert answer.code == 0
    assert answer.out.startswith("1 rule can be used; 0 faults, 0 pieces of advice")


def test_check_of_a_path_that_is_not_there_is_wrong_use() -> None:
    answer = steward("rules", "check", "/nonexistent/rules")

    assert (answer.code, "there is no /nonexistent/rules" in answer.err) == (2, True)


def test_test_answers_with_the_agreed_keys(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)

    answer = steward("rules", "test", folder.parent, "--json")

    assert answer.code == 0
    assert {key: answer.json[key] for key in ("rules", "fired", "silent_ok", "failed", "hits")} == {
        "rules": 1,
        "fired": 1,
        "silent_ok": 1,
        "failed": [],
        "hits": {"DISK-0001": 1},
    }
    assert answer.json["cross_rule_false_hits"] == 0


def test_test_fails_where_a_rule_does_not_do_what_its_examples_ask(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)
    (folder / "test.log").write_text("nothing\n", encoding="utf-8")

    answer = steward("rules", "test", folder.parent, "--json")

    assert answer.code == 1
    assert answer.json["failed"] == [{"rule": "DISK-0001", "why": "it does not fire on test"}]


def test_explain_says_in_words_what_a_rule_waits_for(tmp_path: Path) -> None:
    out = steward("rules", "explain", disk_rule(tmp_path)).out

    assert "all of these in this order within 10 min in logs of source cre.log.training" in out
    assert "1. a line that fits the pattern `checkpoint \\d+ begun`" in out
    assert "unless, from the first of them on, for as long as the match lasted and 1 min" in out
    assert "make room" in out


def test_explain_on_a_log_says_what_denied_it(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)

    answer = steward("rules", "explain", folder, "--on", folder / "test-fp.log")

    assert answer.code == 1
    assert "it is denied by what must not happen" in answer.out
    assert "test-fp.log:4: 2026-03-02 10:01:30 INFO written elsewhere" in answer.out


def test_explain_on_a_log_on_which_it_fires_is_0(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)

    answer = steward("rules", "explain", folder, "--on", folder / "test.log", "--json")

    assert answer.code == 0
    assert answer.json["hits"] == 1
    assert [each["times"] for each in answer.json["conditions"]] == [1, 1, 0]


def test_explain_knows_the_rules_that_steward_brings() -> None:
    answer = steward("rules", "explain", "stw-gpu-0001")

    assert (answer.code, "fallen off the bus" in answer.out) == (0, True)


def test_explain_of_a_name_that_is_none_guesses(tmp_path: Path) -> None:
    answer = steward("rules", "explain", "DISK-0002", "--rules", disk_rule(tmp_path))

    assert (answer.code, "did you mean 'DISK-0001'?" in answer.err) == (2, True)


def test_explain_on_series(tmp_path: Path) -> None:
    rule, series = idle_series(tmp_path)

    answer = steward("rules", "explain", rule, "--telemetry", series)

    assert answer.code == 0
    assert "`gpu_busy_share < 0.1` holds for 1 min" in answer.out
    assert "Then: tell. use it, or give it back" in answer.out


def test_a_new_rule_passes_its_test_as_it_is(tmp_path: Path) -> None:
    assert steward("rules", "new", tmp_path / "mine" / "disk-full").code == 0

    tested = steward("rules", "test", tmp_path / "mine", "--proof", "--json")
    assert (tested.code, tested.json["silent_ok"]) == (0, 1)
    assert steward("rules", "check", tmp_path / "mine").code == 0
    again = steward("rules", "new", tmp_path / "mine" / "disk-full")
    assert (again.code, "it is there already" in again.err) == (2, True)


def test_a_new_rule_can_be_made_of_a_line(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(LOG, encoding="utf-8")

    assert steward("rules", "new", tmp_path / "x", "--from-log", log, "--line", 3).code == 0

    assert "regex: 'ERROR disk full'" in (tmp_path / "x/rule.yaml").read_text(encoding="utf-8")
    assert steward("rules", "test", tmp_path / "x").code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--line", "3"], "belong together"),
        (["--from-log", "LOG", "--line", "99"], "there is no line 99"),
        (["--from-log", "/nonexistent", "--line", "1"], "cannot be read"),
    ],
)
def test_a_line_that_is_not_there_is_said(tmp_path: Path, args: list[str], said: str) -> None:
    log = tmp_path / "a.log"
    log.write_text(LOG, encoding="utf-8")
    given = [str(log) if each == "LOG" else each for each in args]

    answer = steward("rules", "new", tmp_path / "x", *given)

    assert (answer.code, said in answer.err) == (2, True)
    assert not (tmp_path / "x").exists()


def test_a_package_travels_from_one_store_to_another(tmp_path: Path) -> None:
    folder, file = disk_rule(tmp_path), tmp_path / "p.tar.gz"
    store = ("--data", tmp_path / "store")
    made = steward(
        "rules", "pack", folder.parent, "--name", "disks", "--version", "1.2.0",
        "--new-key", tmp_path / "key.pem", "--out", file, "--json",
    )  # fmt: skip
    public = made.json["signed_by"]

    refused = steward("rules", "install", file, *store)
    dry = steward("rules", "install", file, *store, "--trust", public, "--dry-run", "--json")
    nothing = steward("rules", "packages", *store, "--json")
    done = steward("rules", "install", file, *store, "--trust", public, "--json")

    assert (made.code, refused.code) == (0, 2)
    assert f"--trust {public}" in refused.err
    assert (dry.json["done"], nothing.json["packages"]) == ("new", [])
    assert (done.json["name"], done.json["version"], done.json["rules"]) == (
        "disks",
        "1.2.0",
        ["DISK-0001"],
    )
    (listed,) = steward("rules", "packages", *store, "--json").json["packages"]
    assert listed["rules"] == 1
    assert steward("rules", "run", folder / "test.log", *store).code == 1
    own = steward("rules", "list", *store, "--tag", "disk", "--json").json
    assert {each["pack"] for each in own if each["rule"] == "DISK-0001"} == {"disks 1.2.0"}
    assert steward("rules", "remove", "disks", *store).code == 0
    assert steward("rules", "packages", *store, "--json").json["packages"] == []


def test_a_rule_whose_pattern_cannot_run_is_not_installed(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)
    text = (folder / "rule.yaml").read_text(encoding="utf-8")
    (folder / "rule.yaml").write_text(text.replace(r"\d+ begun", r"(\d"), encoding="utf-8")

    answer = steward("rules", "pack", folder.parent, "--out", tmp_path / "p.tar.gz")

    assert answer.code == 2
    assert not (tmp_path / "p.tar.gz").exists()


def test_list_can_be_narrowed() -> None:
    everything = steward("rules", "list", "--json").json
    bad = steward("rules", "list", "--severity", "critical", "--tag", "xid", "--json").json

    assert len(everything) >= 60
    assert 0 < len(bad) < len(everything)
    assert {each["severity"] for each in bad} == {"critical"}


def test_stats_show_what_the_journal_says(tmp_path: Path) -> None:
    told(tmp_path)

    answer = steward("rules", "stats", "--data", tmp_path, "--json")

    assert answer.code == 0
    assert [each["findings"] for each in answer.json] == [1]
    text = steward("rules", "stats", "--data", tmp_path).out
    assert text.split()[:3] == ["rule", "fired", "findings"]


def test_stats_of_an_empty_journal_say_so(tmp_path: Path) -> None:
    open_journal(f"sqlite:///{tmp_path}/journal.sqlite3").close()

    answer = steward("rules", "stats", "--data", tmp_path)

    assert (answer.code, answer.err.strip()) == (0, "no rule has fired yet")

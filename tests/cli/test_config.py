"""`steward config`: is the configuration right, and what does it come to?"""

from __future__ import annotations

import tomllib
from pathlib import Path

from told import steward

WRONG = '[loop]\nautonomy = "atuo"\n[observe]\ncollectors = ["hots"]\n'


def written(folder: Path, text: str) -> Path:
    file = folder / "steward.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_right_file_is_ok(tmp_path: Path) -> None:
    file = written(tmp_path, "[loop]\nevery_s = 5\n")

    answer = steward("config", "check", file, STEWARD_SITE__NAME="x")

    assert answer.code == 0
    assert answer.out.splitlines()[0] == f"ok: {file}"
    assert "STEWARD_SITE__NAME" in answer.out


def test_mistakes_of_values_and_plugs_are_said_together(tmp_path: Path) -> None:
    file = written(tmp_path, WRONG)

    answer = steward("config", "check", file)

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: {file}: 2 mistakes\n")
    assert f"{file}:2:12: loop.autonomy is 'atuo'" in answer.err
    assert f"{file}:4:15: there is no collector called 'hots'" in answer.err
    assert "\nhint:  " in answer.err


def test_names_that_serving_does_not_know_are_said_with_their_lines(tmp_path: Path) -> None:
    text = '[gateway]\npolicy = "edv"\nestimator = "x"\ndefault_class = "chat"\n'
    file = written(tmp_path, f'{text}[serving]\nscaler = "slak"\n')

    answer = steward("config", "check", file)

    assert answer.code == 2
    assert answer.err.startswith(f"error: {file}: 4 mistakes\n")
    assert f"{file}:2:10: there is no dispatcher called 'edv'" in answer.err
    assert f"{file}:4:17: there is no class called 'chat'; known: batch, interactive" in answer.err
    assert "(did you mean 'slack'?)" in answer.err


def test_names_that_serving_knows_are_right(tmp_path: Path) -> None:
    text = '[gateway]\npolicy = "qlm"\nestimator = "none"\ndefault_class = "chat"\n'
    file = written(tmp_path, f"{text}[deadline_classes.chat]\nttft_s = 2.0\n")

    assert steward("config", "check", file).code == 0


def test_mistakes_as_json_have_their_lines(tmp_path: Path) -> None:
    file = written(tmp_path, WRONG)

    answer = steward("config", "check", file, "--json")

    assert answer.code == 2
    assert answer.json["ok"] is False
    assert [(each["line"], each["key"]) for each in answer.json["mistakes"]] == [
        (2, "loop.autonomy"),
        (4, "observe.collectors[0]"),
    ]


def test_a_file_that_is_not_toml_is_an_error_for_people(tmp_path: Path) -> None:
    file = written(tmp_path, "[loop\n")

    answer = steward("config", "check", file)
    as_json = steward("config", "check", file, "--json")

    assert answer.code == as_json.code == 2
    assert f"error: {file}:1:6: this is not TOML" in answer.err
    assert as_json.json["error"]["where"] == f"{file}:1:6"


def test_a_missing_file_is_said() -> None:
    answer = steward("config", "check", "/nonexistent/steward.toml")

    assert answer.code == 2
    assert "error: /nonexistent/steward.toml: there is no such file" in answer.err


def test_the_file_is_found_by_its_variable(tmp_path: Path) -> None:
    file = written(tmp_path, "")

    answer = steward("config", "check", STEWARD_CONFIG=str(file))

    assert answer.out == f"ok: {file}\n"


def test_what_is_shown_is_toml_with_origins(tmp_path: Path) -> None:
    file = written(tmp_path, "[loop]\nevery_s = 5\n")

    answer = steward("config", "show", "--config", file, "--data", tmp_path)

    assert answer.code == 0
    assert tomllib.loads(answer.out)["store"]["folder"] == str(tmp_path)
    assert f"every_s = 5.0  # {file}:2\n" in answer.out
    assert "# --data\n" in answer.out


def test_what_is_shown_as_json_has_values_and_origins() -> None:
    found = steward(
        "config", "show", "--json", STEWARD_STORE__JOURNAL="postgresql://me:geheim@db/x"
    ).json

    assert found["file"] is None
    assert found["values"]["loop"]["every_s"] == 10.0
    assert found["values"]["store"]["journal"] == "postgresql://me:***@db/x"
    assert found["origins"]["store.journal"] == "environment STEWARD_STORE__JOURNAL"
    assert found["origins"]["loop.every_s"] == "default"


def test_a_wrong_configuration_is_not_shown(tmp_path: Path) -> None:
    answer = steward("config", "show", "--config", written(tmp_path, WRONG))

    assert (answer.code, answer.out) == (2, "")

"""`steward doctor`: what works here, and what is missing."""

from __future__ import annotations

from pathlib import Path

from told import steward


def test_the_answer_for_programs_is_a_list_of_checks(tmp_path: Path) -> None:
    answer = steward("doctor", "--data", tmp_path, "--json")

    assert answer.code == 0
    assert isinstance(answer.json, list)
    for check in answer.json:
        assert set(check) == {"name", "kind", "status", "reason", "hint"}
        assert check["status"] in ("ok", "limited", "missing")
        assert check["reason"]
    assert {"collector", "actuator", "engine", "store"} <= {each["kind"] for each in answer.json}


def test_the_answer_for_people_fits_a_terminal_and_lists_what_an_engine_can_do(
    tmp_path: Path,
) -> None:
    answer = steward("doctor", "--data", tmp_path)

    lines = answer.out.splitlines()
    assert answer.code == 0
    assert all(len(line) <= 100 for line in lines)
    assert any(line.split()[:2] == ["limited", "dry-run"] for line in lines)
    assert "takes call-back," in answer.out


def test_a_wrong_configuration_is_one_more_thing_that_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "steward.toml"
    file.write_text("[loop\n", encoding="utf-8")

    answer = steward("doctor", "--data", tmp_path / "data", "--config", file, "--json")

    found = {check["name"]: check for check in answer.json}
    assert answer.code == 1
    assert found["configuration"]["status"] == "missing"
    assert "this is not TOML" in found["configuration"]["reason"]
    assert str(tmp_path / "data") in found["store folder"]["reason"]


def test_what_blocks_is_named_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    answer = steward("doctor", "--data", tmp_path / "file" / "x")

    assert answer.code == 1
    assert "steward cannot run yet: store folder" in answer.err

"""`steward backup` and `steward restore` are a pair."""

from __future__ import annotations

from pathlib import Path

from told import steward, told


def test_a_store_comes_back_from_its_backup(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    told(store)
    before = steward("decisions", "list", "--data", store, "--json").json

    made = steward("backup", tmp_path / "b.tar.gz", "--data", store)
    back = steward("restore", tmp_path / "b.tar.gz", "--data", tmp_path / "new")

    assert (made.code, back.code) == (0, 0)
    assert "files" in made.out
    assert steward("decisions", "list", "--data", tmp_path / "new", "--json").json == before


def test_wrong_use_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no archive", encoding="utf-8")

    nothing = steward("backup", tmp_path / "b.tar.gz", "--data", tmp_path / "none")
    damaged = steward("restore", tmp_path / "text", "--data", tmp_path / "new")
    missing = steward("restore", tmp_path / "none.tar.gz", "--data", tmp_path / "new")

    assert [each.code for each in (nothing, damaged, missing)] == [2, 2, 2]
    assert "there is no store here" in nothing.err
    assert "it is damaged" in damaged.err
    assert "no such file" in missing.err

"""`steward token`: who may come in from other machines."""

from __future__ import annotations

from pathlib import Path

from steward.store.tokens import Role, Tokens
from told import steward


def test_a_new_token_is_printed_once_and_works(tmp_path: Path) -> None:
    answer = steward("token", "new", "ann", "--role", "operator", "--data", tmp_path)

    found = Tokens(tmp_path / "tokens.json").find(answer.out.strip())
    assert answer.code == 0
    assert found is not None
    assert (found.name, found.role) == ("ann", Role.OPERATOR)
    assert answer.out.strip() not in (tmp_path / "tokens.json").read_text(encoding="utf-8")
    assert "not shown again" in answer.err


def test_a_token_may_only_look_unless_told_otherwise(tmp_path: Path) -> None:
    made = steward("token", "new", "bob", "--data", tmp_path, "--json").json

    assert (made["name"], made["role"]) == ("bob", "viewer")
    assert made["token"].startswith("stw_")


def test_tokens_are_listed_without_their_secrets(tmp_path: Path) -> None:
    secret = steward("token", "new", "ann", "--data", tmp_path).out.strip()

    text = steward("token", "list", "--data", tmp_path)
    listed = steward("token", "list", "--data", tmp_path, "--json")

    assert text.out.splitlines()[1].split()[:2] == ["ann", "viewer"]
    assert [each["name"] for each in listed.json] == ["ann"]
    assert secret not in text.out + listed.out


def test_a_revoked_token_is_gone(tmp_path: Path) -> None:
    secret = steward("token", "new", "ann", "--data", tmp_path).out.strip()

    answer = steward("token", "revoke", "ann", "--data", tmp_path)

    assert answer.code == 0
    assert Tokens(tmp_path / "tokens.json").find(secret) is None


def test_wrong_names_and_roles_are_refused(tmp_path: Path) -> None:
    steward("token", "new", "ann", "--data", tmp_path)

    twice = steward("token", "new", "ann", "--data", tmp_path)
    unknown = steward("token", "revoke", "anne", "--data", tmp_path)
    role = steward("token", "new", "x", "--role", "oprator", "--data", tmp_path)
    blank = steward("token", "new", " ", "--data", tmp_path)

    assert [each.code for each in (twice, unknown, role, blank)] == [2, 2, 2, 2]
    assert "already a token called 'ann'" in twice.err
    assert "did you mean 'ann'?" in unknown.err
    assert "did you mean 'operator'?" in role.err
    assert "needs a name" in blank.err


def test_names_of_tokens_are_completed(tmp_path: Path) -> None:
    steward("token", "new", "ann", "--data", tmp_path)
    steward("token", "new", "bob", "--data", tmp_path)

    found = steward(
        _STEWARD_COMPLETE="complete_bash",
        COMP_WORDS="steward token revoke a",
        COMP_CWORD="3",
        STEWARD_STORE__FOLDER=str(tmp_path),
    )

    assert found.out.split() == ["ann"]

"""Tokens: seen once, kept as a hash, gone when revoked."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import pytest

from steward.clock import ManualClock
from steward.errors import StewardError
from steward.store.tokens import Role, Token, Tokens


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "tokens.json"


def test_a_token_is_found_by_its_secret_alone(file: Path) -> None:
    tokens = Tokens(file, clock=ManualClock(5.0))

    viewer, operator = tokens.make("ada", Role.VIEWER), tokens.make("bob", Role.OPERATOR)

    assert tokens.find(viewer) == Token(name="ada", role=Role.VIEWER, made_s=5.0)
    assert tokens.find(operator) == Token(name="bob", role=Role.OPERATOR, made_s=5.0)
    for wrong in ("", "ada", "stw_", viewer[:-1], viewer + "x", viewer.upper(), "\udcff"):
        assert tokens.find(wrong) is None


def test_the_file_holds_no_secret_and_only_its_owner_reads_it(file: Path) -> None:
    secret = Tokens(file).make("ada", Role.VIEWER)

    content = file.read_text()

    assert secret.startswith("stw_")
    assert len(secret) >= 4 + 43  # 256 bits
    assert secret.removeprefix("stw_") not in content
    assert set(json.loads(content)[0]) == {
        *("name", "role", "made_s", "node", "expires_s"),
        "sha256",
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_no_two_tokens_are_alike(file: Path) -> None:
    tokens = Tokens(file)

    secrets = {tokens.make(f"name-{number}", Role.VIEWER) for number in range(20)}

    assert len(secrets) == 20


def test_a_revoked_token_is_worthless_at_once_for_every_process(file: Path) -> None:
    here, there = Tokens(file), Tokens(file)
    secret = here.make("ada", Role.VIEWER)
    kept = here.make("bob", Role.VIEWER)
    before = there.find(secret)

    here.revoke("ada")

    assert before is not None
    assert there.find(secret) is None
    assert there.find(kept) is not None
    assert [token.name for token in there.list()] == ["bob"]


def test_a_name_is_used_once(file: Path) -> None:
    tokens = Tokens(file)
    tokens.make("ada", Role.VIEWER)

    with pytest.raises(StewardError, match="already a token called 'ada'"):
        tokens.make("ada", Role.OPERATOR)

    assert [token.role for token in tokens.list()] == [Role.VIEWER]


def test_a_token_needs_a_name(file: Path) -> None:
    with pytest.raises(StewardError, match="needs a name"):
        Tokens(file).make("  ", Role.VIEWER)

    assert not file.exists()


def test_revoking_an_unknown_name_is_answered_with_the_nearest_one(file: Path) -> None:
    tokens = Tokens(file)
    tokens.make("dashboard", Role.VIEWER)

    with pytest.raises(StewardError, match="known: dashboard") as caught:
        tokens.revoke("dashbord")

    assert caught.value.hint == "did you mean 'dashboard'?"


def test_without_a_file_there_are_no_tokens(file: Path) -> None:
    assert Tokens(file).list() == ()
    assert Tokens(file).find("stw_x") is None


@pytest.mark.parametrize("content", ["", "{", '[{"name": "ada", "role": "king"}]'])
def test_a_broken_file_grants_no_access_and_is_named(file: Path, content: str) -> None:
    file.parent.mkdir()
    file.write_text(content)

    with pytest.raises(StewardError) as caught:
        Tokens(file).find("stw_x")

    assert caught.value.where == str(file)
    assert "restore it" in caught.value.hint


def test_all_faults_of_a_broken_file_are_reported_at_once(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('[{"name": 1, "role": "king", "made_s": "x"}]')

    with pytest.raises(StewardError) as caught:
        Tokens(file).list()

    assert [part.partition(":")[0] for part in caught.value.problem.split("; ")] == [
        "0.name",
        "0.role",
        "0.made_s",
        "0.sha256",
    ]


def test_a_folder_that_may_not_be_written_to_is_named(unwritable: Path) -> None:
    with pytest.raises(StewardError, match="Permission denied") as caught:
        Tokens(unwritable / "tokens.json").make("ada", Role.VIEWER)

    assert str(unwritable) in caught.value.where


def test_tokens_made_at_once_are_all_kept(file: Path) -> None:
    threads = [
        threading.Thread(target=lambda n=n: Tokens(file).make(f"name-{n}", Role.VIEWER))
        for n in range(8)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {token.name for token in Tokens(file).list()} == {f"name-{n}" for n in range(8)}

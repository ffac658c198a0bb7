"""`steward serve gateway` and `steward serve key`, as far as they end by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from steward.store.api_keys import ApiKeys
from told import steward


def test_a_key_is_printed_once_and_works(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"

    answer = steward(
        *("serve", "key", "new", "ann", "--keys", file, "--class", "chat"),
        *("--tokens-per-minute", "1000", "--admin"),
    )

    assert answer.code == 0
    keys = ApiKeys(file)
    keys.read()
    found = keys.find(answer.out.strip())
    assert found is not None
    assert (found.name, found.deadline_class, found.tokens_per_minute) == ("ann", "chat", 1000)
    assert found.admin
    assert "not shown again" in answer.err


def test_keys_are_listed_without_their_secrets_and_revoked(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    secret = steward("serve", "key", "new", "ann", "--keys", file).out.strip()

    listed = steward("serve", "key", "list", "--keys", file, "--json")
    text = steward("serve", "key", "list", "--keys", file)
    revoked = steward("serve", "key", "revoke", "ann", "--keys", file)

    assert [each["name"] for each in listed.json] == ["ann"]
    assert "sha256" not in listed.out
    assert secret not in listed.out + text.out
    assert revoked.code == 0
    assert ApiKeys(file).list() == ()


def test_without_a_file_of_keys_the_hint_names_the_option(tmp_path: Path) -> None:
    answer = steward("serve", "key", "list", "--data", tmp_path)

    assert answer.code == 2
    assert "--keys FILE" in answer.err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--upstream", "ftp://x"), "'ftp://x' is not an address"),
        (("--policy", "nobody"), "no dispatcher called 'nobody'"),
        (("--estimator", "nobody"), "no serving-estimator called 'nobody'"),
        (("--class", "chat:soon=1"), "no promise called 'soon'"),
        (("--host", "0.0.0.0"), "there is no certificate"),  # noqa: S104
    ],
)
def test_what_is_wrong_is_said_before_anything_listens(
    options: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    answer = steward("serve", "gateway", *options, "--port", "0", "--for", "0", "--data", tmp_path)

    assert answer.code == 2
    assert problem in answer.err


def test_a_file_of_keys_that_does_not_exist_is_told_with_the_command_that_makes_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "keys.json"

    answer = steward(
        *("serve", "gateway", "--keys", file, "--port", "0", "--for", "0", "--data", tmp_path)
    )

    assert answer.code == 0
    assert f"{file}: there are no keys yet, every request is refused" in answer.err


def test_a_broken_file_of_keys_is_told_once_and_plainly(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text("{")

    answer = steward("serve", "key", "list", "--keys", file)

    assert answer.code == 2
    assert f"error: {file}: Invalid JSON" in answer.err

"""Settings come from defaults, one file and the environment; all mistakes are reported at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.config import SettingsError, draft_settings, find_file, read_settings
from steward.errors import StewardError
from steward.model.decision import Autonomy

EVERYTHING_WRONG = """\
[loop]
evry_s = 3
autonomy = "atuo"

[observe]
collectors = [
  "host",
  3,
]
quiet_share = 1.5
autonomy = "auto"

[srvice]
port = 3

[service]
port = 70000
host = ["a"]

[guard]
breaker_share = 2
disturbed_gpus_per_hour = -1
cool_down_s = true

[tenants.""]
weight = 0

[tenants.bio]
autonomy = "aprove"
guaranteed_gpus = 1.5

[store]
journal = "mysql://me:secret@db/steward"
keep_days = nan
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "steward.toml"
    file.write_text(text, encoding="utf-8")
    return file


def mistakes_in(file: Path, **environment: str) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        read_settings(file, environment)
    return {each.where.removeprefix(str(file)): str(each) for each in caught.value.mistakes}


def test_without_a_file_the_defaults_apply() -> None:
    settings = read_settings(None, {})

    assert settings.loop.every_s == 10.0
    assert settings.loop.autonomy is Autonomy.ADVISE
    assert settings.observe.collectors[:2] == ("cgroups", "host")
    assert settings.act.actuator == "dry-run"


def test_a_file_wins_over_the_defaults_and_the_environment_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "[loop]\nevery_s = 5\n[guard]\ndisturbed_gpus_per_hour = 8\n")

    settings = read_settings(file, {"STEWARD_LOOP__EVERY_S": "7.5"})

    assert settings.loop.every_s == 7.5
    assert settings.guard.disturbed_gpus_per_hour == 8


def test_all_mistakes_come_in_one_message_in_the_order_of_their_lines(tmp_path: Path) -> None:
    file = written(tmp_path, EVERYTHING_WRONG)

    with pytest.raises(SettingsError) as caught:
        read_settings(file, {})

    lines = [each.line for each in caught.value.mistakes]
    assert lines == [2, 3, 8, 10, 11, 13, 17, 18, 21, 22, 23, 25, 26, 29, 30, 33, 34]
    assert str(caught.value).startswith(f"{file}: 17 mistakes\n  {file}:2:1: ")


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (
            ":2:1",
            "[loop] has no key 'evry_s'; possible: every_s, autonomy (did you mean 'every_s'?)",
        ),
        (":3:12", "'atuo', not one of observe, advise, approve, auto (did you mean 'auto'?)"),
        (":8:3", "observe.collectors[1] is 3, not text in quotes"),
        (":10:15", "observe.quiet_share is 1.5; it must be at most 1"),
        (":11:1", "(it belongs into [loop])"),
        (":13:1", "there is no section [srvice]; possible: site, loop, "),
        (":13:1", "(did you mean 'service'?)"),
        (":17:8", "service.port is 70000; it must be at most 65535"),
        (":18:8", "service.host is ['a'], not text in quotes"),
        (":22:27", "guard.disturbed_gpus_per_hour is -1; it must be at least 0"),
        (":23:15", "guard.cool_down_s is true, not a number"),
        (":25:1", "tenants.'' is empty"),
        (":26:10", "tenants.''.weight is 0; it must be above 0"),
        (":29:12", "(did you mean 'approve'?)"),
        (":30:19", "tenants.bio.guaranteed_gpus is 1.5, not a whole number"),
        (":33:11", "whose scheme is not one of sqlite, postgresql, postgresql+psycopg"),
        (":34:13", "store.keep_days is nan, not a finite number"),
    ],
)
def test_each_mistake_names_its_place_and_what_is_allowed(
    tmp_path: Path, place: str, expected: str
) -> None:
    file = written(tmp_path, EVERYTHING_WRONG)

    found = mistakes_in(file)

    assert expected in found[place]


def test_a_password_in_a_url_is_never_shown(tmp_path: Path) -> None:
    file = written(tmp_path, EVERYTHING_WRONG)

    with pytest.raises(SettingsError) as caught:
        read_settings(file, {})

    assert "secret" not in str(caught.value)
    assert "mysql://me:***@db/steward" in str(caught.value)


def test_a_single_mistake_is_a_plain_error_with_its_hint(tmp_path: Path) -> None:
    file = written(tmp_path, "[loop]\nautonomy = 'automatic'\n")

    with pytest.raises(SettingsError) as caught:
        read_settings(file, {})

    assert caught.value.where == f"{file}:2:12"
    assert "not one of observe, advise, approve, auto" in caught.value.problem
    assert caught.value.hint


def test_a_section_that_is_not_a_table_is_reported(tmp_path: Path) -> None:
    file = written(tmp_path, "loop = 3\ntenants = [1]\n")

    found = mistakes_in(file, STEWARD_LOOP__EVERY_S="5")

    assert "loop is 3, not a table" in found[":1:8"]
    assert "tenants is [1], not a table" in found[":2:11"]


def test_a_plug_named_twice_is_a_mistake(tmp_path: Path) -> None:
    file = written(tmp_path, '[observe]\ncollectors = ["host", "nvml", "host"]\n')

    found = mistakes_in(file)

    assert "observe.collectors names host more than once" in found[":2:14"]


def test_a_home_folder_of_an_unknown_user_is_a_mistake(tmp_path: Path) -> None:
    file = written(tmp_path, '[store]\nfolder = "~no-such-user/x"\n')

    found = mistakes_in(file)

    assert "store.folder is '~no-such-user/x', but that home folder is not known" in found[":2:10"]


# -- between keys ------------------------------------------------------------------------------


def test_sensors_must_not_grow_stale_between_two_turns(tmp_path: Path) -> None:
    file = written(tmp_path, "[loop]\nevery_s = 300\n[observe]\nstale_after_s = 200\n")

    found = mistakes_in(file)

    assert "observe.stale_after_s is 200, less than loop.every_s, 300" in found[":4:17"]


def test_a_mistake_between_keys_is_put_where_one_is_set(tmp_path: Path) -> None:
    file = written(tmp_path, "[loop]\nevery_s = 300\n")

    found = mistakes_in(file)

    assert "observe.stale_after_s is 120, less than loop.every_s, 300" in found[":2:11"]


def test_a_mistake_between_keys_is_reported_with_all_others(tmp_path: Path) -> None:
    file = written(tmp_path, "[loop]\nevery_s = 300\n[site]\nnaem = 'x'\n[tenants.'']\n")

    found = mistakes_in(file)

    assert set(found) == {":2:11", ":4:1", ":5:1"}


# -- the file itself ---------------------------------------------------------------------------


def test_a_syntax_error_shows_the_line_and_points_at_the_column(tmp_path: Path) -> None:
    file = written(tmp_path, "[loop]\nevery_s 3\n")

    with pytest.raises(StewardError) as caught:
        read_settings(file, {})

    assert caught.value.where == f"{file}:2:9"
    assert "this is not TOML: Expected '='" in caught.value.problem
    assert "\n  every_s 3\n          ^" in caught.value.problem


def test_a_syntax_error_at_the_end_points_at_the_end(tmp_path: Path) -> None:
    file = written(tmp_path, '[site]\nname = "x')

    with pytest.raises(StewardError) as caught:
        read_settings(file, {})

    assert caught.value.where == f"{file}:2:10"


def test_a_key_given_twice_is_a_syntax_error_with_its_line(tmp_path: Path) -> None:
    file = written(tmp_path, "[loop]\nevery_s = 1\nevery_s = 2\n")

    with pytest.raises(StewardError, match="Cannot overwrite a value") as caught:
        read_settings(file, {})

    assert caught.value.where.startswith(f"{file}:3")


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="there is no such file") as caught:
        read_settings(tmp_path / "none.toml", {})

    assert caught.value.where == str(tmp_path / "none.toml")
    assert "--config" in caught.value.hint


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="a folder, not a file"):
        read_settings(tmp_path, {})


def test_a_file_that_is_not_utf_8_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "steward.toml"
    file.write_bytes(b'[site]\nname = "caf\xe9"\n')

    with pytest.raises(StewardError, match="byte 0xe9 is not UTF-8") as caught:
        read_settings(file, {})

    assert caught.value.where == f"{file}:2"


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "loop.toml"
    file.symlink_to(file)

    with pytest.raises(StewardError, match="it cannot be read"):
        read_settings(file, {})


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "steward.toml"
    file.write_bytes(b"\xef\xbb\xbf[loop]\nevery_s = 3\n")

    settings = read_settings(file, {})

    assert settings.loop.every_s == 3.0


def test_tables_nested_beyond_reason_are_refused_without_a_traceback(tmp_path: Path) -> None:
    file = written(tmp_path, f"x = {'[' * 5000}{']' * 5000}")

    with pytest.raises(StewardError, match="nested too deeply"):
        read_settings(file, {})


@given(text=st.text(alphabet="[]{}=.,'\"#\n abloopevery_s0123-", max_size=80))
def test_whatever_is_in_a_file_ends_in_settings_or_in_an_error_for_people(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = tmp_path_factory.mktemp("any") / "steward.toml"
    file.write_text(text, encoding="utf-8")

    try:
        settings = read_settings(file, {})
    except StewardError as fault:
        assert str(file) in str(fault)
    else:
        assert settings.loop.every_s > 0


# -- which file --------------------------------------------------------------------------------


def test_the_file_that_is_given_wins(tmp_path: Path) -> None:
    written(tmp_path, "")

    found = find_file(Path("given.toml"), {"STEWARD_CONFIG": "other.toml"}, folder=tmp_path)

    assert found == Path("given.toml")


def test_the_variable_wins_over_the_folder(tmp_path: Path) -> None:
    written(tmp_path, "")

    found = find_file(None, {"STEWARD_CONFIG": "other.toml"}, folder=tmp_path)

    assert found == Path("other.toml")


def test_the_folder_wins_over_the_users_own_file(tmp_path: Path) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    own = home / ".config" / "steward" / "steward.toml"
    own.parent.mkdir(parents=True)
    own.touch()
    here.mkdir()

    before = find_file(None, {"HOME": str(home)}, folder=here)
    written(here, "")
    after = find_file(None, {"HOME": str(home)}, folder=here)

    assert before == own
    assert after == here / "steward.toml"


def test_without_any_file_there_is_none(tmp_path: Path) -> None:
    assert find_file(None, {"HOME": str(tmp_path)}, folder=tmp_path) is None


# -- where values come from --------------------------------------------------------------------


def test_a_value_has_its_origin(tmp_path: Path) -> None:
    file = written(tmp_path, "[loop]\nevery_s = 5\n[guard]\ndisturbed_gpus_per_hour = 8\n")

    draft = draft_settings(file, {"STEWARD_LOOP__EVERY_S": "7"})

    assert draft.origin(("loop", "every_s")) == "environment STEWARD_LOOP__EVERY_S"
    assert draft.origin(("guard", "disturbed_gpus_per_hour")) == f"{file}:4"
    assert draft.origin(("loop", "autonomy")) == "default"


def test_a_draft_keeps_what_is_right_beside_what_is_wrong(tmp_path: Path) -> None:
    file = written(tmp_path, "[loop]\nevery_s = 5\nautonomy = 'x'\n[tenants.a]\nweight = 2\n")

    draft = draft_settings(file, {})

    assert len(draft.mistakes) == 1
    assert draft.settings.loop.every_s == 5.0
    assert draft.settings.tenants["a"].weight == 2.0


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "steward.toml"
    os.mkfifo(pipe)

    with pytest.raises(StewardError, match="a device or a pipe"):
        read_settings(pipe, {})

"""Settings from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.config import SettingsError, read_settings
from steward.config.environment import misspelt, overrides_in, variable_of


@pytest.mark.parametrize(
    ("variable", "text", "section", "key", "value"),
    [
        ("STEWARD_LOOP__EVERY_S", "2.5", "loop", "every_s", 2.5),
        ("STEWARD_SITE__NAME", "42", "site", "name", "42"),
        ("STEWARD_SITE__NAME", '"quoted"', "site", "name", '"quoted"'),
        ("STEWARD_OBSERVE__COLLECTORS", "host, nvml", "observe", "collectors", ("host", "nvml")),
        ("STEWARD_OBSERVE__COLLECTORS", '["host"]', "observe", "collectors", ("host",)),
        ("STEWARD_OBSERVE__COLLECTORS", "host", "observe", "collectors", ("host",)),
        ("STEWARD_OBSERVE__COLLECTORS", "[]", "observe", "collectors", ()),
        ("STEWARD_STORE__JOURNAL", "", "store", "journal", ""),
    ],
)
def test_a_variable_is_read_as_its_key_needs_it(
    variable: str, text: str, section: str, key: str, value: object
) -> None:
    settings = read_settings(None, {variable: text})

    assert getattr(getattr(settings, section), key) == value


def test_a_wrong_value_names_its_variable() -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(
            None,
            {
                "STEWARD_SERVICE__PORT": "http",
                "STEWARD_LOOP__EVRY_S": "3",
                "STEWARD_LOP__EVERY_S": "3",
            },
        )

    message = str(caught.value)
    assert "environment variable STEWARD_LOP__EVERY_S: there is no section [lop]" in message
    assert "environment variable STEWARD_SERVICE__PORT: service.port is 'http'" in message
    assert "environment variable STEWARD_LOOP__EVRY_S: [loop] has no key 'evry_s'" in message
    assert "did you mean 'every_s'?" in message


def test_a_variable_with_one_underscore_too_few_is_not_overlooked() -> None:
    (mistake,) = misspelt({"STEWARD_LOOP_EVERY_S": "3", "STEWARD_CONFIG": "x", "HOME": "y"})

    assert mistake.where == "environment variable STEWARD_LOOP_EVERY_S"
    assert mistake.hint == "did you mean 'STEWARD_LOOP__EVERY_S'?"


def test_a_variable_reaches_a_tenant_by_the_name_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "steward.toml"
    file.write_text('[tenants."Bio Lab-2"]\nweight = 2\n', encoding="utf-8")

    settings = read_settings(file, {"STEWARD_TENANTS__BIO_LAB_2__GUARANTEED_GPUS": "4"})

    assert settings.tenants["Bio Lab-2"].guaranteed_gpus == 4
    assert settings.tenants["Bio Lab-2"].weight == 2.0


def test_a_variable_makes_a_tenant_that_no_file_names() -> None:
    settings = read_settings(None, {"STEWARD_TENANTS__BIO__WEIGHT": "3"})

    assert settings.tenants["bio"].weight == 3.0


def test_a_variable_reaches_a_plug_whose_name_has_dashes() -> None:
    settings = read_settings(None, {"STEWARD_PLUGS__LEND_IDLE__CHECK_AFTER_S": "60"})

    assert settings.plugs == {"lend-idle": {"check_after_s": 60}}


def test_a_variable_that_goes_too_deep_is_a_mistake() -> None:
    with pytest.raises(SettingsError, match=r"loop\.every_s is a table, not a number"):
        read_settings(None, {"STEWARD_LOOP__EVERY_S__X": "1"})


def test_a_value_cannot_smuggle_in_another_line() -> None:
    with pytest.raises(SettingsError, match="not a number"):
        read_settings(None, {"STEWARD_LOOP__EVERY_S": "3\n[site]\nname = 'x'"})


@given(
    name=st.text(alphabet="ABCDEFGHIJ_S", max_size=20),
    text=st.text(max_size=12).filter(lambda t: "\0" not in t),
)
def test_any_variable_is_read_or_refused_with_its_name(name: str, text: str) -> None:
    variable = f"STEWARD_{name}"

    try:
        read_settings(None, {variable: text})
    except SettingsError as fault:
        assert variable in str(fault)
    else:
        assert not overrides_in({variable: text})


@pytest.mark.parametrize(
    "path", [("loop", "every_s"), ("store", "journal"), ("guard", "cool_down_s")]
)
def test_a_keys_variable_leads_back_to_the_key(path: tuple[str, str]) -> None:
    (override,) = overrides_in({variable_of(path): "1"})

    assert override.path == path

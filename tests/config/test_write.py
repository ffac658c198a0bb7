"""The settings in force can be shown, read again, and contain no secret."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from steward.config import Draft, draft_settings
from steward.config.checked_values import masked_url
from steward.config.settings import Settings, TenantSettings
from steward.config.write import as_toml, leaves_of, values_of

OPTIONS = st.one_of(
    st.integers(-(2**31), 2**31),
    st.booleans(),
    st.text(max_size=10).filter(lambda text: "@" not in text),
    st.lists(st.integers(), max_size=3),
)
PLUGS = st.dictionaries(
    st.text(min_size=1, max_size=8).filter(str.strip),
    st.dictionaries(st.sampled_from(["a", "b c", "", "ü"]), OPTIONS, max_size=3),
    max_size=3,
)


@given(plugs=PLUGS, weight=st.floats(0.001, 1e6), name=st.text(min_size=1).filter(str.strip))
def test_what_is_shown_can_be_read_again(plugs: dict[str, Any], weight: float, name: str) -> None:
    settings = Settings(plugs=plugs, tenants={name: TenantSettings(weight=weight)})

    text = as_toml(Draft(settings=settings, file=None))

    assert Settings.model_validate(tomllib.loads(text)) == settings


def test_each_value_has_its_origin_as_a_comment(tmp_path: Path) -> None:
    file = tmp_path / "steward.toml"
    file.write_text("[loop]\nevery_s = 5\n", encoding="utf-8")
    draft = draft_settings(file, {"STEWARD_SITE__NAME": "x"})

    lines = as_toml(draft, {("store", "folder"): "--data"}).splitlines()

    assert f"every_s = 5.0  # {file}:2" in lines
    assert 'name = "x"  # environment STEWARD_SITE__NAME' in lines
    assert 'autonomy = "advise"  # default' in lines
    assert 'folder = "~/.local/share/steward"  # --data' in lines


def test_passwords_are_covered() -> None:
    settings = Settings.model_validate(
        {
            "store": {"journal": "postgresql://me:geheim@db:5432/steward"},
            "plugs": {"x": {"api_token": "geheim", "url": "https://u:geheim@h/p?q=1"}},
        }
    )

    text = as_toml(Draft(settings=settings, file=None))

    assert "geheim" not in text
    assert 'journal = "postgresql://me:***@db:5432/steward"' in text
    assert 'url = "https://u:***@h/p?q=1"' in text


def test_text_that_only_looks_like_a_url_is_shown_without_its_middle() -> None:
    assert masked_url("http://[::1") == "http://[::1"
    assert masked_url("x://u:p@[::1") == "***"
    assert masked_url("plain") == "plain"


def test_every_value_has_a_path() -> None:
    paths = leaves_of(values_of(Settings()))

    assert ("loop", "every_s") in paths
    assert len(paths) == len(set(paths)) > 25

"""How often a training saves, where its script does not say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from steward.training.job import EVERY_S, attach
from steward.training.protocol import EVERY_VARIABLE, TrainingError


def test_the_environment_says_how_often_to_save_where_the_script_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EVERY_VARIABLE, "1234")

    told, own = attach(folder=tmp_path / "a"), attach(folder=tmp_path / "b", every_s=60.0)
    never = attach(folder=tmp_path / "c", every_s=None)
    monkeypatch.delenv(EVERY_VARIABLE)
    default = attach(folder=tmp_path / "d")

    assert [each._every_s for each in (told, own, never, default)] == [1234.0, 60.0, None, EVERY_S]


@pytest.mark.parametrize("text", ["often", "0", "-3", "nan", "inf"])
def test_what_is_no_time_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EVERY_VARIABLE, text)

    with pytest.raises(TrainingError, match="no time between saves"):
        attach(folder=tmp_path)

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from steward.decide.scheduling import POLICIES
from steward.decide.scheduling.lend_idle import LendIdle
from steward.errors import StewardError, did_you_mean
from steward.registry import known, resolve


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package from outside that brings two policies, one of them broken."""
    (tmp_path / "outside_policies.py").write_text(
        "class Fifo:\n    name = 'outside-fifo'\n    def decide(self, view):\n        return ()\n"
    )
    info = tmp_path / "outside_policies-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-policies\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[steward.policies]\n"
        "outside-fifo = outside_policies:Fifo\n"
        "outside-broken = outside_policies:Missing\n"
        "lend-idle = outside_policies:Fifo\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "outside_policies", raising=False)


def test_built_in_plugs_are_found_by_name() -> None:
    assert resolve("policy", "lend-idle", POLICIES) is LendIdle


@pytest.mark.usefixtures("package")
def test_a_package_from_outside_brings_its_plugs_through_entry_points() -> None:
    made = resolve("policy", "outside-fifo", POLICIES)()

    assert made.name == "outside-fifo"
    assert {"lend-idle", "outside-fifo"} <= set(known("policy", POLICIES))


@pytest.mark.usefixtures("package")
def test_built_in_plugs_win_over_outside_ones_of_the_same_name() -> None:
    assert resolve("policy", "lend-idle", POLICIES) is LendIdle


@pytest.mark.usefixtures("package")
def test_a_plug_that_cannot_be_imported_says_so() -> None:
    with pytest.raises(StewardError, match="cannot be imported") as caught:
        resolve("policy", "outside-broken", POLICIES)

    assert caught.value.where == "entry point steward.policies"


def test_an_unknown_plug_is_answered_with_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(StewardError) as caught:
        resolve("policy", "lend-idel", POLICIES)

    assert f"known: {', '.join(sorted(POLICIES))}" in caught.value.problem
    assert caught.value.hint == "did you mean 'lend-idle'?"
    assert did_you_mean("zebra", POLICIES) == ""

"""Plugs that were chosen exist, and take the options that they are given."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from steward.config import draft_settings
from steward.config.plugs import (
    KINDS,
    POLICIES,
    chosen,
    options_of,
    own_options,
    schedulers,
    wrong_plugs,
)
from steward.config.settings import Settings
from steward.errors import StewardError


def wrong_in(folder: Path, text: str) -> list[str]:
    file = folder / "steward.toml"
    file.write_text(text, encoding="utf-8")
    draft = draft_settings(file, {})
    assert not draft.mistakes
    message = [str(draft.mistake(each)) for each in wrong_plugs(draft.settings)]
    return [each.removeprefix(str(file)) for each in message]


def test_the_plugs_of_the_default_settings_all_exist() -> None:
    settings = Settings()

    assert wrong_plugs(settings) == ()
    assert {kind.kind for kind, _, _ in chosen(settings)} == {kind.kind for kind in KINDS}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[observe]\ncollectors = ["hots"]',
            ":2:15: there is no collector called 'hots'; known: cgroups, ",
        ),
        ('[act]\nactuator = "nvml"', "('nvml' is a plug of observe.collectors)"),
        (
            '[decide]\npolicies = ["x"]',
            ":2:13: there is no policy called 'x'; known: ask-for-what-is-used, ",
        ),
        ('[learn]\nminers = ["idle-habit"]', "(did you mean 'idle-habits'?)"),
        ("[plugs.nvmll]", ":1:1: there is no plug called 'nvmll'; known: "),
        (
            "[plugs.lend-idle]\ncheck_after = 3",
            ":2:1: 'lend-idle' has no option 'check_after'; possible: check_after_s",
        ),
        ('[plugs.lend-idle]\ncheck_after_s = "x"', ":2:17: plugs.lend-idle.check_after_s is 'x'"),
        ("[plugs.lend-idle]\ncheck_after_s = '60'", "is '60', not a number"),
        ("[plugs.host]\nnode = 3", ":2:8: plugs.host.node is 3, not text in quotes"),
        ("[plugs.host]\nname = 'x'", "'host' has no option 'name'"),
        ("[plugs.host]\nsource = 'x'", "'host' has no option 'source'; possible: node"),
        ("[plugs.dry-run]\nx = 1", "'dry-run' has no option 'x'"),
    ],
)
def test_a_wrong_plug_or_option_is_reported_with_its_place(
    tmp_path: Path, text: str, expected: str
) -> None:
    (message,) = wrong_in(tmp_path, text)

    assert expected in message


def test_right_options_are_accepted(tmp_path: Path) -> None:
    text = "[plugs.lend-idle]\ncheck_after_s = 60\n[plugs.nvml]\nnode = 'n01'\n"

    assert wrong_in(tmp_path, text) == []


def test_a_collector_and_an_actuator_of_one_name_share_their_options(tmp_path: Path) -> None:
    text = "[plugs.slurm]\nevery_s = 5\ndry_run = true\nconf = '/x'\n"
    given = {"every_s": 5, "dry_run": True, "conf": "/x"}

    assert wrong_in(tmp_path, text) == []
    assert "possible: every_s, " in wrong_in(tmp_path, "[plugs.slurm]\nx = 1\n")[0]
    assert own_options("collector", "slurm", given) == {"every_s": 5, "conf": "/x"}
    assert own_options("actuator", "slurm", given) == {"dry_run": True, "conf": "/x"}
    assert own_options("collector", "host", {"x": 1}) == {"x": 1}  # the plug itself refuses it


def test_several_wrong_plugs_are_reported_together(tmp_path: Path) -> None:
    text = '[observe]\ncollectors = ["a", "b"]\n[plugs.host]\nx = 1\ny = 2\n'

    assert len(wrong_in(tmp_path, text)) == 4


# -- from outside ------------------------------------------------------------------------------


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, *, code: str) -> None:
    """Install a package that brings a collector called `sonar`."""
    (folder / "sonar_plug.py").write_text(code, encoding="utf-8")
    about = folder / "sonar_plug-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sonar-plug\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[steward.collectors]\nsonar = sonar_plug:Sonar\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "sonar_plug", raising=False)


def test_a_plug_from_an_installed_package_is_known_with_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "class Sonar:\n    def __init__(self, *, depth: 'Metres' = 3): ...\n"
    installed(tmp_path, monkeypatch, code=code)
    text = '[observe]\ncollectors = ["sonar"]\n[plugs.sonar]\ndepth = 4\nwidth = 3\n'

    (message,) = wrong_in(tmp_path, text)

    assert "'sonar' has no option 'width'; possible: depth" in message


def test_a_plug_that_cannot_be_imported_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, code="import no_such_module\n")

    (message,) = wrong_in(tmp_path, "[plugs.sonar]\ndepth = 4\n")

    assert "the installed collector 'sonar' cannot be imported" in message
    assert "reinstall or remove the package" in message


class Picky:
    """A plug that checks its options beyond their types."""

    def __init__(self, *, share: float = 0.5, names: tuple[str, ...] = (), **_more: object) -> None:
        if share > 1:
            raise StewardError(f"share is {share}", hint="use 0..1")


def test_the_options_of_a_plug_are_its_keywords() -> None:
    options = options_of(Picky)

    assert {name: option.type for name, option in options.items()} == {
        "share": "a number",
        "names": "tuple[str, ...]",
    }


def test_what_a_plug_itself_refuses_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS[0].table, "picky", Picky)  # type: ignore[arg-type]
    settings = Settings(plugs={"picky": {"share": 2.0, "names": ["a"]}})

    (wrong,) = wrong_plugs(settings)

    assert wrong.problem == "plugs.picky: share is 2.0"
    assert wrong.hint == "use 0..1"


@pytest.mark.parametrize("name", ["save-before-limit", "ask-for-what-is-used", "lend-idle"])
def test_a_policy_that_starts_nothing_is_no_scheduler(name: str) -> None:
    """Where only such a policy is named, this machine's jobs get a scheduler beside it."""
    assert name in POLICIES
    assert name not in schedulers()

"""Which rules run at a site: ours, those that were installed, and those of its own paths."""

from __future__ import annotations

from pathlib import Path

from steward.config.rulebook import read_standings, running
from steward.config.settings import RulesSettings
from steward.model.rules import RuleState
from steward.store.packages import InstallOptions, PackageRequest, install, pack, packages_folder

RULE = """\
rules:
  - cre: {{id: {id}, severity: 2, title: {title}}}
    rule:
      set:
        event: {{source: cre.log.kernel}}
        match: ['broken']
"""


def installed(store: Path, *, rule: str) -> None:
    folder = store / "made" / "one"
    folder.mkdir(parents=True)
    (folder / "rule.yaml").write_text(RULE.format(id=rule, title="site"), encoding="utf-8")
    file = store / "p.tar.gz"
    pack(folder.parent, file, PackageRequest(name="site", version="1.0.0", steward="0"), key=None)
    install(file, packages_folder(store), InstallOptions(unsigned=True), check=lambda _rules: None)


def test_installed_packages_run_in_the_loop(tmp_path: Path) -> None:
    installed(tmp_path, rule="SITE-0001")

    rules = running(read_standings(RulesSettings(), tmp_path))

    ids = [rule.id for rule in rules]
    assert "SITE-0001" in ids
    assert len(ids) > 60


def test_a_site_s_own_rule_replaces_one_of_ours(tmp_path: Path) -> None:
    installed(tmp_path, rule="STW-GPU-0001")

    standings = read_standings(RulesSettings(), tmp_path)

    (mine,) = [each for each in standings if each.id == "STW-GPU-0001"]
    assert mine.rule is not None
    assert (mine.state, mine.rule.title) == (RuleState.ON, "site")


def test_without_packs_only_the_site_s_own_rules_run(tmp_path: Path) -> None:
    installed(tmp_path, rule="SITE-0001")

    standings = read_standings(RulesSettings(packs=False), tmp_path)

    assert [each.id for each in standings] == ["SITE-0001"]
    assert read_standings(RulesSettings(on=False), tmp_path) == ()

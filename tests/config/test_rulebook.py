from __future__ import annotations

from pathlib import Path

import pytest

from rule_texts import file
from steward.config.rulebook import endpoint_of, read_standings, rule_files, running
from steward.config.settings import RulesSettings
from steward.errors import StewardError
from steward.model.rules import RuleStanding, RuleState
from steward.store.packages.locations import CURRENT, MANIFEST, packages_folder

GOOD = "set:\n  event: {source: cre.log.kernel}\n  match: [oops]\n"
BAD_PATTERN = "set:\n  event: {source: cre.log.kernel}\n  match: [{regex: '(a'}]\n"


def written(folder: Path, name: str, rule: str = GOOD, **more: str) -> None:
    place = folder / "mine" / name.lower()
    place.mkdir(parents=True)
    (place / "rule.yaml").write_text(file(rule, rule_id=name, **more), encoding="utf-8")


def standings(folder: Path, **more: object) -> dict[str, RuleStanding]:
    given = {"packs": False, "paths": [str(folder)], **more}
    settings = RulesSettings.model_validate(given)
    return {each.id: each for each in read_standings(settings, folder / "store")}


def test_rules_of_a_folder_run_and_have_their_place(tmp_path: Path) -> None:
    written(tmp_path, "GOOD-0001")

    found = standings(tmp_path)["GOOD-0001"]

    assert (found.state, found.pack, found.why) == (RuleState.ON, "mine", "")
    assert found.place.file.endswith("rule.yaml")


def test_a_faulty_rule_is_off_with_a_reason_and_the_others_run(tmp_path: Path) -> None:
    written(tmp_path, "GOOD-0001")
    written(tmp_path, "BADP-0001", BAD_PATTERN)
    written(tmp_path, "BADF-0001", "set:\n  match: [oops]\n  windw: 5s\n")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "rule.yaml").write_text("rules: [", encoding="utf-8")

    found = standings(tmp_path)

    assert [rule.id for rule in running(found.values())] == ["GOOD-0001"]
    assert "does not compile" in found["BADP-0001"].why
    assert "windw" in found["BADF-0001"].why
    assert found["BADF-0001"].rule is None
    assert found["broken"].state is RuleState.FAULTY
    assert found["broken"].why.startswith("line ")


def test_two_rules_of_one_name_do_not_both_run(tmp_path: Path) -> None:
    written(tmp_path / "a", "SAME-0001")
    written(tmp_path / "b", "SAME-0001")

    settings = RulesSettings.model_validate({"packs": False, "paths": [str(tmp_path)]})
    found = read_standings(settings, tmp_path / "store")

    assert len(running(found)) <= 1
    assert any(each.state is RuleState.FAULTY for each in found)


def test_a_rule_can_be_switched_off_and_a_name_that_fits_none_is_reported(tmp_path: Path) -> None:
    written(tmp_path, "GOOD-0001")

    found = standings(tmp_path, disabled=["GOOD-0001", "GOOD-0002"])

    assert found["GOOD-0001"].state is RuleState.OFF
    assert found["GOOD-0001"].why == "rules.disabled names it"
    assert found["GOOD-0002"].state is RuleState.FAULTY
    assert "did you mean 'GOOD-0001'?" in found["GOOD-0002"].why
    assert running(found.values()) == ()


def test_a_folder_that_is_not_there_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    found = standings(tmp_path / "nowhere")

    (only,) = found.values()
    assert only.state is RuleState.FAULTY
    assert only.why


def test_a_damaged_package_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    written(tmp_path, "GOOD-0001")
    link = packages_folder(tmp_path / "store") / "acme" / CURRENT
    link.mkdir(parents=True)
    (link / MANIFEST).mkdir()

    found = standings(tmp_path)

    assert [rule.id for rule in running(found.values())] == ["GOOD-0001"]
    assert found["packages"].state is RuleState.FAULTY


def test_rules_that_come_with_steward_run_unless_rules_are_off(tmp_path: Path) -> None:
    on = read_standings(RulesSettings(), tmp_path)

    assert len(running(on)) >= 60
    assert not [each for each in on if each.state is RuleState.FAULTY]
    assert read_standings(RulesSettings(on=False), tmp_path) == ()


@pytest.mark.parametrize("mode", ["strict", "preq"])
def test_the_mode_is_one_of_two(mode: str) -> None:
    assert RulesSettings.model_validate({"mode": mode}).mode.value == mode


BEYOND = "set:\n  match: [{promql: {expr: 'holt_winters(up[9m], 0.5, 0.5) > 1'}}]\n"


def test_an_expression_that_needs_a_prometheus_runs_where_there_is_one(tmp_path: Path) -> None:
    written(tmp_path, "HOLT-0001", BEYOND)

    alone = standings(tmp_path)["HOLT-0001"]
    with_prometheus = standings(tmp_path, prometheus="https://p:9090")["HOLT-0001"]

    assert (alone.state, with_prometheus.state) == (RuleState.FAULTY, RuleState.ON)


def test_the_prometheus_that_is_queried_has_its_token_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheim\n")
    given = {"prometheus": "https://p:9090", "prometheus_token_file": str(tmp_path / "token")}

    endpoint = endpoint_of(RulesSettings.model_validate(given))

    assert (endpoint.url, endpoint.token) == ("https://p:9090", "geheim")


def test_all_files_for_it_that_cannot_be_read_are_named_at_once(tmp_path: Path) -> None:
    given = {
        "prometheus": "https://p:9090",
        "prometheus_token_file": str(tmp_path / "none"),
        "prometheus_ca_file": str(tmp_path / "ca"),
    }

    with pytest.raises(StewardError) as caught:
        endpoint_of(RulesSettings.model_validate(given))

    assert "rules.prometheus_token_file" in caught.value.problem
    assert "rules.prometheus_ca_file" in caught.value.problem
    assert caught.value.hint


@pytest.mark.parametrize("url", ["localhost:9090", "ftp://p", "http://me:secret@p:9090"])
def test_what_is_no_address_of_a_prometheus_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"not an address|has a user in it"):
        RulesSettings.model_validate({"prometheus": url})


def test_the_files_of_a_site_and_of_packages_are_known_with_what_changes_when_they_do(
    tmp_path: Path,
) -> None:
    written(tmp_path, "GOOD-0001")
    settings = RulesSettings.model_validate({"paths": [str(tmp_path / "mine")]})
    before = rule_files(settings, tmp_path / "store")
    written(packages_folder(tmp_path / "store"), "PACK-0001")
    (tmp_path / "mine" / "good-0001" / "rule.yaml").write_text("rules: [")
    after = rule_files(settings, tmp_path / "store")

    assert [Path(each).parent.name for each in before] == ["good-0001"]
    assert sorted(Path(each).parent.name for each in after) == ["good-0001", "pack-0001"]
    assert not set(before.items()) & set(after.items())
    assert rule_files(RulesSettings.model_validate({"on": False}), tmp_path) == {}


def test_a_folder_without_rules_is_called_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "site-rules").mkdir()

    found = standings(tmp_path / "site-rules")

    assert found["site-rules"].why.startswith("a folder with no rule files")


def test_a_rule_is_off_where_a_detector_finds_the_same_and_a_sites_own_one_is_not(
    tmp_path: Path,
) -> None:
    idle, detectors = "STW-TEL-0001", ("gpu-idle-while-allocated",)
    own = RulesSettings.model_validate({"paths": [str(tmp_path / "own")]})
    written(tmp_path / "own", idle)

    def standing(settings: RulesSettings, detectors: tuple[str, ...]) -> RuleStanding:
        found = read_standings(settings, tmp_path / "store", detectors=detectors)
        return next(each for each in found if each.id == idle)

    assert standing(RulesSettings(), ()).state is RuleState.ON
    assert standing(RulesSettings(), detectors).state is RuleState.OFF
    assert "gpu-idle-while-allocated" in standing(RulesSettings(), detectors).why
    assert standing(own, detectors).state is RuleState.ON

"""Logs of sound machines, with every rule looking at every line: nobody says anything.

This is what `steward rules run /var/log` does: files there do not tell which program wrote them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steward.inspection.example_tests import run_examples
from steward.inspection.feeds import LogFeed
from steward.inspection.folders import rule_folders
from steward.inspection.runner import run_rules
from steward.model.rules import Mode, Rule, Stream
from steward.store.packages import shipped
from steward.store.rules import read_rules

HEALTHY = Path(__file__).parents[1] / "data" / "healthy-logs"
PACKS = Path(__file__).parents[2] / "rules"
SHARED = Path(os.environ.get("STEWARD_DATA", "../shared/data"))
# Containers that were killed are among the public rules' logs; one of our rules is about them, too.
ALSO_OURS = {"STW-K8S-0005": "cre-2026-0273"}
# Beside the pairs of `test_examples.py`: lines of one program that another one repeats.
REPEATED = {
    ("STW-HOST-0002", "STW-K8S-0005"),  # the kernel's line, as an event of Kubernetes
    ("STW-TRN-0008", "STW-TRN-0006"),  # a checkpoint that failed was not finished either
}


@pytest.fixture(scope="module")
def rules() -> tuple[Rule, ...]:
    return read_rules([shipped()])


def found(rules: tuple[Rule, ...], *files: Path) -> tuple[int, set[tuple[str, str]]]:
    """Return how many lines there were, and which rule fired on which file."""
    feeds = [LogFeed(stream=Stream(name=str(file)), sources=(file,)) for file in files]
    report = run_rules(rules, feeds, mode=Mode.STRICT)
    fired = {(each.rule.id, proof.stream) for each in report.findings for proof in each.evidence}
    return report.lines, fired


def test_no_rule_fires_on_what_sound_machines_write(rules: tuple[Rule, ...]) -> None:
    lines, fired = found(rules, *sorted(HEALTHY.glob("*.log")))

    assert lines > 140
    assert fired == set()


def test_no_rule_fires_on_all_of_it_in_one_file(rules: tuple[Rule, ...], tmp_path: Path) -> None:
    whole = tmp_path / "everything.log"
    whole.write_text("".join(file.read_text() for file in sorted(HEALTHY.glob("*.log"))))

    assert found(rules, whole)[1] == set()


def test_rules_that_see_every_line_fire_on_examples_of_others_only_where_they_mean_the_same() -> (
    None
):
    folders = rule_folders(PACKS, lenient=False)
    named = run_examples(folders, mode=Mode.STRICT, proof_needed=True)

    every = run_examples(folders, mode=Mode.STRICT, proof_needed=True, all_sources=True)

    assert every.failed == ()
    extra = {each[:2] for each in every.cross_rule} - {each[:2] for each in named.cross_rule}
    assert extra == REPEATED


@pytest.mark.data
@pytest.mark.parametrize("name", ["BGL", "HPC", "Linux"])
def test_no_rule_fires_on_public_logs_of_other_machines(rules: tuple[Rule, ...], name: str) -> None:
    lines, fired = found(rules, SHARED / "telemetry" / "loghub_samples" / f"{name}_2k.log")

    assert (lines, fired) == (2000, set())


@pytest.mark.data
def test_rules_stay_silent_on_the_logs_of_public_rules_about_other_programs(
    rules: tuple[Rule, ...],
) -> None:
    files = sorted((SHARED / "cre").glob("*/test*.log"))

    lines, fired = found(rules, *files)

    assert lines > 2500
    assert {(rule, Path(file).parent.name) for rule, file in fired} == set(ALSO_OURS.items())

"""`steward findings`: what was noticed, and a person's word on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from factories import finding
from steward.model.finding import Opinion, Quote, Severity
from steward.model.identity import FindingId, GpuId
from steward.store.journal import open_journal
from told import steward


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    journal = open_journal(f"sqlite:///{tmp_path / 'journal.sqlite3'}")
    journal.append([finding()])
    journal.close()
    return tmp_path


@pytest.mark.parametrize(("word", "done"), [("confirm", "confirmed"), ("dismiss", "dismissed")])
def test_a_finding_is_confirmed_or_dismissed(folder: Path, word: str, done: str) -> None:
    answer = steward("findings", word, "f-j1", "--note", "as planned", "--data", folder)

    assert answer.code == 0
    assert f"{done} f-j1 of rule gpu-idle-while-allocated" in answer.out
    journal = open_journal(f"sqlite:///{folder / 'journal.sqlite3'}")
    (entry,) = journal.read(kinds=("opinion",))
    journal.close()
    assert isinstance(entry.value, Opinion)
    assert (entry.value.opinion, entry.value.note) == (word, "as planned")


def test_an_opinion_can_be_json(folder: Path) -> None:
    answer = steward("findings", "confirm", "f-j1", "--data", folder, "--json")

    assert answer.json["opinion"] == "confirm"


def test_an_id_that_nobody_has_is_told_with_the_nearest(folder: Path) -> None:
    answer = steward("findings", "confirm", "f-j2", "--data", folder)

    assert answer.code == 2
    assert "there is no finding 'f-j2'" in answer.err
    assert "did you mean 'f-j1'?" in answer.err


def test_findings_are_listed(folder: Path) -> None:
    answer = steward("findings", "list", "--data", folder)

    assert "f-j1" in answer.out


def test_a_finding_about_one_gpu_is_placed_there_and_one_about_more_by_its_subject() -> None:
    lost_gpu = replace(finding(), subject="n1", gpus=(GpuId("n1/gpu0"),))

    assert lost_gpu.place == "n1/gpu0"
    assert replace(lost_gpu, gpus=(GpuId("n1/gpu0"), GpuId("n1/gpu1"))).place == "n1"


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """Return a store with an idle job and a lost GPU."""
    quote = Quote(t_s=1000.0, text="NVRM: Xid (PCI:0000:1a:00): 79, GPU has", stream="kernel")
    fault = replace(
        finding(),
        id=FindingId("f-79"),
        rule="STW-GPU-0001",
        severity=Severity.FAULT,
        title="GPU has fallen off the bus on n1/gpu0",
        quotes=(quote,),
    )
    journal = open_journal(f"sqlite:///{tmp_path / 'journal.sqlite3'}")
    journal.append([finding(), fault])
    journal.close()
    return tmp_path


def test_a_list_can_be_narrowed_by_severity_and_rule(lost: Path) -> None:
    def ids(*options: str) -> list[str]:
        answer = steward("findings", "list", "--data", lost, "--json", *options)
        return [each["id"] for each in answer.json]

    assert ids() == ["f-79", "f-j1"]
    assert ids("--severity", "fault") == ["f-79"]
    assert ids("--rule", "gpu-idle-while-allocated") == ["f-j1"]
    assert ids("--severity", "note") == []
    wrong = steward("findings", "list", "--data", lost, "--severity", "bad")
    assert wrong.code == 2
    assert "known: fault, note, waste" in wrong.err


def test_show_gives_the_evidence_the_lines_and_what_people_said(lost: Path) -> None:
    steward("findings", "confirm", "f-79", "--note", "seen it", "--data", lost)

    answer = steward("findings", "show", "f-79", "--data", lost)

    assert "fault, by rule STW-GPU-0001" in answer.out
    assert "NVRM: Xid (PCI:0000:1a:00): 79" in answer.out
    assert "confirmed it: seen it" in answer.out
    record = steward("findings", "show", "f-79", "--data", lost, "--json").json
    assert (record["hits"], record["decisions"]) == (1, [])


def test_explain_says_what_the_rule_means_and_what_to_do(lost: Path) -> None:
    answer = steward("findings", "explain", "f-79", "--data", lost)

    assert "It waits for" in answer.out
    assert "scontrol update nodename=NODE state=drain" in answer.out
    record = steward("findings", "explain", "f-79", "--data", lost, "--json").json
    assert record["rule"]["severity"] == "critical"


def test_explain_of_a_detectors_finding_has_what_the_detector_reports(lost: Path) -> None:
    answer = steward("findings", "explain", "f-j1", "--data", lost)

    assert answer.code == 0
    assert "gpu-idle-while-allocated (detector)" in answer.out
    assert "GPUs have been idle for `idle_after_s` seconds" in answer.out
    assert "[plugs.gpu-idle-while-allocated]" in answer.out

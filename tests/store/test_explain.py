"""From a decision back to its samples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from factories import decision, finding, outcome, receipt, samples
from steward.errors import StewardError
from steward.model.identity import DecisionId, FindingId
from steward.store.explain import explain
from steward.store.journal import Journal, open_journal
from steward.store.telemetry import Telemetry

BUSY = "gpu.busy_share"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with closing(open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")) as opened:
        yield opened


@pytest.fixture
def telemetry(tmp_path: Path) -> Iterator[Telemetry]:
    with closing(Telemetry(tmp_path / "telemetry")) as opened:
        yield opened


def test_a_decision_leads_back_to_the_samples_behind_it(
    journal: Journal, telemetry: Telemetry
) -> None:
    seen, made = finding("j1", "n1/gpu0", "n1/gpu1"), decision()
    for t_s in (0.0, 500.0, 1000.0, 1500.0):
        telemetry.append(samples(t_s, {gpu: {BUSY: 0.01} for gpu in ("n1/gpu0", "n1/gpu1", "x")}))
    telemetry.flush()
    journal.append([seen, made, receipt(made), outcome()])

    found = explain(journal, telemetry, made.id)

    assert found.findings == (seen,)
    assert found.story.outcomes == (outcome(),)
    assert set(found.samples) == {f"n1/gpu0 {BUSY}", f"n1/gpu1 {BUSY}"}
    assert found.samples[f"n1/gpu0 {BUSY}"].rows() == [
        (0.0, "n1/gpu0", 0.01),
        (500.0, "n1/gpu0", 0.01),
        (1000.0, "n1/gpu0", 0.01),
    ]


def test_long_series_are_thinned(journal: Journal, telemetry: Telemetry) -> None:
    for second in range(1001):
        telemetry.append(samples(float(second), {"n1/gpu0": {BUSY: 0.0}}))
    journal.append([finding(), decision()])

    series = explain(journal, telemetry, DecisionId("d-1")).samples[f"n1/gpu0 {BUSY}"]

    assert 250 <= series.height <= 500
    assert series["t_s"].to_list() == [float(second) for second in range(0, 1001, 3)]


def test_two_findings_about_one_series_show_it_once_and_whole(
    journal: Journal, telemetry: Telemetry
) -> None:
    first, second = finding("j1", since_s=400.0), finding("j2", since_s=0.0)
    telemetry.append(samples(100.0, {"n1/gpu0": {BUSY: 0.0}}))
    telemetry.append(samples(900.0, {"n1/gpu0": {BUSY: 0.0}}))
    journal.append([first, second, decision(findings=(first.id, second.id))])

    found = explain(journal, telemetry, DecisionId("d-1"))

    assert found.findings == (first, second)
    assert [frame["t_s"].to_list() for frame in found.samples.values()] == [[100.0, 900.0]]


def test_a_finding_that_is_gone_leaves_the_rest_of_the_story(
    journal: Journal, telemetry: Telemetry
) -> None:
    journal.append([decision(findings=(FindingId("f-lost"),))])

    found = explain(journal, telemetry, DecisionId("d-1"))

    assert found.findings == ()
    assert found.samples == {}
    assert found.story.decision.because == "it is idle"


def test_a_decision_that_is_not_there_is_answered_with_the_nearest_one(
    journal: Journal, telemetry: Telemetry
) -> None:
    journal.append([decision("d-12345")])

    with pytest.raises(StewardError, match="there is no decision 'd-12346'") as caught:
        explain(journal, telemetry, DecisionId("d-12346"))

    assert caught.value.hint == "did you mean 'd-12345'?"

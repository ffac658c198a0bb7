"""Questions to a running service: over HTTP, for every role, and changing nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.bed import LONG_ENOUGH_S, ServiceBed, build_bed
from steward.store.tokens import Role


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> ServiceBed:
    folder: Path = tmp_path_factory.mktemp("bed")
    return build_bed(folder, run_s=LONG_ENOUGH_S)


def test_a_viewer_may_ask_and_gets_values_with_sources(bed: ServiceBed) -> None:
    reply = bed.anonymous.post(
        "/api/v1/ask",
        json={"question": "who is using n1/gpu0?"},
        headers=bed.bearer("viewer", Role.VIEWER),
    )

    assert reply.status_code == 200
    answer = reply.json()
    assert not answer["abstained"]
    assert {"label": "job", "value": "j1"}.items() <= answer["facts"][2].items()
    assert answer["facts"][2]["source"].startswith("steward://gpu/n1/gpu0?t=")


def test_without_a_token_nothing_is_answered(bed: ServiceBed) -> None:
    assert bed.anonymous.post("/api/v1/ask", json={"question": "hi"}).status_code == 401


def test_a_decision_that_waits_is_proposed_and_stays_as_it_is(bed: ServiceBed) -> None:
    decision = bed.only_decision()
    before = bed.live_state.story(decision)

    answer = bed.client.post("/api/v1/ask", json={"question": f"approve {decision}"}).json()

    assert answer["proposals"][0]["command"] == f"steward decisions approve {decision}"
    assert "Nothing was done" in answer["answer"]
    assert bed.live_state.story(decision) == before


def test_a_long_question_is_answered_and_an_endless_one_refused(bed: ServiceBed) -> None:
    long = bed.client.post("/api/v1/ask", json={"question": "why " * 2500})
    endless = bed.client.post("/api/v1/ask", json={"question": "x" * 30_000})

    assert long.json()["abstained"]
    assert endless.status_code == 422


def test_tools_are_called_by_name_and_unknown_ones_refused(bed: ServiceBed) -> None:
    found = bed.client.post("/api/v1/ask/tools/queue", json={"about": "length"})
    unknown = bed.client.post("/api/v1/ask/tools/shell", json={})
    wrong = bed.client.post("/api/v1/ask/tools/queue", json={"about": "all"})

    assert found.json()["facts"][0]["value"] == 1
    assert (unknown.status_code, wrong.status_code) == (404, 422)
    assert "there are jobs, queue" in unknown.json()["error"]["hint"]

"""Names in the titles of pages."""

from __future__ import annotations

import pytest

from service.bed import AND_CHECKED_S, MakeBed, ServiceBed
from steward.model.decision import Autonomy
from steward.service.pages.names import (
    decision_name,
    finding_name,
    gpu_name,
    node_name,
    rule_name,
)


@pytest.fixture
def bed(make_bed: MakeBed) -> ServiceBed:
    made = make_bed(run_s=AND_CHECKED_S, autonomy=Autonomy.AUTO)
    made.live_state.refresh()
    return made


def test_a_page_of_one_thing_has_its_name_in_the_title(bed: ServiceBed) -> None:
    live_state = bed.live_state
    finding, tracked = live_state.snapshot.findings[0], live_state.snapshot.stories[-1]

    assert finding_name(live_state, finding.id) == finding.title
    decided = tracked.story.decision
    assert decision_name(live_state, decided.id) == decided.action.sentence
    assert gpu_name(live_state, "n1/gpu0") == "n1/gpu0"
    assert node_name(live_state, "n1") == "n1"


def test_what_is_unknown_has_no_name(bed: ServiceBed) -> None:
    names = (decision_name, finding_name, gpu_name, node_name, rule_name)

    assert [each(bed.live_state, "x") for each in names] == [None] * 5

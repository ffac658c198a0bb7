"""A plan as somebody asks for it, as numbers."""

from __future__ import annotations

from typing import Any

import pytest

from plans import HOUR_S, NOW_S, accelerator, catalog_of, exactly, queue, site, way
from steward.errors import StewardError
from steward.model.planning.catalog import Catalog
from steward.model.planning.outlook import Outlook
from steward.planning.question import (
    PlanQuestion,
    outlook_of,
    request_of,
    ways_by_hand,
    ways_without_queue,
)

SITES = catalog_of(site("here", region="de"))


def test_each_run_time_is_a_way_of_its_own() -> None:
    question = PlanQuestion(run_times=("A100=4h", "4xA100=1h..2h", "cpu=20h"), gpus="7")

    ways = ways_by_hand(question, SITES)

    assert [(each.gpu_model, each.gpus, each.most_nodes) for each in ways] == [
        ("A100", 1, 1),
        ("A100", 4, 1),
        ("", 0, None),
    ]
    assert ways[0].watts.high == 400.0
    assert ways[2].watts == exactly(0.0)


def test_a_run_time_alone_is_that_of_the_gpu_that_is_asked() -> None:
    asked = {"run_times": ("4h",), "gpu": "H100", "gpus": "2"}

    (known,) = ways_by_hand(PlanQuestion(**asked, across_nodes=True), SITES)
    (without,) = ways_by_hand(PlanQuestion(run_times=("4h",), gpus="0"), SITES)

    assert (known.gpu_model, known.gpus, known.most_nodes) == ("H100", 2, None)
    assert known.watts.high == 700.0  # nobody knows that GPU
    assert without.gpus == 0


@pytest.mark.parametrize(
    ("but", "problem"),
    [
        ({"gpus": "1"}, "on which GPU"),
        ({"gpus": "1,2", "gpu": "A100"}, "cannot hold for several counts"),
    ],
)
def test_a_run_time_that_would_be_a_guess_is_refused(but: dict[str, Any], problem: str) -> None:
    with pytest.raises(StewardError, match=problem):
        ways_by_hand(PlanQuestion(run_times=("4h",), **but), SITES)


def test_a_question_becomes_a_request() -> None:
    question = PlanQuestion(
        name="bert",
        memory="16 GB",
        deadline="12h",
        budget_usd=5.0,
        sites="here,there",
        later=True,
        save_time="2m",
        usd_if_late=3.0,
    )

    found = request_of(question, (way(),), NOW_S)

    assert found.memory_bytes == 16 * 10**9
    assert found.deadline_s == NOW_S + 12 * HOUR_S
    assert found.sites == ("here", "there")
    assert found.may_start_later
    assert (found.save_s, found.save_every_s) == (120.0, 900.0)
    assert found.weights.usd_if_late == 3.0
    assert request_of(PlanQuestion(), (way(),), NOW_S).deadline_s is None


def test_what_is_given_by_hand_comes_before_what_is_known() -> None:
    known = Outlook(waits={"here/gpu": exactly(1.0), "here": exactly(2.0)}, hours_from_s=7.0)
    question = PlanQuestion(waits=("here/gpu=1h",), interrupted=("de=5h",))

    found = outlook_of(question, SITES, known=known)

    assert found.waits == {"here/gpu": exactly(HOUR_S), "here": exactly(2.0)}
    assert found.interrupted_every_s == {"de": 5 * HOUR_S}
    assert found.hours_from_s == 7.0
    assert outlook_of(PlanQuestion(), SITES) == Outlook()


def test_what_is_said_of_a_place_that_does_not_exist_is_refused() -> None:
    with pytest.raises(StewardError, match="no queue, site or region 'here/gpus'") as raised:
        outlook_of(PlanQuestion(waits=("here/gpus=1h",)), SITES)

    assert raised.value.hint == "did you mean 'here/gpu'?"
    with pytest.raises(StewardError) as raised:
        outlook_of(PlanQuestion(interrupted=("moon=1h",)), SITES)
    assert "SITE/QUEUE" in raised.value.hint


def test_gpus_are_known_by_their_aliases() -> None:
    catalog = Catalog(
        sites=(site("here", queue()),), accelerators=(accelerator("H100", aliases=("h100-sxm",)),)
    )

    (found,) = ways_by_hand(PlanQuestion(run_times=("H100-SXM=1h",)), catalog)

    assert found.watts.high == 400.0


def test_a_gpu_that_no_queue_has_is_named_with_those_that_are_there() -> None:
    sites = catalog_of(site("here", queue(gpu_model="V100-PCIE-16GB")))
    question = PlanQuestion(run_times=("V100=4h", "cpu=9h", "V100-PCIE-16GB=4h", "zebra=1h"))

    notes = ways_without_queue(ways_by_hand(question, sites), sites)

    assert notes == (
        "no queue has a GPU called V100, its run time counts nowhere; queues have V100-PCIE-16GB",
        "no queue has a GPU called zebra, its run time counts nowhere; queues have V100-PCIE-16GB",
    )


def test_a_queue_of_half_a_name_is_refused_with_the_queues_of_the_site_that_is_meant() -> None:
    sites = catalog_of(site("osc-pitzer", queue("gpuserial-40core"), queue("serial")))

    with pytest.raises(StewardError) as refused:
        outlook_of(PlanQuestion(waits=("pitzer/gpu=26h",)), sites)

    assert refused.value.where == "--wait pitzer/gpu"
    assert refused.value.hint == "queues of osc-pitzer: gpuserial-40core, serial"

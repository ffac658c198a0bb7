"""How many instances suffice: found, sure, honest where none do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from steward.decide.serving.edf import Edf
from steward.decide.serving.qlm import Qlm
from steward.errors import StewardError
from steward.learn.estimators.serving.learned_waits import LearnedWaits
from steward.model.serving.instance_type import InstanceType, StepTimes
from steward.model.serving.requests import BATCH, DeadlineClass, RequestTrace, requests_of
from steward.sim.serving.floors import ceilings, least_instances
from steward.sim.serving.plan import PlanOptions, PolicyChoice, Requirement, plan, requirement
from steward.sim.serving.prices import catalog_price, gpu_price
from steward.sim.serving.simulate import Fleet, simulate

CHAT = DeadlineClass(name="chat", rank=0, ttft_s=0.5, itl_s=0.05)
# Four sequences of a step of 10 ms: 400 tokens a second, and no more.
SMALL = InstanceType(
    name="small",
    model="m",
    step_times=StepTimes(fixed_s=0.01),
    kv_tokens=1024,
    max_sequences=4,
    max_batched_tokens=64,
)
QUICK = PlanOptions(days=3, most=16)


def steady(per_s: float, count: int = 300, **more: object) -> RequestTrace:
    """Return requests of 10 output tokens: 40 a second is what one instance serves at best."""
    return requests_of(
        "steady",
        arrival_s=np.arange(count) / per_s,
        prompt_tokens=np.full(count, 8),
        output_tokens=np.full(count, 10),
        classes=(CHAT,),
        **more,
    )


def needed(trace: RequestTrace, asked: PlanOptions = QUICK) -> Requirement:
    return requirement(trace, SMALL, PolicyChoice(dispatcher=Edf), asked)


@pytest.mark.parametrize(("per_s", "count"), [(5.0, 1), (60.0, 2), (200.0, 6)])
def test_the_smallest_count_that_keeps_up_is_found(per_s: float, count: int) -> None:
    found = needed(steady(per_s, 1000))

    assert found.instances is not None
    assert abs(found.instances - count) <= 1
    assert found.attainment["chat"].low >= 0.99
    assert found.low is not None
    assert found.low <= found.instances


def test_no_smaller_count_suffices() -> None:
    found = needed(steady(100.0, 1000))
    assert found.instances is not None

    fewer = needed(steady(100.0, 1000), replace(QUICK, most=found.instances - 1))

    assert fewer.instances is None
    assert fewer.reasons


def test_growth_needs_more_and_is_what_the_headroom_says() -> None:
    base = needed(steady(30.0))
    assert base.growth is not None
    assert base.instances is not None

    within = needed(steady(30.0), replace(QUICK, scale=base.growth))
    beyond = needed(steady(30.0), replace(QUICK, scale=2 * base.growth))

    assert within.instances is not None
    assert beyond.instances is not None
    assert within.instances <= base.instances + 1
    assert beyond.instances > base.instances


def test_the_same_seed_gives_the_same_answer() -> None:
    assert needed(steady(60.0)) == needed(steady(60.0))


def test_an_estimator_starts_each_simulation_without_memory() -> None:
    trace = steady(60.0, 400)
    choice = PolicyChoice(dispatcher=Qlm, estimator=LearnedWaits)

    first, again = (requirement(trace, SMALL, choice, QUICK) for _ in range(2))

    assert first == again
    assert first.instances is not None


def test_failures_cost_instances() -> None:
    trace = steady(60.0, 1200)
    asked = replace(QUICK, target=0.9)

    calm, failing = needed(trace, asked), needed(trace, replace(asked, mtbf_s=40.0, down_s=5.0))

    assert calm.instances is not None
    assert failing.instances is not None
    assert failing.instances > calm.instances


def test_prompts_beyond_the_kv_cache_are_a_reason_and_no_number_is_given() -> None:
    trace = steady(5.0)
    prompts = trace.prompt_tokens.copy()
    prompts[::10] = 2000

    found = needed(replace(trace, prompt_tokens=prompts))

    assert found.instances is None
    assert found.simulations == 0
    assert "30 of 300 requests (10.00%) have more tokens than its KV cache" in found.reasons[0]


def test_a_step_longer_than_the_promise_between_tokens_is_a_reason() -> None:
    tight = replace(CHAT, itl_s=0.005)

    found = needed(replace(steady(5.0), classes=(tight,)))

    assert found.instances is None
    assert "time between tokens even on an idle instance" in found.reasons[0]


def test_where_more_instances_do_not_help_that_is_said() -> None:
    found = needed(steady(5.0), replace(QUICK, mtbf_s=1.0, down_s=100.0, most=4))

    assert found.instances is None
    assert "with 4 instances" in found.reasons[0]


def test_batch_may_wait_but_not_pile_up() -> None:
    trace = replace(steady(120.0), classes=(BATCH,))

    sober = needed(trace)
    heaped = needed(trace, replace(QUICK, backlog_share=1.0))

    assert sober.instances is not None
    assert heaped.instances is not None
    assert heaped.instances == 1
    assert sober.instances >= 3


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"target": 1.2}, "the target is 1.2"),
        ({"confidence": 1.0}, "the confidence is 1"),
        ({"days": 1}, "at least 2 resampled days"),
        ({"scale": 0.0}, "no arrivals"),
        ({"most": 0}, "at most 0 instances"),
    ],
)
def test_what_cannot_be_asked_is_said(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(StewardError, match=words):
        plan(steady(5.0), (SMALL,), PolicyChoice(dispatcher=Edf), replace(QUICK, **wrong))


def test_no_simulation_beats_its_ceiling() -> None:
    draw = np.random.default_rng(3)
    trace = requests_of(
        "t",
        arrival_s=np.sort(draw.uniform(0, 50, 200)),
        prompt_tokens=draw.integers(1, 1200, 200),
        output_tokens=draw.integers(1, 60, 200),
        classes=(replace(CHAT, itl_s=0.0101), BATCH),
        deadline_class=draw.integers(0, 2, 200),
    )

    known = {each.deadline_class: each.attainment for each in ceilings(trace, SMALL)}
    run = simulate(trace, Fleet(types=(SMALL,), instances=(0,) * 40), Edf())

    for name, share in run.attainment().items():
        assert share <= known[name] + 1e-12
    assert known["chat"] < 1.0


def test_the_least_count_is_one_where_nothing_takes_time() -> None:
    once = requests_of("t", arrival_s=[0.0], prompt_tokens=[1], output_tokens=[1])

    assert least_instances(once, SMALL) == 1


CATALOG = """cloud,instance_type,accelerator,acc_count,region,usd_per_hour
x,a,H200,8,r1,32
x,a,H200,8,r2,40
y,b,H200-SXM,1,r1,6
mithril,c,H200,8,r1,0.01
y,d,H20,1,r1,1
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    file = tmp_path / "gpu_instances.csv"
    file.write_text(CATALOG)
    return file


def test_a_price_is_the_median_of_the_offers_per_gpu(catalog: Path) -> None:
    found = catalog_price("h200", file=catalog)

    assert (found.low, found.mid, found.high) == (4.0, 5.0, 6.0)
    assert "3 offers of 2 clouds" in found.origin


def test_a_price_can_be_that_of_one_cloud(catalog: Path) -> None:
    assert catalog_price("H200", cloud="y", file=catalog).mid == 6.0


def test_a_figure_is_a_price() -> None:
    assert gpu_price("2.5").mid == 2.5


@pytest.mark.parametrize(
    ("name", "cloud", "words"),
    [("H2000", "", "no offer has H2000"), ("H200", "z", "z offers no H200")],
)
def test_an_unknown_accelerator_or_cloud_is_said(
    name: str, cloud: str, words: str, catalog: Path
) -> None:
    with pytest.raises(StewardError, match=words):
        catalog_price(name, cloud=cloud, file=catalog)


@pytest.mark.parametrize("text", ["-1", "nan", "inf"])
def test_a_figure_that_is_no_price_is_said(text: str) -> None:
    with pytest.raises(StewardError, match="is no price"):
        gpu_price(text)


def test_a_missing_catalogue_is_said(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="there is no catalogue"):
        catalog_price("H200", file=tmp_path / "none.csv")

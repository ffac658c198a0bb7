"""Ways to run a job, from models and from jobs like it."""

from __future__ import annotations

from math import inf, nan

import pytest

from plans import HOUR_S, accelerator, catalog_of, queue, site
from steward.errors import StewardError
from steward.learn.estimators.model_graphs.question import ModelQuestion
from steward.model.forecast import Forecast
from steward.model.planning.catalog import Catalog
from steward.planning.ways import ModelWork, ways_from_forecasts, ways_of_model

GPT2 = ModelQuestion(model="gpt2", batch=8)


def work(**but: object) -> ModelWork:
    facts: dict[str, object] = {
        "question": GPT2,
        "items": 100_000.0,
        "batches": (8,),
        "gpus": (1,),
    }
    return ModelWork(**(facts | but))  # type: ignore[arg-type]


def h200_sites() -> Catalog:
    queues = (queue("h200", gpu_model="NVIDIA-H200"), queue("old", gpu_model="K80"), queue("cpu"))
    known = accelerator("H200", memory_bytes=141 * 10**9, aliases=("NVIDIA-H200",))
    return Catalog(sites=(site("here", *queues),), accelerators=(known,))


def test_a_model_has_a_way_for_each_batch_and_count_on_gpus_that_are_known() -> None:
    ways, notes = ways_of_model(work(batches=(8, 16), gpus=(1, 4)), h200_sites(), None)

    known = [each for each in ways if each.gpu_model == "H200"]
    assert [(each.batch, each.gpus) for each in known] == [(8, 1), (8, 4), (16, 1), (16, 4)]
    assert not [each for each in ways if each.gpu_model == "K80"]
    one, four, *_ = known
    assert one.run_s.mid / 4 < four.run_s.mid < one.run_s.mid / 2.5
    assert four.run_s.low < four.run_s.mid < four.run_s.high
    assert "12,500 steps of gpt2" in one.basis
    assert "3,125 steps of gpt2" in four.basis
    assert one.gpu_memory_bytes > 0
    assert 100 < one.watts.mid < 800
    assert any("torch" in each for each in notes)


def test_only_the_gpus_that_are_asked_are_estimated() -> None:
    none, _ = ways_of_model(work(gpu_models=("T4",)), h200_sites(), None)
    some, _ = ways_of_model(work(gpu_models=("h200", "T4")), h200_sites(), None)

    assert none == ()
    assert {each.gpu_model for each in some} == {"H200"}


def test_notes_that_hold_for_many_gpus_are_said_once() -> None:
    models = ("T4", "L4", "A10", "A40", "L40S", "H100")
    catalog = Catalog(sites=(site("s", *(queue(each, gpu_model=each) for each in models)),))

    _, notes = ways_of_model(work(), catalog, None)

    (torch,) = [each for each in notes if "torch" in each]
    assert torch.startswith("A10, A40, H100, L4 and 2 more: ")
    assert not [each for each in notes if ": it: " in each]


def test_a_gpu_that_no_estimator_knows_gives_no_way() -> None:
    catalog = catalog_of(site("here", queue(gpu_model="Abacus 1")))

    ways, _ = ways_of_model(work(), catalog, None)

    assert ways == ()


@pytest.mark.parametrize(
    "but",
    [
        {"items": 0.0},
        {"items": nan},
        {"items": inf},
        {"batches": ()},
        {"gpus": (0,)},
    ],
)
def test_no_work_is_refused(but: dict[str, object]) -> None:
    with pytest.raises(StewardError, match=r"gpt2: .* items"):
        work(**but)


def test_forecasts_of_four_of_five_cases_become_wider() -> None:
    forecast = Forecast(
        subject="job", quantity="run.left_s", low=HOUR_S, mid=2 * HOUR_S, high=4 * HOUR_S, basis="b"
    )
    nothing = Forecast(subject="job", quantity="run.left_s", low=0, mid=0, high=0, basis="b")

    found = ways_from_forecasts(
        [forecast, nothing], gpu_model="A100", gpus=2, catalog=catalog_of(site("here"))
    )

    (only,) = found
    assert (only.gpu_model, only.gpus, only.basis) == ("A100", 2, "b")
    assert only.run_s.low < HOUR_S
    assert only.run_s.mid == 2 * HOUR_S
    assert only.run_s.high == pytest.approx(2 * HOUR_S * 2**1.2835, rel=1e-3)
    (cpu,) = ways_from_forecasts([forecast], gpu_model="", gpus=0, catalog=Catalog())
    assert cpu.gpu_model == ""
    assert cpu.watts.high == 0.0

from typing import Any

from steward.decide.scheduling.elastic.interface import ElasticView
from steward.decide.scheduling.elastic.sia import Sia
from tiny_profiles import MODEL, held, job, moment

FAST = MODEL._replace(step=MODEL.step._replace(grad_s=0.025, grad_s_per_sample=0.0025))


def mixed(*jobs: Any) -> ElasticView:
    return moment(*jobs, node_gpus=(4, 4), node_type=(0, 1), types=2)


def typed(row: int, **changed: Any) -> Any:
    values = {"models": (MODEL, FAST), "samples_per_s": (1.0, 4.0), "max_replicas": 4}
    return job(row, **(values | changed))


def test_a_job_that_never_ran_begins_with_one_gpu() -> None:
    placed = Sia().decide(mixed(typed(0, models=(None, None)))).placements

    assert len(placed[0]) == 1


def test_no_gpu_is_idle_while_a_job_waits() -> None:
    placed = Sia().decide(mixed(*(typed(row) for row in range(12)))).placements

    assert held(placed) == {0: 4, 1: 4}


def test_with_room_for_all_everyone_runs() -> None:
    placed = Sia().decide(mixed(*(typed(row, models=(None, None)) for row in range(8)))).placements

    assert sorted(placed) == list(range(8))


def test_the_faster_type_goes_first() -> None:
    placed = Sia().decide(mixed(typed(0, max_replicas=1))).placements

    assert placed == {0: (1,)}


def test_the_speed_on_an_unknown_type_is_taken_from_a_known_one() -> None:
    slow, fast = typed(0, models=(MODEL, None)), typed(1, models=(None, MODEL))
    fast_first = {"samples_per_s": (4.0, 1.0)}

    assert Sia().decide(mixed(slow)).placements == {0: (1, 1, 1, 1)}
    turned = Sia().decide(mixed(typed(1, models=(None, MODEL), **fast_first))).placements
    assert turned == {1: (0, 0, 0, 0)}
    assert set(Sia().decide(mixed(fast)).placements[1]) == {1}


def test_a_job_that_restarts_just_now_stays() -> None:
    busy = typed(0, placement=(0,), restarting=True)

    assert Sia().decide(mixed(busy)).placements == {0: (0,)}


def test_a_change_must_be_worth_its_restart() -> None:
    weary = typed(0, placement=(0, 0), restarts=18, age_s=600.0)
    young = typed(0, placement=(0, 0), restarts=0, age_s=10.0)

    assert Sia().decide(mixed(weary)).placements == {0: (0, 0)}
    assert Sia().decide(mixed(young)).placements == {0: (1, 1, 1, 1)}


def test_a_type_whose_nodes_are_all_down_is_left_alone() -> None:
    seen = moment(typed(0), node_gpus=(4, 0), node_type=(0, 1), types=2)

    assert set(Sia().decide(seen).placements[0]) == {0}


def test_nobody_there_is_nobody_placed() -> None:
    assert Sia().decide(mixed()).placements == {}

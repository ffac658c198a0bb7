from steward.decide.scheduling.elastic.optimus import Optimus
from tiny_profiles import job, moment

HALVING = (0.0, 8.0, 4.0, 2.0, 1.0)


def sizes(choice_placements: object) -> dict[int, int]:
    return {row: len(nodes) for row, nodes in choice_placements.items()}  # type: ignore[attr-defined]


def test_the_next_gpu_goes_where_it_saves_the_most_time() -> None:
    seen = moment(
        job(0, step_s=HALVING, steps_left=10.0),
        job(1, step_s=HALVING, steps_left=100.0),
        node_gpus=(4,),
    )

    assert sizes(Optimus().decide(seen).placements) == {0: 1, 1: 3}


def test_nobody_grows_beyond_its_table_or_where_more_gpus_slow_it_down() -> None:
    seen = moment(
        job(0, step_s=(0.0, 5.0, 3.0), steps_left=10.0),
        job(1, step_s=(0.0, 1.0, 1.5), steps_left=10.0),
    )

    assert sizes(Optimus().decide(seen).placements) == {0: 2, 1: 1}


def test_with_more_jobs_than_gpus_the_first_have_one_each() -> None:
    seen = moment(*(job(row, step_s=HALVING, steps_left=5.0) for row in range(3)), node_gpus=(2,))

    assert sizes(Optimus().decide(seen).placements) == {0: 1, 1: 1}


def test_ties_go_to_the_job_that_came_first() -> None:
    seen = moment(*(job(row, step_s=HALVING, steps_left=5.0) for row in (7, 2)), node_gpus=(3,))

    assert sizes(Optimus().decide(seen).placements) == {7: 2, 2: 1}


def test_who_keeps_the_size_keeps_the_place_and_the_others_go_smallest_first() -> None:
    stays = job(0, step_s=(0.0, 1.0), steps_left=1.0, placement=(1,))
    grows = job(1, step_s=HALVING, steps_left=9.0, placement=(0,))

    choice = Optimus().decide(moment(stays, grows, job(2, step_s=(0.0, 1.0), steps_left=1.0)))

    assert choice.placements == {0: (1,), 2: (0,), 1: (0, 0, 0, 1)}

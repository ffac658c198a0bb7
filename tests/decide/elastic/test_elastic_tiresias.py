from steward.decide.scheduling.elastic.elastic_tiresias import ElasticTiresias
from tiny_profiles import job, moment


def test_jobs_are_served_in_order_of_arrival_and_those_that_do_not_fit_are_skipped() -> None:
    seen = moment(job(0, replicas=6), job(1, replicas=4), job(2, replicas=2))

    choice = ElasticTiresias().decide(seen)

    assert choice.placements == {0: (0, 0, 0, 0, 1, 1), 2: (1, 1)}


def test_a_job_past_the_threshold_waits_behind_the_young() -> None:
    old = job(0, replicas=8, attained_gpu_s=57_600.0, placement=(0,) * 4 + (1,) * 4)

    choice = ElasticTiresias().decide(moment(old, job(1, replicas=2)))

    assert choice.placements == {1: (0, 0)}
    assert choice.memory == (0,)


def test_past_the_threshold_who_passed_it_first_is_served_first() -> None:
    first, second = (job(row, replicas=8, attained_gpu_s=6e4) for row in (5, 3))

    choice = ElasticTiresias().decide(moment(second, first, memory=(5, 9)))

    assert list(choice.placements) == [5]
    assert choice.memory == (5, 3)


def test_who_stays_is_not_moved_and_the_freest_node_is_filled_first() -> None:
    stays = job(0, replicas=1, placement=(0,))

    choice = ElasticTiresias().decide(moment(stays, job(1, replicas=5)))

    assert choice.placements == {0: (0,), 1: (1, 1, 1, 1, 0)}


def test_nobody_there_is_nobody_placed() -> None:
    assert ElasticTiresias().decide(moment()).placements == {}

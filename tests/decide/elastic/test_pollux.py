from hypothesis import given
from hypothesis import strategies as st

from steward.decide.scheduling.elastic.pollux import Pollux
from tiny_profiles import MODEL, held, job, moment


def test_a_lone_job_may_double_what_it_had() -> None:
    seen = moment(job(0, models=(MODEL,), max_replicas=4, placement=(0, 0), age_s=6000.0))

    assert len(Pollux().decide(seen).placements[0]) == 4


def test_nothing_is_kept_back_while_jobs_wait() -> None:
    seen = moment(*(job(row, models=(None,)) for row in range(8)))

    placed = Pollux().decide(seen).placements

    assert sorted(placed) == list(range(8))
    assert held(placed) == {0: 4, 1: 4}


def test_a_job_that_just_restarted_often_is_left_where_it_is() -> None:
    weary = job(0, models=(MODEL,), max_replicas=8, placement=(1, 1), restarts=18, age_s=600.0)
    fresh = job(0, models=(MODEL,), max_replicas=8, placement=(1, 1), restarts=0, age_s=60_000.0)

    assert Pollux().decide(moment(weary)).placements == {0: (1, 1)}
    assert len(Pollux().decide(moment(fresh)).placements[0]) > 2


def test_gpus_go_to_the_job_that_scales_better() -> None:
    alike = {"max_replicas": 8, "age_s": 1e6}
    slow_links = MODEL._replace(step=MODEL.step._replace(inside_s=2.0, across_s=5.0))
    scales, does_not = job(0, models=(MODEL,), **alike), job(1, models=(slow_links,), **alike)

    placed = Pollux().decide(moment(scales, does_not)).placements

    assert len(placed[0]) > len(placed[1])


@given(
    nodes=st.integers(1, 4),
    jobs=st.lists(st.tuples(st.booleans(), st.integers(1, 16), st.floats(0, 1e5)), max_size=10),
)
def test_no_gpu_is_given_twice_and_two_jobs_over_nodes_never_share_one(
    nodes: int, jobs: list[tuple[bool, int, float]]
) -> None:
    seen = moment(
        *(
            job(row, models=(MODEL if known else None,), max_replicas=most, age_s=age_s)
            for row, (known, most, age_s) in enumerate(jobs)
        ),
        node_gpus=(4,) * nodes,
    )

    placed = Pollux().decide(seen).placements

    wide = [set(where) for where in placed.values() if len(set(where)) > 1]
    assert all(count <= 4 for count in held(placed).values())
    assert sum(map(len, wide)) == len(set().union(*wide))
    assert all(len(placed[row]) <= jobs[row][1] for row in placed)

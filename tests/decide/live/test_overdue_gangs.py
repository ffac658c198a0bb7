"""Gangs that have waited too long, on live views: served, or a node is kept for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from decide.live.queues import believing_jobs, sharing, starts, stops, waiting
from factories import job, node, view
from steward.decide.scheduling.tenant_sharing.commons import Commons
from steward.model.job import Checkpointing, Job, JobState, Tenant
from steward.model.view import ClusterView

NEVER = Commons()
TURNS = Commons(gang_wait_s=3600.0)
OWED = sharing(a=4, b=4)
LONG_AGO_S = -90_000.0
UNABLE = Checkpointing()


def runs(name: str, where: str, *, of: str = "a", **changes: Any) -> Job:
    """Return a job that has run for a day on these GPUs, as `n1/0 n1/1`."""
    gpus = [each.replace("/", "/gpu") for each in where.split()]
    return job(name, on=gpus, tenant=of, **{"start_s": LONG_AGO_S, **changes})


def gang(since_s: float = 0.0, **changes: Any) -> Job:
    return waiting("gang", 4, since_s=since_s, tenant="b", **changes)


def seen_at(t_s: float, *jobs: Job, of: tuple[Tenant, ...] = OWED) -> ClusterView:
    """Return two nodes of four GPUs on which all jobs rank better than the gang."""
    seen = view(node("n1", 4), node("n2", 4), jobs=jobs, of=of, t_s=t_s)
    return believing_jobs(
        seen, rank_s={each.id: 9e6 if each.id == "gang" else 1e3 for each in jobs}
    )


def narrow(of: str = "a", **changes: Any) -> list[Job]:
    """Return a job of one GPU for each of both nodes' GPUs."""
    return [runs(f"{of}{n}{i}", f"n{n}/{i}", of=of, **changes) for n in (1, 2) for i in range(4)]


# -- it is served ----------------------------------------------------------------------------------


def test_a_gang_that_has_waited_long_enough_gets_a_node_whatever_its_rank() -> None:
    jobs = (*narrow("b"), gang())

    early = TURNS.decide(seen_at(3599.0, *jobs))
    late = TURNS.decide(seen_at(3600.0, *jobs))

    assert early == ()
    assert starts(late) == ["gang"]
    assert len({each[1] for each in stops(late)}) == 1  # all of one node
    assert len(stops(late)) == 4
    assert NEVER.decide(seen_at(1e6, *jobs)) == ()
    assert "after 60 min a job of several GPUs goes before better ranks" in late[-1].because


def test_only_as_many_jobs_stop_as_it_takes() -> None:
    small = waiting("gang", 2, tenant="b")

    made = TURNS.decide(seen_at(4000.0, *narrow("b"), small))

    assert (len(stops(made)), starts(made)) == (2, ["gang"])


def test_the_gang_that_has_waited_longest_is_served_and_only_one() -> None:
    first, second = gang(10.0), replace(gang(0.0), id="older")
    seen = believing_jobs(
        view(
            node("n1", 4),
            node("n2", 4),
            jobs=(*narrow("b"), first, second),
            of=sharing(a=0, b=8),
            t_s=9000.0,
        ),
        rank_s={each.id: 1e3 for each in narrow("b")} | {"gang": 9e6, "older": 9e6},
    )

    assert starts(TURNS.decide(seen)) == ["older"]


def test_where_its_gpus_are_free_nobody_stops_and_others_start_beside_it() -> None:
    jobs = [each for each in narrow("a") if each.id.startswith("a1")]
    others = [waiting(f"w{i}", tenant="b", since_s=5.0) for i in range(2)]

    made = TURNS.decide(seen_at(9000.0, *jobs[:2], *others, gang()))

    assert stops(made) == []
    assert set(starts(made)) == {"gang", "w0", "w1"}


def test_a_gang_wider_than_a_node_clears_as_many_as_it_takes() -> None:
    wide = waiting("gang", 6, tenant="b")

    made = TURNS.decide(seen_at(9000.0, *narrow("b"), wide, of=sharing(a=0, b=8)))

    assert starts(made) == ["gang"]
    assert 6 <= len(stops(made)) <= 8


def test_where_gpus_are_only_counted_the_worst_ranks_make_room() -> None:
    policy = Commons(placement="count", gang_wait_s=3600.0)

    made = policy.decide(seen_at(9000.0, *narrow("b"), gang()))

    assert (len(stops(made)), starts(made)) == (4, ["gang"])


# -- guarantees and jobs that must go on -----------------------------------------------------------


def test_what_others_are_guaranteed_is_not_taken() -> None:
    assert TURNS.decide(seen_at(1e6, *narrow("a"), gang(), of=sharing(a=8, b=0))) == ()


def test_its_own_guarantee_is_for_the_gang_before_its_tenants_jobs_that_cannot_be_stopped() -> None:
    stays = [runs(f"b2{i}", f"n2/{i}", of="b", checkpointing=UNABLE) for i in range(4)]
    jobs = [each for each in narrow("a") if each.id.startswith("a1")]

    made = TURNS.decide(seen_at(9000.0, *jobs, *stays, gang(), of=sharing(a=0, b=4)))

    assert (sorted(stops(made)), starts(made)) == (["a10", "a11", "a12", "a13"], ["gang"])


def test_what_has_not_had_its_turn_is_not_stopped_for_another_gang() -> None:
    served = job("served", on=[f"n1/gpu{i}" for i in range(4)], tenant="b", submit_s=-9000.0)
    served = replace(
        served.changed(-9000.0, JobState.QUEUED, "").changed(0.0, JobState.RUNNING, ""),
        start_s=0.0,
    )
    stays = [runs(f"b2{i}", f"n2/{i}", of="b", checkpointing=UNABLE) for i in range(4)]
    both = sharing(a=0, b=8)

    longer = gang(-9000.0)

    assert TURNS.decide(seen_at(3500.0, served, *stays, longer, of=both)) == ()
    assert stops(TURNS.decide(seen_at(3600.0, served, *stays, longer, of=both))) == ["served"]


# -- a node is kept --------------------------------------------------------------------------------


def kept_first(*more: Job) -> ClusterView:
    """Return nodes that each have a job which cannot be stopped; that of n1 ends first."""
    soon = runs("soon", "n1/0", of="b", checkpointing=UNABLE, time_limit_s=1e5)
    late = runs("late", "n2/0", of="b", checkpointing=UNABLE, time_limit_s=1e7)
    others = [runs(f"b{i}", f"n1/{i}", of="b") for i in (1, 2)]
    others += [runs(f"c{i}", f"n2/{i}", of="b") for i in (1, 2, 3)]
    return seen_at(9000.0, soon, late, *others, gang(), *more, of=sharing(a=0, b=8))


def test_on_a_kept_node_only_jobs_start_that_can_be_stopped_or_end_in_time() -> None:
    saves = waiting("new", tenant="b", since_s=8000.0)
    stays = replace(saves, checkpointing=UNABLE)
    in_time = replace(stays, time_limit_s=60.0)

    assert starts(TURNS.decide(kept_first(saves))) == ["new"]
    assert starts(TURNS.decide(kept_first(in_time))) == ["new"]
    assert starts(TURNS.decide(kept_first(stays))) == []
    assert starts(NEVER.decide(kept_first(stays))) == ["new"]


def test_a_job_that_cannot_end_in_time_starts_on_another_node() -> None:
    stays = waiting("new", tenant="b", since_s=8000.0, checkpointing=UNABLE)
    seen = kept_first(stays)
    room = [each for each in seen.details.values() if each.id != "c3"]

    made = TURNS.decide(seen_at(9000.0, *room, of=sharing(a=0, b=8)))

    assert [each.action.gpus for each in made] == [("n2/gpu3",)]

"""The packing experiment: jobs arrive, never leave, and some no longer fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steward.decide.placement import TieBreak
from steward.errors import StewardError
from steward.model.machines import Machines, machines_of
from steward.model.trace import Trace, trace_of
from steward.sim.lab.packing import AS_PUBLISHED, PackingRun, Rounding, pack
from steward.sim.traces import read_nodes, read_pods


def jobs(*gpus: float) -> Trace:
    n = len(gpus)
    return trace_of("list", submit_s=np.zeros(n), duration_s=np.ones(n), gpus=gpus, cpus=np.ones(n))


def cluster(gpus: int = 64) -> Machines:
    plain = machines_of(gpus, gpus_per_node=4)
    return replace(plain, cpus=np.full(len(plain), 32.0))


MIXED = jobs(*[0.5] * 12, *[0.3] * 10, *[1.0] * 20, *[2.0] * 4, *[4.0] * 3, 0.0)


def test_all_is_given_away_when_everything_fits_together() -> None:
    run = pack(jobs(*[0.5] * 10), cluster(), "fgd", load=1.0)

    assert run.final_allocated_share == pytest.approx(1.0, abs=0.01)
    assert run.refused == 0
    assert run.final_fragmented_share == pytest.approx(0.0, abs=0.01)


def test_an_overloaded_cluster_refuses_jobs_and_never_gives_away_more_than_it_has() -> None:
    run = pack(MIXED, cluster(), "fgd", load=1.3)

    given = run.allocated_share[~np.isnan(run.allocated_share)]
    assert run.refused > 0
    assert (np.diff(given) >= 0).all()
    assert 0.9 < run.final_allocated_share <= 1.0
    assert run.load_share[-1] == pytest.approx(1.3)
    assert run.final_allocated_share + run.final_fragmented_share <= 1.0 + 1e-9


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    first, again, other = (pack(MIXED, cluster(), "random", seed=s) for s in (1, 1, 2))

    assert np.array_equal(first.allocated_share, again.allocated_share, equal_nan=True)
    assert not np.array_equal(first.allocated_share, other.allocated_share, equal_nan=True)


def test_a_list_that_is_too_long_is_cut_to_the_load() -> None:
    run = pack(jobs(*[1.0] * 1000), cluster(), "packed", load=0.5)

    assert (run.placed, run.refused) == (32, 0)


def test_gangs_wider_than_a_node_are_split() -> None:
    run = pack(jobs(8.0, 8.0), cluster(16), "fgd", load=1.0)

    assert (run.placed, run.refused) == (2, 0)


def test_fgd_gives_away_more_than_choosing_at_random() -> None:
    def mean(runs: list[PackingRun]) -> float:
        return float(np.mean([run.final_allocated_share for run in runs]))

    guided = [pack(MIXED, cluster(256), "fgd", seed=s) for s in range(3)]
    drawn = [pack(MIXED, cluster(256), "random", seed=s) for s in range(3)]

    assert mean(guided) > mean(drawn)


def test_an_unknown_placement_is_told_with_the_known_ones() -> None:
    with pytest.raises(StewardError) as fault:
        pack(MIXED, cluster(), "tight")

    assert "tight" in fault.value.problem
    assert "best-fit" in str(fault.value.hint)


def test_a_list_without_gpus_is_refused() -> None:
    with pytest.raises(StewardError, match="no job of this list asks for a GPU"):
        pack(jobs(0.0, 0.0), cluster(), "fgd")


@pytest.mark.data
def test_packing_of_the_published_list_agrees_with_the_published_runs() -> None:
    pods, machines = read_pods("alibaba_openb/default"), read_nodes("alibaba_openb")

    def mean(placement: str, rounding: Rounding | None = None) -> tuple[float, float]:
        runs = [pack(pods, machines, placement, seed=s, rounding=rounding) for s in (42, 43, 44)]
        shares = [(run.final_allocated_share, run.final_fragmented_share) for run in runs]
        allocated, fragmented = 100 * np.mean(shares, axis=0)
        return float(allocated), float(fragmented)

    assert mean("fgd", AS_PUBLISHED) == pytest.approx((95.39, 4.57), abs=0.5)
    assert mean("fgd") == pytest.approx((95.39, 4.57), abs=0.5)
    assert mean("best-fit") == pytest.approx((93.08, 6.85), abs=0.5)
    assert mean("random") == pytest.approx((87.47, 12.43), abs=1.0)
    assert mean("fgd", Rounding(ties=TieBreak.RANDOM))[0] < 92.0

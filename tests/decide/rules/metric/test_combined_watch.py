"""A local and a remote watch of one term: reports of both."""

from __future__ import annotations

from decide.rules.metric.frames import watch
from factories import samples
from steward.decide.rules.metric import CombinedWatch, KeyIndex, MetricWatch, sort_frame

NS = 10**9
IDLE = {"gpu.busy_share": 0.0}


def test_here_reads_samples_and_there_only_hears_the_time() -> None:
    here, there = watch(), watch()
    both = CombinedWatch(here, there, again=watch)

    (item,) = both.add(sort_frame(samples(1000.0, {"n1/gpu0": IDLE})))

    assert item.entity == "n1/gpu0"
    assert both.holding() == {"n1/gpu0"}
    assert here.holding() == {"n1/gpu0"}
    assert there.holding() == frozenset()
    assert both.metrics == here.metrics


def test_what_is_over_in_either_place_is_told_to_be_over() -> None:
    here, there = watch(), watch()
    both = CombinedWatch(here, there, again=watch)
    here.add(sort_frame(samples(1000.0, {"n1/gpu0": IDLE})))
    there.add(sort_frame(samples(1000.0, {"n9/gpu0": IDLE})))

    both.tick(2000 * NS)

    assert {each.item.entity for each in both.ended} == {"n1/gpu0", "n9/gpu0"}


def test_the_end_is_for_both_and_what_went_wrong_is_counted_for_both() -> None:
    here, there = watch(), watch()
    here.counts.failed, here.counts.problem = 2, "many to many"
    there.counts.failed, there.counts.evicted, there.counts.problem = 3, 4, "cannot be reached"
    both = CombinedWatch(here, there, again=watch)

    assert both.finish() == []
    assert (both.counts.failed, both.counts.evicted) == (5, 4)
    assert both.counts.problem == "many to many; cannot be reached"
    assert both.fresh().counts.failed == 0


def test_a_term_that_cannot_be_looked_at_here_wants_no_samples() -> None:
    both = CombinedWatch(None, watch(), again=watch)

    assert both.metrics == frozenset()
    assert both.add(sort_frame(samples(1000.0, {"n1/gpu0": IDLE}))) == []
    assert both.ended == []


def test_a_watch_knows_the_nodes_that_spoke_lately() -> None:
    here = watch()
    here.add(sort_frame(samples(1000.0, {"n1/gpu0": IDLE, "job:7": IDLE})))
    here.add(sort_frame(samples(1100.0, {"n2/gpu0": IDLE})))

    assert here.reporting_nodes(900 * NS) == {"n1", "n2"}
    assert here.reporting_nodes(1050 * NS) == {"n2"}


def test_only_what_is_seen_here_shares_its_samples_with_other_terms() -> None:
    keys = KeyIndex()
    CombinedWatch(watch(), watch(), again=watch).share(keys)

    assert len(keys.buffers) == 1
    CombinedWatch(None, watch(), again=watch).share(other := KeyIndex())
    assert not other.buffers


def test_a_watch_without_samples_of_its_own_shares_none() -> None:
    here = watch()
    remote = MetricWatch(here.term, here._evaluation, metrics=(), counts=here.counts, again=watch)

    remote.share(keys := KeyIndex())

    assert not keys.buffers
    assert remote.reporting_nodes(0) == frozenset()

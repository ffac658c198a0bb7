"""Metric terms in the loop with a Prometheus that answers later, badly, or not at all."""

from __future__ import annotations

import pytest

from factories import samples
from steward.clients.prometheus import QuerySeries
from steward.clients.query_worker import QueryWorker, RangeQuery
from steward.decide.rules.metric import TermWatch, sort_frame
from steward.errors import StewardError
from steward.inspection.series.prometheus_fallback import MOST_STEPS, compile_with_fallback
from steward.model.rules import Item, MetricTerm

HOT = MetricTerm(expr="gpu_temperature_celsius > 90", for_s=30.0)
NS = 10**9
T0 = 1_700_000_010


class Post(QueryWorker):
    """Keeps questions until the test answers them."""

    def __init__(self) -> None:
        self.open: list[RangeQuery] = []
        self.said: dict[RangeQuery, list[QuerySeries] | StewardError] = {}

    def submit(self, question: RangeQuery) -> None:
        self.open.append(question)

    def answer(self, question: RangeQuery) -> list[QuerySeries] | StewardError | None:
        return self.said.pop(question, None)

    def reply(self, *labels: dict[str, str], fault: StewardError | None = None) -> RangeQuery:
        """Answer the oldest question: these series hold at all its times."""
        question = self.open.pop(0)
        count = round((question.to_s - question.from_s) / question.step_s) + 1
        times = tuple(question.from_s + question.step_s * at for at in range(count))
        series = [QuerySeries(labels=each, t_s=times, values=(95.0,) * count) for each in labels]
        self.said[question] = fault or series
        return question


FAR = {"__name__": "gpu_temperature_celsius", "node": "n9", "gpu": "3"}
NEAR = {"Hostname": "n1", "gpu": "0"}


def ticks(
    watch: TermWatch, post: Post, *at_s: float, say: tuple[dict[str, str], ...]
) -> list[Item]:
    """Advance time; every query is answered before the next tick."""
    found: list[Item] = []
    for each in at_s:
        found += watch.tick(round((T0 + each) * NS))
        if post.open:
            post.reply(*say)
    return found


def test_a_node_that_is_not_seen_here_is_judged_by_what_prometheus_says() -> None:
    post = Post()
    watch = compile_with_fallback(post)(HOT)

    found = ticks(watch, post, 0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, say=(FAR,))

    assert [(each.entity, each.stream, each.metric) for each in found] == [
        ("n9/gpu3", "Prometheus", "")
    ]
    assert found[0].t_ns - found[0].since_ns == 30 * NS
    assert watch.holding() == {"n9/gpu3"}


def test_nothing_is_waited_for_and_one_question_is_open_at_a_time() -> None:
    post = Post()
    watch = compile_with_fallback(post)(HOT)

    for at_s in range(0, 300, 10):
        assert watch.tick((T0 + at_s) * NS) == []

    assert len(post.open) == 1


def test_what_is_seen_here_counts_and_what_prometheus_says_of_it_is_set_aside() -> None:
    post = Post()
    watch = compile_with_fallback(post)(HOT)
    found: list[Item] = []

    for at_s in range(0, 120, 10):
        cool = samples(T0 + at_s, {"n1/gpu0": {"gpu.temperature_celsius": 40.0}})
        found += watch.add(sort_frame(cool))
        found += ticks(watch, post, at_s, say=(NEAR, FAR))

    assert {each.entity for each in found} == {"n9/gpu3"}


def test_a_sum_of_which_a_part_is_seen_here_is_made_here() -> None:
    post = Post()
    watch = compile_with_fallback(post)(MetricTerm(expr="sum(gpu_temperature_celsius) > 90"))
    watch.add(sort_frame(samples(T0, {"n1/gpu0": {"gpu.temperature_celsius": 40.0}})))

    assert ticks(watch, post, 0.0, 10.0, 20.0, 30.0, say=({},)) == []


def test_a_node_that_fell_silent_here_is_asked_about() -> None:
    post = Post()
    watch = compile_with_fallback(post)(HOT)
    watch.add(sort_frame(samples(T0, {"n1/gpu0": {"gpu.temperature_celsius": 40.0}})))

    early = ticks(watch, post, *range(0, 200, 10), say=(NEAR,))
    later = ticks(watch, post, *range(200, 600, 10), say=(NEAR,))

    assert early == []
    assert [each.entity for each in later] == ["n1/gpu0"]


def test_while_it_fails_nothing_is_known_and_then_the_same_steps_are_asked_again() -> None:
    post = Post()
    watch = compile_with_fallback(post)(HOT)
    ticks(watch, post, 0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, say=(FAR,))
    held = watch.holding()
    watch.tick((T0 + 80) * NS)
    for at_s in range(90, 900, 10):
        if post.open:
            post.reply(fault=StewardError("cannot be reached"))
        watch.tick((T0 + at_s) * NS)
    unknown = watch.holding()
    question = post.reply(FAR)
    watch.tick((T0 + 905) * NS)

    assert held == {"n9/gpu3"}
    assert unknown == frozenset()
    assert watch.counts.failed > 10
    assert watch.counts.problem == "cannot be reached"
    asked = round((question.to_s - question.from_s) / question.step_s) + 1
    assert asked == MOST_STEPS
    assert watch.holding() == {"n9/gpu3"}


@pytest.mark.parametrize(
    "expr", ["absent_over_time(gpu_temperature_celsius[5m])", 'steward_phase{phase="compile"} > 0']
)
def test_silence_and_phases_are_known_here_alone(expr: str) -> None:
    post = Post()
    watch = compile_with_fallback(post)(MetricTerm(expr=expr))

    watch.tick(T0 * NS)

    assert post.open == []


def test_what_only_prometheus_understands_is_asked_there() -> None:
    post = Post()
    watch = compile_with_fallback(post)(MetricTerm(expr="holt_winters(x[10m], 0.5, 0.5) > 1"))

    found = ticks(watch, post, 0.0, 10.0, 20.0, say=(FAR,))

    assert [each.entity for each in found] == ["n9/gpu3"]
    assert watch.metrics == frozenset()
    assert watch.fresh().holding() == frozenset()


def test_samples_of_a_machine_whose_clock_is_ahead_move_no_question_into_the_future() -> None:
    post = Post()
    watch = compile_with_fallback(post)(HOT)

    watch.add(sort_frame(samples(T0 + 86_400, {"n1/gpu0": {"gpu.temperature_celsius": 40.0}})))
    watch.tick(T0 * NS)

    assert post.open[0].to_s <= T0

"""Metric terms that a Prometheus answers."""

from __future__ import annotations

import numpy as np
import pytest

from steward.clients.prometheus import QuerySeries
from steward.errors import StewardError, TemporaryError
from steward.inspection.series.prometheus_terms import answered_rows, prometheus_compiler
from steward.model.rules import MetricTerm

NS = 10**9


class SeriesIndex:
    """Answers as a Prometheus does: one series that holds between two times."""

    def __init__(self, labels: dict[str, str], *, from_s: float, to_s: float) -> None:
        self._labels = labels
        self._holds = (from_s, to_s)
        self.asked: list[tuple[float, float, float]] = []
        self.ill = False

    def query(self, promql: str, *, at_s: float | None = None) -> list[QuerySeries]:
        if "(" in promql:
            raise StewardError("refuses: parse error", where=promql)
        return []

    def query_range(
        self, promql: str, *, from_s: float, to_s: float, step_s: float
    ) -> list[QuerySeries]:
        if self.ill:
            raise TemporaryError("cannot be reached", where="http://p")
        self.asked.append((from_s, to_s, step_s))
        begin, end = self._holds
        count = round((to_s - from_s) / step_s) + 1
        times = [from_s + i * step_s for i in range(count)]
        held = tuple(t_s for t_s in times if begin <= t_s <= end)
        if not held:
            return []
        return [QuerySeries(labels=self._labels, t_s=held, values=(0.1,) * len(held))]


def test_it_is_told_once_when_it_has_held_for_long_enough() -> None:
    server = SeriesIndex({"__name__": "up", "node": "n1", "gpu": "0"}, from_s=1005.0, to_s=1200.0)
    watch = prometheus_compiler(server)(MetricTerm(expr="up < 1", for_s=60))

    found = watch.tick(900 * NS) + watch.tick(1100 * NS) + watch.tick(1300 * NS)

    assert [(each.entity, each.t_ns, each.since_ns) for each in found] == [
        ("n1/gpu0", 1065 * NS, 1005 * NS)
    ]
    assert server.asked == [(900.0, 900.0, 15.0), (915.0, 1095.0, 15.0), (1110.0, 1290.0, 15.0)]


def test_nothing_is_asked_before_a_step_is_over() -> None:
    server = SeriesIndex({}, from_s=0.0, to_s=0.0)
    watch = prometheus_compiler(server)(MetricTerm(expr="up < 1", interval_s=60))

    watch.tick(960 * NS)
    watch.tick(1019 * NS)

    assert watch.due_ns == 1020 * NS
    assert len(server.asked) == 1


def test_a_long_time_is_asked_for_in_parts() -> None:
    server = SeriesIndex({"instance": "n1:9100", "job": "node"}, from_s=0.0, to_s=1e12)
    watch = prometheus_compiler(server)(MetricTerm(expr="up < 1", interval_s=1))

    found = watch.tick(1000 * NS) + watch.tick(31_000 * NS)

    assert [each.entity for each in found] == ["n1"]
    assert [round(to_s - from_s) + 1 for from_s, to_s, _ in server.asked] == [1] + [10_000] * 3


def test_a_prometheus_that_cannot_be_reached_is_asked_again() -> None:
    server = SeriesIndex({"Hostname": "n1", "gpu": "1"}, from_s=1000.0, to_s=1e12)
    watch = prometheus_compiler(server)(MetricTerm(expr="up < 1"))
    watch.tick(990 * NS)

    server.ill = True
    nothing = watch.tick(1050 * NS)
    server.ill = False
    found = watch.tick(1060 * NS)

    assert nothing == []
    assert watch.counts.failed == 1
    assert "cannot be reached" in watch.counts.problem
    assert [(each.entity, each.t_ns) for each in found] == [("n1/gpu1", 1005 * NS)]


def test_series_of_one_entity_are_one() -> None:
    class Twice(SeriesIndex):
        def query_range(
            self, promql: str, *, from_s: float, to_s: float, step_s: float
        ) -> list[QuerySeries]:
            return [
                QuerySeries(labels={"node": "n1", "job": job}, t_s=(from_s,), values=(value,))
                for job, value in (("a", 1.0), ("b", 2.0))
            ]

    watch = prometheus_compiler(Twice({}, from_s=0, to_s=0))(MetricTerm(expr="up"))

    assert [(each.entity, each.value) for each in watch.tick(990 * NS)] == [("n1", 2.0)]


def test_what_is_refused_is_refused_at_once_and_a_fresh_watch_asks_anew() -> None:
    server = SeriesIndex({"node": "n1"}, from_s=1000.0, to_s=1e12)
    compiled = prometheus_compiler(server)
    watch = compiled(MetricTerm(expr="up < 1"))

    with pytest.raises(StewardError, match="parse error"):
        compiled(MetricTerm(expr="sum("))

    assert len(watch.tick(1005 * NS)) == 1
    assert len(watch.fresh().tick(1005 * NS)) == 1
    assert watch.finish() == []


def test_values_at_times_that_nobody_asked_for_are_left_out() -> None:
    said = (0.0, 100.0, 115.0, 1e300, float("nan"), float("inf"))
    answer = QuerySeries(labels={"node": "n1"}, t_s=said, values=(9.0, 1.0, 2.0, 9.0, 9.0, 9.0))
    times = np.array([100, 115], np.int64) * 10**9

    rows = answered_rows([answer], times, 15 * 10**9)

    assert rows.values.tolist() == [[1.0, 2.0]]

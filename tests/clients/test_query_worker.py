"""A Prometheus that is queried in the background: up, down, slow, refusing, malformed."""

from __future__ import annotations

import pytest

from beds.prometheus_double import prometheus_double
from patience import LONG_S, free_port, until
from steward.clients import query_worker as module
from steward.clients.prometheus import PrometheusServer, QuerySeries
from steward.clients.query_worker import QueryWorker, RangeQuery
from steward.clients.web import Endpoint
from steward.errors import StewardError


def queried(expr: str = "up < 1") -> RangeQuery:
    return RangeQuery(expr=expr, from_s=60.0, to_s=75.0, step_s=15.0)


def started_worker(url: str) -> QueryWorker:
    return QueryWorker(PrometheusServer(Endpoint(url=url, timeout_s=LONG_S)))


def answered(questions: QueryWorker, question: RangeQuery) -> list[QuerySeries] | StewardError:
    found: list[list[QuerySeries] | StewardError] = []

    def came() -> bool:
        answer = questions.answer(question)
        found.extend([] if answer is None else [answer])
        return bool(found)

    until(came, why="an answer")
    return found[0]


def test_an_answer_is_found_later_and_once() -> None:
    with prometheus_double() as double:
        double.series = [{"node": "n7"}]
        questions = started_worker(double.url)
        questions.submit(queried())
        answer = answered(questions, queried())
        questions.close()

    assert answer == [QuerySeries(labels={"node": "n7"}, t_s=(60.0, 75.0), values=(95.0, 95.0))]
    assert questions.answer(queried()) is None
    assert (questions.troubles, questions.news(1.0)) == ((), ())


def test_a_server_that_hangs_blocks_no_caller_and_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with prometheus_double() as double:
        double.go_on.clear()
        questions = started_worker(double.url)
        questions.submit(queried())
        until(lambda: double.asked)
        before = questions.news(1.0)
        monkeypatch.setattr(module, "SLOW_S", 0.0)
        (reported,) = questions.news(2.0)
        again = questions.news(3.0)
        double.go_on.set()
        answered(questions, queried())
        (works,) = questions.news(4.0)
        questions.close()

    assert (before, again) == ((), ())
    assert (reported.kind, reported.subject) == ("rules.prometheus-failed", double.url)
    assert "has not answered" in reported.text
    assert works.kind == "rules.prometheus-works-again"


def test_one_that_is_down_fails_all_that_wait_with_one_try_and_is_reported_once() -> None:
    port = free_port()
    questions = started_worker(f"http://127.0.0.1:{port}")
    all_ = [queried(f"up < {number}") for number in range(50)]
    for each in all_:
        questions.submit(each)

    answers = [answered(questions, each) for each in all_]
    reported = [questions.news(1.0), questions.news(2.0)]
    with prometheus_double(port):
        for each in all_:
            questions.submit(each)
        later = [answered(questions, each) for each in all_]
        (works,) = questions.news(3.0)
    questions.close()

    assert all("cannot be reached" in str(each) for each in answers)
    assert [len(each) for each in reported] == [1, 0]
    assert later == [[]] * 50
    assert works.text == "it answers again"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<html>Welcome</html>", "not as a Prometheus"),
        (b"[]", "not as a Prometheus"),
        (b'{"status": "success", "data": {"resultType": "matrix", "result": [7]}}', "malformed"),
        (b'{"status": "success", "data": {"resultType": "string"}}', "of kind 'string'"),
        (b'{"status": "error", "error": "parse error: unexpected end"}', "refuses: parse error"),
    ],
)
def test_nonsense_and_refusals_are_reported_once_and_others_are_still_queried(
    body: bytes, expected: str
) -> None:
    with prometheus_double() as double:
        double.body = body
        questions = started_worker(double.url)
        for number in range(2):
            questions.submit(queried(f"up < {number}"))
        answers = [answered(questions, queried(f"up < {number}")) for number in range(2)]
        reported = questions.news(1.0)
        questions.close()

    assert all(expected in str(each) for each in answers)
    assert double.asked == ["up < 0", "up < 1"]
    assert any(expected in each.text for each in reported)
    assert questions.news(2.0) == ()


def test_a_fault_of_ours_does_not_end_the_thread() -> None:
    class Torn:
        url = "http://p"

        def query_range(self, promql: str, **_rest: float) -> list[QuerySeries]:
            if promql == "bad":
                raise ZeroDivisionError
            return []

    questions = QueryWorker(Torn())
    questions.submit(queried("bad"))
    questions.submit(queried("good"))

    assert "ZeroDivisionError" in str(answered(questions, queried("bad")))
    assert answered(questions, queried("good")) == []
    questions.close()


def test_the_end_is_received_while_the_server_is_down() -> None:
    questions = started_worker(f"http://127.0.0.1:{free_port()}")
    questions.submit(queried())
    questions.close()
    answered(questions, queried())

    until(lambda: questions._thread is not None and not questions._thread.is_alive())

"""A Prometheus that is asked beside the loop: up, down, slow, refusing, talking nonsense."""

from __future__ import annotations

import pytest

from beds.prometheus_double import prometheus_double
from patience import LONG_S, free_port, until
from steward.clients import query_worker as module
from steward.clients.prometheus import PrometheusServer, QuerySeries
from steward.clients.query_worker import QueryWorker, RangeQuery
from steward.clients.web import Endpoint
from steward.errors import StewardError


def asked(expr: str = "up < 1") -> RangeQuery:
    return RangeQuery(expr=expr, from_s=60.0, to_s=75.0, step_s=15.0)


def asking(url: str) -> QueryWorker:
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
        questions = asking(double.url)
        questions.ask(asked())
        answer = answered(questions, asked())
        questions.close()

    assert answer == [QuerySeries(labels={"node": "n7"}, t_s=(60.0, 75.0), values=(95.0, 95.0))]
    assert questions.answer(asked()) is None
    assert (questions.troubles, questions.news(1.0)) == ((), ())


def test_who_asks_a_server_that_hangs_goes_on_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with prometheus_double() as double:
        double.go_on.clear()
        questions = asking(double.url)
        questions.ask(asked())
        until(lambda: double.asked)
        before = questions.news(1.0)
        monkeypatch.setattr(module, "SLOW_S", 0.0)
        (told,) = questions.news(2.0)
        again = questions.news(3.0)
        double.go_on.set()
        answered(questions, asked())
        (works,) = questions.news(4.0)
        questions.close()

    assert (before, again) == ((), ())
    assert (told.kind, told.subject) == ("rules.prometheus-failed", double.url)
    assert "has not answered" in told.text
    assert works.kind == "rules.prometheus-works-again"


def test_one_that_is_down_fails_all_that_wait_with_one_try_and_is_told_once() -> None:
    port = free_port()
    questions = asking(f"http://127.0.0.1:{port}")
    all_ = [asked(f"up < {number}") for number in range(50)]
    for each in all_:
        questions.ask(each)

    answers = [answered(questions, each) for each in all_]
    told = [questions.news(1.0), questions.news(2.0)]
    with prometheus_double(port):
        for each in all_:
            questions.ask(each)
        later = [answered(questions, each) for each in all_]
        (works,) = questions.news(3.0)
    questions.close()

    assert all("cannot be reached" in str(each) for each in answers)
    assert [len(each) for each in told] == [1, 0]
    assert later == [[]] * 50
    assert works.text == "it answers again"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html>Welcome</html>", "not as a Prometheus"),
        (b"[]", "not as a Prometheus"),
        (b'{"status": "success", "data": {"resultType": "matrix", "result": [7]}}', "malformed"),
        (b'{"status": "success", "data": {"resultType": "string"}}', "of kind 'string'"),
        (b'{"status": "error", "error": "parse error: unexpected end"}', "refuses: parse error"),
    ],
)
def test_nonsense_and_refusals_are_told_once_and_others_are_still_asked(
    body: bytes, says: str
) -> None:
    with prometheus_double() as double:
        double.body = body
        questions = asking(double.url)
        for number in range(2):
            questions.ask(asked(f"up < {number}"))
        answers = [answered(questions, asked(f"up < {number}")) for number in range(2)]
        told = questions.news(1.0)
        questions.close()

    assert all(says in str(each) for each in answers)
    assert double.asked == ["up < 0", "up < 1"]
    assert any(says in each.text for each in told)
    assert questions.news(2.0) == ()


def test_a_fault_of_ours_does_not_end_the_thread() -> None:
    class Torn:
        url = "http://p"

        def query_range(self, promql: str, **_rest: float) -> list[QuerySeries]:
            if promql == "bad":
                raise ZeroDivisionError
            return []

    questions = QueryWorker(Torn())
    questions.ask(asked("bad"))
    questions.ask(asked("good"))

    assert "ZeroDivisionError" in str(answered(questions, asked("bad")))
    assert answered(questions, asked("good")) == []
    questions.close()


def test_the_end_is_heard_while_the_server_is_down() -> None:
    questions = asking(f"http://127.0.0.1:{free_port()}")
    questions.ask(asked())
    questions.close()
    answered(questions, asked())

    until(lambda: questions._thread is not None and not questions._thread.is_alive())

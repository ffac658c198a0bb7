"""A model that plans and writes, and all the ways in which it is a bad one: a real HTTP server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from questions.sites import EVIL, FOUND, site
from steward.clients.chat_models import ChatModel, kind_of
from steward.clients.web import Endpoint
from steward.questions.facts import Fact
from steward.questions.records import Records
from steward.questions.writing import Assistant
from steward.questions.writing.checker import fault_of

Reply = Callable[[dict[str, Any], int], str | None]
PLAN = json.dumps({"calls": [{"tool": "queue", "arguments": {"about": "length"}}]})


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return site(tmp_path_factory.mktemp("site"))


@contextmanager
def served(reply: Reply, *, kind: str = "ollama") -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve a model; `reply` gets the request and its number, None means never."""
    seen: list[dict[str, Any]] = []
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append(body)
            text = reply(body, len(seen))
            if text is None:
                ended.wait(30)
                return
            self.send_response(200)
            self.end_headers()
            line = (
                json.dumps({"message": {"content": text}, "done": True})
                if kind == "ollama"
                else "data: "
                + json.dumps({"choices": [{"delta": {"content": text}}]})
                + "\n\ndata: [DONE]"
            )
            self.wfile.write(f"{line}\n".encode())

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        path = "" if kind == "ollama" else "/v1"
        yield f"http://127.0.0.1:{server.server_address[1]}{path}", seen
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


def assistant(url: str, within_s: float = 20.0) -> Assistant:
    return Assistant(
        model=ChatModel(Endpoint(url=url), model="m", timeout_s=within_s), within_s=within_s
    )


def writes(*sentences: dict[str, Any], plan: str = PLAN) -> Reply:
    return lambda _body, number: plan if number == 1 else json.dumps({"sentences": list(sentences)})


@pytest.mark.parametrize("kind", ["ollama", "openai"])
def test_a_model_that_cites_what_it_says_is_shown(here: Records, kind: str) -> None:
    said = {"text": "There is 1 job in the queue, asking for 1 GPU.", "cites": ["f1", "f2"]}
    with served(writes(said), kind=kind) as (url, seen):
        answer = assistant(url).answer(here, "anything waiting there, my dear?")

    assert answer.text == said["text"]
    assert answer.way == "m"
    assert not answer.notes
    assert len(seen) == 2
    assert ("format" in seen[0]) == (kind == "ollama")


@pytest.mark.parametrize(
    ("sentence", "why"),
    [
        ({"text": "There are 17 jobs waiting.", "cites": ["f1"]}, "number 17"),
        ({"text": "A dozen jobs wait.", "cites": ["f1"]}, "'dozen'"),
        ({"text": "1 job waits on node-x7.", "cites": ["f1"]}, "name node-x7"),
        ({"text": "1 job waits since 12:30.", "cites": ["f1"]}, "time 12:30"),
        ({"text": "All is well.", "cites": []}, "cites no fact"),
        ({"text": "1 job waits.", "cites": ["f99"]}, "no fact f99"),
    ],
)
def test_what_no_cited_fact_holds_is_refused_and_the_template_shown(
    here: Records, sentence: dict[str, Any], why: str
) -> None:
    with served(writes(sentence)) as (url, seen):
        answer = assistant(url).answer(here, "how many jobs are waiting?")

    assert answer.way == "template"
    assert "1 job wait" in answer.text
    assert why in answer.notes[0]
    assert len(seen) == 3  # one more try, with the reason
    assert "refused" in seen[2]["messages"][-1]["content"]


@pytest.mark.parametrize(
    "plan",
    [
        '{"calls": [{"tool": "shell", "arguments": {"command": "rm -rf /"}}]}',
        '{"calls": [{"tool": "decisions", "arguments": {"approve": true}}]}',
        '{"calls": [' + ",".join(['{"tool": "queue", "arguments": {}}'] * 9) + "]}",
        "not JSON at all",
        "[" * 5000,
        "",
    ],
)
def test_a_plan_that_is_none_falls_back_to_the_grammar(here: Records, plan: str) -> None:
    with served(lambda _body, _number: plan) as (url, seen):
        answer = assistant(url).answer(here, "how many jobs are waiting?")

    assert answer.intent == "queue.length"
    assert not answer.abstained
    assert "plan is not used" in answer.notes[0]
    assert len(seen) == 2


def test_a_model_that_never_answers_costs_bounded_time(here: Records) -> None:
    with served(lambda _body, _number: None) as (url, _):
        began = time.monotonic()
        answer = assistant(url, within_s=0.5).answer(here, "how many jobs are waiting?")

    assert time.monotonic() - began < 5
    assert answer.intent == "queue.length"
    assert answer.notes


def test_a_model_that_never_ends_is_cut_off(here: Records) -> None:
    with served(lambda _body, _number: "x" * (3 << 20)) as (url, _):
        answer = assistant(url).answer(here, "how many jobs are waiting?")

    assert "does not end" in answer.notes[0]


def test_a_model_that_is_not_there_is_said(here: Records) -> None:
    answer = assistant("http://127.0.0.1:9").answer(here, "how many jobs are waiting?")

    assert answer.intent == "queue.length"
    assert "plan is not used" in answer.notes[0]


def test_texts_of_logs_and_names_never_reach_the_model(here: Records) -> None:
    plan = json.dumps({"calls": [{"tool": "findings", "arguments": {"finding": FOUND}}]})

    def reply(body: dict[str, Any], number: int) -> str:
        if number == 1:
            return plan
        facts = json.loads(body["messages"][1]["content"])["facts"]
        title = next(each for each in facts if each["label"] == "title")
        text = f"It says {title['text']}."
        return json.dumps({"sentences": [{"text": text, "cites": [title["id"]]}]})

    with served(reply) as (url, seen):
        answer = assistant(url).answer(here, f"what about {FOUND}?")

    assert EVIL not in json.dumps(seen)
    assert "999999" not in json.dumps(seen)
    assert answer.text == f"It says {EVIL}."  # put in by the renderer, after the check


def test_a_request_never_reaches_the_model(here: Records) -> None:
    with served(writes()) as (url, seen):
        answer = assistant(url).answer(here, "drain n1")

    assert not seen
    assert answer.proposals


def test_the_front_of_a_question_that_the_server_cut_off_is_noticed() -> None:
    def reply(_body: dict[str, Any], _number: int) -> str:
        return "{}"

    with served(reply) as (url, _):
        model = ChatModel(Endpoint(url=url), model="m")
        model._check_whole([{"content": "x" * 6000}], 900)
        with pytest.raises(Exception, match="cut off"):
            model._check_whole([{"content": "x" * 60_000}], 2051)
    assert kind_of("http://h/v1/") == "openai"


def fact(value: float | str, unit: str, label: str = "it") -> Fact:
    return Fact(label=label, value=value, unit=unit, source="steward://x")


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("It took 3.2 minutes.", 192.0, "s"),
        ("It took 3 min 12 s.", 192.0, "s"),
        ("It is 25 % busy.", 0.25, "share"),
        ("It drew 199.9 W.", 199.94, "watts"),
        ("It drew about 200 W.", 199.94, "watts"),
        ("Node n1/gpu0 is fine.", "n1/gpu0", "name"),
        ("There are 1,234 jobs.", 1234, "jobs"),
    ],
)
def test_rounding_and_units_are_allowed(text: str, value: float | str, unit: str) -> None:
    assert fault_of(text, [fact(value, unit)]) == ""


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("It took 4 minutes.", 192.0, "s"),
        ("It is 26 % busy.", 0.25, "share"),
        ("There are 2 jobs.", 1, "jobs"),
        ("There are 1.5 jobs.", 1, "jobs"),
        ("It was at 2026-01-01 10:00.", 1_700_000_000.0, "time"),
        ("n1/gpu1 is fine.", "n1/gpu0", "name"),
        ("It is Bob who waits, and Mallory runs.", "bob", "name"),
        ("There are millions of jobs.", 1, "jobs"),
    ],
)
def test_other_values_are_refused(text: str, value: float | str, unit: str) -> None:
    assert fault_of(text, [fact(value, unit)])

"""Questions answered by the grammar: right facts, sources, abstention, and nothing done."""

from __future__ import annotations

import random
import string
from pathlib import Path

import pytest

from questions.sites import EVIL, FOUND, LENT, NOW_S, WAITING, site
from steward.errors import StewardError
from steward.model.decision import DecisionState
from steward.questions.asking import answer_by_grammar, call_tool, examples
from steward.questions.facts import Answer
from steward.questions.records import Records
from steward.questions.writing.checker import fault_of


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return site(tmp_path_factory.mktemp("site"))


def value(answer: Answer, label: str) -> float | str:
    return next(fact.value for fact in answer.facts if fact.label == label)


def test_a_waiting_job_is_explained_by_what_the_policy_lacks(here: Records) -> None:
    answer = answer_by_grammar(here, "why is job 812 waiting?")

    assert (answer.intent, answer.abstained) == ("job.why", False)
    assert "812" in answer.text
    assert all(fact.source.startswith("steward://job/812") for fact in answer.facts)


@pytest.mark.parametrize(
    ("question", "intent", "label", "expected"),
    [
        ("how many jobs are waiting?", "queue.length", "jobs that wait", 1),
        ("which job has waited longest?", "queue.longest", "job that waits longest", "812"),
        ("how busy is the cluster?", "cluster.use", "GPUs in all", 4),
        ("how many GPUs are free?", "cluster.free", "free GPUs", 0),
        ("who is using n1/gpu0?", "gpu.user", "job", "900"),
        ("which jobs does bob have?", "user.jobs", "jobs that run", 2),
        ("what is the state of node n2?", "node.state", "jobs on it", 1),
        ("how many GPUs does tenant bio use?", "tenant.use", "GPUs held", 2),
        ("who uses the most GPUs?", "tenant.top", "GPUs held", 2),
        ("how much did you save?", "savings.total", "saved", 2.0),
        ("which kind of decision saved the most?", "savings.split", "action", "lend"),
        ("what waits for approval?", "decisions.waiting", "decisions that wait for approval", 1),
        ("average power of n1/gpu1 in the last hour", "metric.value", "average power", 300.0),
        ("which gpu drew the most power in the last hour?", "metric.top", "GPU", "n1/gpu1"),
        ("were promises kept?", "outcomes.kept", "mean share of the promise that was kept", 1.0),
        ("any hardware faults this week?", "health.faults", "faults", 1),
        ("which GPUs are lent?", "loans.list", "loans", 0),
        ("are you running?", "steward.status", "turns of the loop", 5),
        ("how often was rule STW-GPU-0022 right?", "rule.explain", "matches", 7),
    ],
)  # fmt: skip
def test_a_fact_is_what_the_records_hold(
    here: Records, question: str, intent: str, label: str, expected: float | str
) -> None:
    answer = answer_by_grammar(here, question)

    assert (answer.intent, value(answer, label)) == (intent, expected)


def test_decisions_and_findings_are_explained_with_their_entries(here: Records) -> None:
    decision = answer_by_grammar(here, f"why was decision {LENT} made?")
    finding = answer_by_grammar(here, f"explain finding {FOUND}")

    assert "n1/gpu0 is idle" in decision.text
    assert "ann approved it" in decision.text
    assert value(decision, "gained") == 2.0
    assert {fact.source for fact in decision.facts} == {f"steward://decision/{LENT}"}
    assert value(finding, "decision") in (WAITING, LENT)


@pytest.mark.parametrize("example", examples())
def test_each_example_is_understood(here: Records, example: str) -> None:
    answer = answer_by_grammar(here, example)

    assert answer.intent


def test_every_number_of_every_answer_is_held_by_a_cited_fact(here: Records) -> None:
    for question in examples():
        for sentence in answer_by_grammar(here, question).sentences:
            text = sentence.text
            for fact in sentence.facts:
                if fact.is_untrusted or fact.unit == "statement":
                    text = text.replace(fact.text, "")
            if sentence.facts:
                assert fault_of(f"{text}.", sentence.facts, question) == "", sentence.text


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("", "No question was asked"),
        ("?!", "No question was asked"),
        ("x" * 10_000, "longer than 1,000 characters"),
        ("why is job 812 waiting? " * 500, "longer than 1,000 characters"),
        ("warum wartet der Auftrag 812 und wann ist er fertig", "another language"),
        ("今天天气怎么样", "another language"),
        ("what's the weather in Berlin?", "not known here"),
        ("why is job 99999 waiting?", "There is no job 99999"),
        ("what is the state of node n7?", "There is no node n7"),
        ("who uses n9/gpu3?", "There is no GPU n9/gpu3"),
        ("explain d-ffffffffffff", "There is no decision d-ffffffffffff"),
        ("how many GPUs will be free next week?", "What comes is not known"),
        ("how hot was n1/gpu0 in 1999?", "There is no sample"),
        ("what is the salary of alice", "not"),
    ],
)
def test_what_is_not_known_is_said(here: Records, question: str, says: str) -> None:
    answer = answer_by_grammar(here, question)

    assert answer.abstained
    assert says in answer.text


def test_a_name_with_a_typo_gets_a_hint(here: Records) -> None:
    answer = answer_by_grammar(here, "how many GPUs does tenant bioo use?")

    assert answer.abstained
    assert "Did you mean bio?" in answer.text


def test_noise_never_breaks_the_grammar(here: Records) -> None:
    dice = random.Random(1)  # noqa: S311 - noise
    for _ in range(200):
        text = "".join(dice.choices(string.printable + "üß漢😀\x00", k=dice.randint(0, 80)))
        assert answer_by_grammar(here, text).sentences


@pytest.mark.parametrize(
    "request_",
    [f"approve {WAITING}", "please drain n1", f"can you approve {WAITING}?", "cancel job 900"],
)
def test_a_request_changes_nothing_and_names_what_a_person_can_do(
    here: Records, request_: str
) -> None:
    answer = answer_by_grammar(here, request_)
    here.ledger.catch_up()

    assert answer.abstained
    assert "Nothing was done" in answer.text
    assert answer.proposals
    waiting = here.ledger.story(WAITING)
    assert waiting is not None
    assert waiting.state is DecisionState.WAITING


@pytest.mark.parametrize(
    "question", [f"explain finding {FOUND}", "status of job 812", "explain rule STW-GPU-0022"]
)
def test_injected_texts_are_quoted_as_facts_and_never_followed(
    here: Records, question: str
) -> None:
    answer = answer_by_grammar(here, question)

    quoted = [fact for fact in answer.facts if fact.is_untrusted]
    assert any(EVIL in fact.text for fact in quoted)
    rest = answer.text
    for fact in quoted:
        rest = rest.replace(fact.text, "")
    assert "999999" not in rest
    assert not answer.proposals


def test_a_name_that_is_a_user_and_a_tenant_is_answered_for_what_is_asked(here: Records) -> None:
    assert answer_by_grammar(here, "which jobs does user bob have?").intent == "user.jobs"


def test_without_a_running_steward_the_past_is_known_and_the_present_is_not(
    here: Records, tmp_path: Path
) -> None:
    resting = site(tmp_path, view=None, cluster=None, status=None, rules=())

    assert answer_by_grammar(resting, "how busy is the cluster?").abstained
    assert answer_by_grammar(resting, "are you running?").abstained
    assert not answer_by_grammar(resting, "how much did you save?").abstained


def test_tools_refuse_arguments_that_they_do_not_take(here: Records) -> None:
    with pytest.raises(StewardError, match="there is no tool"):
        call_tool(here, "shell", {})
    with pytest.raises(StewardError, match="Extra inputs"):
        call_tool(here, "queue", {"about": "length", "and": "more"})


def test_an_answer_as_json_has_values_with_sources(here: Records) -> None:
    record = answer_by_grammar(here, "how many jobs are waiting?").as_record()

    assert record["abstained"] is False
    assert all(fact["source"] for fact in record["facts"])
    assert record["facts"][0]["value"] == 1
    assert record["sentences"][0]["cites"] == [1, 2, 3]
    assert str(NOW_S)[:10] in record["facts"][0]["source"]

"""A question in, an answer out: by the grammar, or by a model that plans and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from steward.errors import StewardError
from steward.questions.facts import Answer, Reply, Sentence, unknown
from steward.questions.grammar.entities import Names
from steward.questions.grammar.intents import Call, intents
from steward.questions.grammar.parser import LONGEST, Reading, read_question
from steward.questions.records import Records
from steward.questions.requests import requested
from steward.questions.tools import TOOLS

__all__ = ["answer_by_grammar", "call_tool", "examples"]

_SHOWN = ("why is job 812 waiting?", "how many GPUs are free?", "what did you save this week?")
_WHY = {
    "empty": "No question was asked.",
    "long": f"The question is longer than {LONGEST:,} characters: ask one thing at a time.",
    "foreign": "This looks like another language than English: without a model, only English is "
    "understood.",
    "future": "What comes is not known, but for starts and ends of jobs as far as estimated.",
    "strange": "This is not known here: questions are answered from jobs, GPUs, telemetry, "
    "findings, decisions, savings, rules and the documentation.",
    "unclear": "It is not clear what is asked.",
}


def examples() -> tuple[str, ...]:
    """Return one question of each kind that is understood without a model."""
    return tuple(each.example for each in intents())


def answer_by_grammar(records: Records, question: str) -> Answer:
    """Answer by the grammar alone: the same question and records, the same answer."""
    names = Names.of(records)
    wanted = requested(records, question, names)
    if wanted is not None:
        return _answer(question, "act", (), wanted)
    read = read_question(question, names, records.now_s)
    if read.meanings:
        return _both(records, question, read.meanings)
    if read.call is None:
        return _answer(question, "", (), _abstained(read))
    return _answer(question, read.intent, (read.call,), call_tool(records, *read.call))


def call_tool(records: Records, name: str, arguments: dict[str, Any]) -> Reply:
    """Run one tool, or raise if there is none of that name or it does not take these arguments."""
    tool = TOOLS.get(name)
    if tool is None:
        raise StewardError(f"there is no tool '{name}'", hint=f"there are {', '.join(TOOLS)}")
    try:
        asked = tool.arguments.model_validate(arguments)
    except ValidationError as fault:
        first = fault.errors()[0]
        place = ".".join(map(str, first["loc"])) or name
        raise StewardError(f"{place}: {first['msg']}", where=f"tool {name}") from fault
    return tool.run(records, asked)


def _answer(question: str, intent: str, calls: Sequence[Call], reply: Reply) -> Answer:
    return Answer(
        question=question[:LONGEST],
        sentences=reply.sentences,
        abstained=not reply.known,
        intent=intent,
        calls=tuple({"tool": name, "arguments": given} for name, given in calls),
        proposals=reply.proposals,
    )


def _abstained(read: Reading) -> Reply:
    return unknown(_WHY[read.why], f"Ask for example: {' or '.join(_SHOWN)}")


def _both(records: Records, question: str, meanings: Sequence[tuple[str, Call]]) -> Answer:
    """Answer each meaning of a question that has several."""
    told = [Sentence(text="This can mean several things; here is each.")]
    known = False
    for intent, call in meanings[:3]:
        reply = call_tool(records, *call)
        known = known or reply.known
        told += [Sentence(text=f"As {_MEANT.get(call[0], intent)}:"), *reply.sentences[:3]]
    reply = Reply(sentences=tuple(told), known=known)
    return _answer(question, meanings[0][0], [call for _, call in meanings[:3]], reply)


_MEANT = {
    "jobs": "a question about jobs",
    "cluster": "a question about the cluster",
    "rules": "a question about a rule",
}

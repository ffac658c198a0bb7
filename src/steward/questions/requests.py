"""Requests to do something: nothing is done, a person is shown how."""

from __future__ import annotations

import re
from collections.abc import Mapping

from steward.model.decision import DecisionState
from steward.questions.facts import Fact, Proposal, Reply, Sentence, say
from steward.questions.grammar.entities import Mention, Names, find_mentions
from steward.questions.records import Records
from steward.questions.tools.sources import journal_source

__all__ = ["requested"]

_POLITE = (
    r"(?:(?:please|now|steward|ok|hey|can you|could you|would you|just|go and|i want you to)[ ,]+)*"
)
_VERBS = re.compile(
    rf"^\W*{_POLITE}(approve|reject|undo|cancel|kill|stop|preempt|hold|release|resume|save|drain|"
    r"undrain|reset|restart|migrate|move|lend|call back|resize|delete|remove|shut down|reboot|"
    r"submit|start)\b",
    re.IGNORECASE,
)
_OF_DECISIONS = ("approve", "reject", "undo")
_OF_JOBS: Mapping[str, str] = {
    "cancel": "cancel", "kill": "cancel", "stop": "cancel", "preempt": "preempt", "hold": "hold",
    "release": "release", "resume": "resume", "save": "save", "delete": "cancel",
}  # fmt: skip
NOTHING = "Nothing was done: questions change nothing, and a person decides."


def requested(records: Records, question: str, names: Names) -> Reply | None:
    """Return how a person can do what is asked for; None for what is no request."""
    found = _VERBS.match(question[:300])
    if found is None or (
        question.rstrip().endswith("?") and not re.match(r"\W*(can|could|would)", question, re.I)
    ):
        return None
    verb = found[1].lower()
    mentions = {each.kinds[0]: each for each in find_mentions(question[:1000], names)}
    told = [Sentence(text=NOTHING)]
    proposals = [*_by_command(verb, mentions), *_waiting(records, mentions)]
    told += [_said(records, each) for each in proposals]
    if not proposals:
        told.append(
            Sentence(
                text="No decision about it waits for approval, so there is nothing to approve."
            )
        )
    return Reply(sentences=tuple(told), known=False, proposals=tuple(proposals))


def _by_command(verb: str, mentions: Mapping[str, Mention]) -> list[Proposal]:
    if verb in _OF_DECISIONS and "decision" in mentions:
        id_ = mentions["decision"].text
        command = f"steward decisions {verb} {id_}"
        return [
            Proposal(
                text="A person can do it with:",
                decision=id_,
                command=command,
                link=f"/decisions/{id_}",
            )
        ]
    if verb in _OF_JOBS and "job" in mentions:
        command = f"steward jobs {_OF_JOBS[verb]} {mentions['job'].text}"
        return [
            Proposal(
                text="A person can do it with:",
                command=command,
                link=f"/jobs/{mentions['job'].text}",
            )
        ]
    return []


def _waiting(records: Records, mentions: Mapping[str, Mention]) -> list[Proposal]:
    """Return decisions that wait for approval and are about what was named."""
    names = {each.text for kind, each in mentions.items() if kind != "decision"}
    return [
        Proposal(
            text="A decision about it waits for approval:",
            decision=made.id,
            command=f"steward decisions approve {made.id}",
            link=f"/decisions/{made.id}",
        )
        for each in records.ledger.stories
        if each.state is DecisionState.WAITING
        and (made := each.story.decision)
        and names
        & {made.subject, *(str(gpu) for gpu in made.action.gpus), *_nodes(made.action.gpus)}
    ][:3]


def _nodes(gpus: tuple[str, ...]) -> set[str]:
    return {str(gpu).partition("/")[0] for gpu in gpus}


def _said(records: Records, proposal: Proposal) -> Sentence:
    if not proposal.decision:
        return Sentence(text=f"{proposal.text} `{proposal.command}`.")
    tracked = records.ledger.story(proposal.decision)
    if tracked is None:
        return Sentence(text=f"There is no decision {proposal.decision} in the journal.")
    source, link = journal_source("decision", proposal.decision)

    def fact(label: str, value: str) -> Fact:
        return Fact(label=label, value=value, source=source, link=link)

    state = fact("state", tracked.state.value)
    id_ = fact("decision", proposal.decision)
    return say(f"{proposal.text} {{id}} ({{state}}), by `steward decisions`.", id=id_, state=state)

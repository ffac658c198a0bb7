"""What people say about findings. The loop learns of it through the journal alone."""

from __future__ import annotations

from typing import Literal, get_args

from steward.errors import StewardError, did_you_mean
from steward.model.finding import Opinion
from steward.model.identity import FindingId
from steward.store.journal import Journal

__all__ = ["OpinionWord", "opinions_of", "say"]

OpinionWord = Literal["confirm", "dismiss"]


def say(
    journal: Journal, finding_id: str, opinion: str, *, user: str, t_s: float, note: str = ""
) -> Opinion:
    """Write down what `user` says about a finding; who thinks again may say so."""
    known: tuple[OpinionWord, ...] = get_args(OpinionWord)
    word = next((each for each in known if each == opinion), None)
    if word is None:
        raise StewardError(
            f"'{opinion}' is nothing to say about a finding; known: {', '.join(known)}",
            where=f"finding {finding_id}",
            hint=did_you_mean(opinion, known) or "use one of these words",
        )
    finding = journal.finding(FindingId(finding_id))
    said = Opinion(
        finding=finding.id, rule=finding.rule, t_s=t_s, opinion=word, user=user, note=note
    )
    journal.append([said])
    return said


def opinions_of(journal: Journal, finding: FindingId) -> tuple[Opinion, ...]:
    """Return what was said about a finding, oldest first."""
    entries = journal.read(kinds=("opinion",), causes=(finding,))
    return tuple(entry.value for entry in entries if isinstance(entry.value, Opinion))

"""Opinions of people about findings. They reach the loop through the journal only."""

from __future__ import annotations

from typing import Literal, get_args

from steward.errors import StewardError, did_you_mean
from steward.model.finding import Opinion
from steward.model.identity import FindingId
from steward.store.journal import Journal

__all__ = ["OpinionName", "opinions_of", "record_opinion"]

OpinionName = Literal["confirm", "dismiss"]


def record_opinion(
    journal: Journal, finding_id: str, opinion: str, *, user: str, t_s: float, note: str = ""
) -> Opinion:
    """Append the opinion of `user` about a finding; a later one replaces it."""
    known: tuple[OpinionName, ...] = get_args(OpinionName)
    name = next((each for each in known if each == opinion), None)
    if name is None:
        raise StewardError(
            f"unknown opinion '{opinion}'; expected {' or '.join(known)}",
            where=f"finding {finding_id}",
            hint=did_you_mean(opinion, known) or "use one of these",
        )
    finding = journal.finding(FindingId(finding_id))
    given = Opinion(
        finding=finding.id, rule=finding.rule, t_s=t_s, opinion=name, user=user, note=note
    )
    journal.append([given])
    return given


def opinions_of(journal: Journal, finding: FindingId) -> tuple[Opinion, ...]:
    """Return the opinions about a finding, oldest first."""
    entries = journal.read(kinds=("opinion",), causes=(finding,))
    return tuple(entry.value for entry in entries if isinstance(entry.value, Opinion))

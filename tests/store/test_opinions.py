from __future__ import annotations

from pathlib import Path

import pytest

from factories import decision, finding, outcome, receipt
from steward.errors import StewardError
from steward.model.finding import Opinion, Recurrence
from steward.store.explain import story_of_finding
from steward.store.journal import Journal, open_journal
from steward.store.opinions import opinions_of, record_opinion


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return open_journal(f"sqlite:///{tmp_path / 'journal.sqlite3'}")


def test_an_opinion_is_stored_with_the_rule_of_the_finding(journal: Journal) -> None:
    found = finding()
    journal.append([found])

    given = record_opinion(journal, found.id, "dismiss", user="ann", t_s=5.0, note="planned")
    again = record_opinion(journal, found.id, "confirm", user="ann", t_s=6.0)

    assert given == Opinion(
        finding=found.id, rule=found.rule, t_s=5.0, opinion="dismiss", user="ann", note="planned"
    )
    assert opinions_of(journal, found.id) == (given, again)


def test_an_unknown_opinion_or_id_is_refused_with_a_suggestion(journal: Journal) -> None:
    journal.append([finding()])

    with pytest.raises(StewardError, match="unknown opinion") as caught_opinion:
        record_opinion(journal, "f-j1", "confrm", user="ann", t_s=5.0)
    with pytest.raises(StewardError, match="no finding 'f-j2'") as id_:
        record_opinion(journal, "f-j2", "confirm", user="ann", t_s=5.0)

    assert caught_opinion.value.hint == "did you mean 'confirm'?"
    assert id_.value.hint == "did you mean 'f-j1'?"


def test_a_findings_story_has_matches_opinions_and_what_was_decided(journal: Journal) -> None:
    found, made = finding(), decision()
    again = Recurrence(finding=found.id, rule=found.rule, from_s=0.0, t_s=9.0, hits=4)
    journal.append([found, again, made, receipt(made), outcome(made.id)])
    given = record_opinion(journal, found.id, "confirm", user="ann", t_s=5.0)

    story = story_of_finding(journal, found.id)

    assert (story.finding, story.hits, story.opinions) == (found, 5, (given,))
    (shown,) = story.stories
    assert shown.decision == made
    assert len(shown.outcomes) == 1


def test_findings_of_an_older_steward_still_read(journal: Journal) -> None:
    from steward.store.records import Row, _checksum, from_row, to_row

    row = to_row(finding(), seq=1)
    body = row.body
    for name in ("quotes", "hits", "weight", "treatment"):
        assert f'"{name}":' in body
    old = body[: body.index(',"quotes"')] + "}"
    crc = _checksum(1, "finding", row.id, row.cause, old)

    read = from_row(Row(1, row.t_s, "finding", row.id, row.cause, old, crc))

    assert read.value == finding()

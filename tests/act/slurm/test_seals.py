"""A note in a comment counts after a restart only where steward has written it, on that job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from factories import decision, preempt
from steward.act.slurm.own_notes import OwnNotes
from steward.act.slurm.plan import begun, done
from steward.act.slurm.seals import Seals, read_key
from steward.clients.slurm.changes import drain, update_job
from steward.clients.slurm.job_mark import JobMark, LastDecision
from steward.clients.slurm.queue_entry import QueueEntry
from steward.errors import StewardError

KEY = b"k" * 32
DID = LastDecision(id="d-1", run=900, t_s=1000.5, nice=-3, save_s=30.0)


def running(comment: str) -> QueueEntry:
    return QueueEntry(
        id="7",
        address="7",
        state="RUNNING",
        reason="",
        user="ada",
        partition="gpu",
        submit_s=900,
        restarts=0,
        batch=True,
        requeue=True,
        nice=0,
        priority=100,
        nodes=("n1",),
        name="train",
        mark=JobMark.read(comment),
    )


def written(mark: JobMark, *, address: str = "7", key: bytes = KEY) -> JobMark:
    """Return what Slurm has when steward has set a comment."""
    *_, part = Seals(key).sealed(update_job(address, comment=mark.comment))
    return JobMark.read(part.removeprefix("Comment="))


def test_steward_knows_its_own_note_again_and_the_rest_of_the_comment_stays() -> None:
    mark = JobMark(rest="mine", save_s=30.0, did=DID)

    found = written(mark)

    assert found.did is not None
    assert Seals(KEY).fits("7", found.did)
    assert replace(found, did=DID) == mark


@pytest.mark.parametrize(
    "forged",
    [
        {"t_s": 1000.6},
        {"run": 901},
        {"id": "d-2"},
        {"held": True},
        {"nice": None},
        {"save_s": 3600.0},
        {"seal": ""},
        {"seal": "A" * 22},
    ],
)
def test_a_note_that_was_changed_has_no_seal_that_fits(forged: dict[str, object]) -> None:
    did = written(JobMark(did=DID)).did
    assert did is not None

    assert not Seals(KEY).fits("7", replace(did, **forged))


def test_a_note_that_was_copied_from_another_job_or_another_steward_does_not_fit() -> None:
    copied, foreign = written(JobMark(did=DID)).did, written(JobMark(did=DID), key=b"x" * 32).did
    assert copied is not None
    assert foreign is not None

    assert not Seals(KEY).fits("8", copied)
    assert not Seals(KEY).fits("7", foreign)
    assert Seals().fits("8", copied)  # without a key, none can be told from another


def test_what_sets_no_note_stays_as_it_is() -> None:
    for command in (drain("n1", "steward d-1: x"), update_job("7", nice=3)):
        assert Seals(KEY).sealed(command) == command
    assert Seals().sealed(update_job("7", comment=JobMark(did=DID).comment))[-1].endswith("+save30")


def test_the_key_is_made_once_and_is_for_stewards_account_alone(tmp_path: Path) -> None:
    path = tmp_path / "slurm" / "notes.key"

    first = read_key(path)

    assert (len(first), path.stat().st_mode & 0o777, read_key(path)) == (32, 0o600, first)
    path.write_bytes(first[:5])
    with pytest.raises(StewardError, match="no whole key"):
        read_key(path)
    path.chmod(0o640)
    with pytest.raises(StewardError, match="others may read"):
        read_key(path)


def test_after_a_restart_a_forged_note_is_none_and_a_sealed_one_has_the_time_to_save() -> None:
    stop = preempt("d-1", job="7")
    notes = OwnNotes(seals=Seals(KEY))
    sealed = running(written(JobMark(save_s=30.0, did=replace(DID, nice=None))).comment)
    longer = replace(sealed, mark=replace(sealed.mark, save_s=3600.0))
    forged = replace(sealed, mark=replace(sealed.mark, did=replace(DID, t_s=999.0)))

    assert notes.recalled(longer, stop).mark.save_s == 30.0
    assert notes.recalled(forged, stop).mark.did is None
    assert notes.recalled(forged, decision("d-9", action=stop.action)) == forged


def test_notes_of_open_decisions_outlive_a_restart_whatever_the_comment_says_then(
    tmp_path: Path,
) -> None:
    file = tmp_path / "open-decisions.json"
    stop = preempt("d-1", job="7")
    asked = running(JobMark(save_s=30.0, did=DID).comment)
    OwnNotes(file).keep(stop, replace(begun("it saves"), noted=asked))

    again = OwnNotes(file)
    found = again.recalled(running("nothing"), stop)

    assert (found.mark.did, found.mark.save_s) == (DID, 30.0)
    assert file.stat().st_mode & 0o077 == 0
    again.keep(stop, done("it is over"))
    assert OwnNotes(file).recalled(running("nothing"), stop).mark.did is None
    file.write_text('{"d-1": 5}')
    assert OwnNotes(file).recalled(running("nothing"), stop).mark.did is None

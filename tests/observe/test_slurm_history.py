"""Accounting's jobs are read day by day, each once, also where ids came again."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from fake_slurm import FakeSlurm
from patience import LONG_S
from steward.clients.slurm import SlurmCommands, SlurmJob
from steward.clients.slurm.jobs import job_from_sacct
from steward.observe.slurm_history import DAY_S, PastJob, SlurmHistory, past_jobs

RECORDED = Path(__file__).parents[1] / "data" / "slurm-22.05" / "sacct-every-run.txt"
LAST_S = 1794980500.0  # after the last line that was recorded


def recorded() -> list[SlurmJob]:
    lines = RECORDED.read_text().splitlines()
    return [job for line in lines if (job := job_from_sacct(line, "\x1f")) is not None]


def found(rows: list[SlurmJob], listed: dict[str, float] | None = None) -> dict[str, PastJob]:
    jobs = past_jobs(rows, from_s=0.0, to_s=LAST_S, listed=listed or {})
    return {each.id: each for each in jobs}


def history(folder: Path, *, lookback_s: float = DAY_S) -> SlurmHistory:
    slurm = SlurmCommands(folder=f"{folder}:/bin:/usr/bin", timeout_s=LONG_S)
    return SlurmHistory(slurm, lookback_s=lookback_s)


def test_a_requeued_job_is_one_job_with_all_its_runs() -> None:
    jobs = found(recorded())

    runs = [(run.start_s, run.end_s) for run in jobs["4"].runs]
    assert runs == [(1794979736.0, 1794979888.0), (1794979950.0, 1794980330.0)]
    assert [len(jobs[id_].runs) for id_ in ("1", "2", "5")] == [1, 2, 1]


def test_jobs_that_run_or_wait_again_are_not_over() -> None:
    rows = [row for row in recorded() if row.id != "10" or row.end_s is not None]

    assert not {"8", "9", "10", "11"} & {*found(rows)}


def test_two_jobs_that_had_one_id_are_told_apart() -> None:
    old = next(row for row in recorded() if row.id == "5")
    new = replace(old, submit_s=old.submit_s + 50.0, end_s=(old.end_s or 0.0) + 50.0)

    ended, running = found([old, new]), found([old], {"5": new.submit_s})

    assert {*ended} == {f"5@{old.submit_s:.0f}", "5"}
    assert {*running} == {f"5@{old.submit_s:.0f}"}  # 5 is another job now, which the queue has
    assert found([old], {"5": old.submit_s}) == {}


def test_only_what_ended_in_a_stretch_of_time_belongs_to_it() -> None:
    borders = (0.0, 1794979894.0, 1794980000.0, LAST_S)

    parts = [
        [each.id for each in past_jobs(recorded(), from_s=from_s, to_s=to_s, listed={})]
        for from_s, to_s in pairwise(borders)
    ]

    assert parts == [["5"], ["6", "7"], ["1", "2", "3", "4", "12", "13"]]


def test_months_are_read_a_day_at_each_poll_and_then_no_more(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    fake.prints("sacct", RECORDED.read_bytes())
    past = history(tmp_path, lookback_s=3 * DAY_S)

    polls = [past.next(LAST_S + 10.0 * poll, {}) for poll in range(5)]

    assert [len(jobs) for jobs in polls] == [0, 0, 9, 0, 0]  # all ended on the last day
    calls = (tmp_path / "past-looks").read_text().splitlines()
    assert len(calls) == 3
    assert "-S now-259201seconds -E now-172800seconds -D" in calls[0]
    assert past.is_read


def test_after_a_restart_no_job_is_read_again(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    fake.prints("sacct", RECORDED.read_bytes())
    first, again = history(tmp_path), history(tmp_path)
    learned = first.next(LAST_S, {})
    first.seen_until(LAST_S + 500.0)
    again.read_to_s = first.read_to_s

    later = again.next(LAST_S + 600.0, {})

    assert (len(learned), later) == (9, [])
    assert again.read_to_s == LAST_S + 600.0


def test_without_accounting_it_is_asked_again_after_a_while(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    fake.command("sacct", f"echo >> {tmp_path}/calls; exit 1")
    past = history(tmp_path)
    tries = [past.next(LAST_S + after_s, {}) for after_s in (0.0, 10.0)]
    fake.prints("sacct", RECORDED.read_bytes())

    late = past.next(LAST_S + 601.0, {})

    assert tries == [[], []]
    assert (tmp_path / "calls").read_text().count("\n") == 1
    assert len(late) == 9

"""The log of a job that Slurm requeues: in the same file, in another one, or in an emptied one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fake_slurm import as_asked
from steward.clients.slurm_jobs import exchange, job_log
from steward.clients.slurm_jobs.job_log import SlurmLog
from steward.clients.slurm_jobs.listed_job import ListedJob, listed_from_squeue
from steward.errors import StewardError

DATA = Path(__file__).parents[2] / "data" / "slurm-22.05"


class Asked:
    """What Slurm says of one job, and how often it was asked."""

    def __init__(self, *paths: Path) -> None:
        text = as_asked((DATA / "squeue-listed.txt").read_bytes()).decode()
        found = [listed_from_squeue(line) for line in text.splitlines()]
        self.job = next(job for job in found if job is not None and job.id == "16")
        self.paths = list(paths)
        self.times = 0

    def __call__(self) -> tuple[ListedJob, Sequence[str]]:
        self.times += 1
        return self.job, [str(path) for path in self.paths]

    def end(self) -> None:
        self.job = replace(self.job, state="COMPLETED")


def read_all(log: SlurmLog) -> tuple[str, list[str]]:
    """Return all that there is now, and the notes beside it."""
    text, notes = "", []
    while True:
        part = log.read()
        text += part.text
        notes += [part.note] if part.note else []
        if not part.text:
            return text, notes


def test_a_requeued_job_goes_on_in_its_log(tmp_path: Path) -> None:
    path = tmp_path / "slurm-16.out"
    log = SlurmLog(Asked(path))

    before = read_all(log)  # it waits: there is no file
    path.write_text("first run\n")
    first = read_all(log)
    with path.open("a") as file:
        file.write("second run\n")
    second = read_all(log)

    assert (before, first, second) == (("", []), ("first run\n", []), ("second run\n", []))


@pytest.mark.parametrize("new", ["second run\n", "second run, which soon printed more\n"])
def test_a_log_that_slurm_empties_is_read_from_its_new_beginning(tmp_path: Path, new: str) -> None:
    path = tmp_path / "slurm-16.out"
    path.write_text("first run, all of it\n")
    log = SlurmLog(Asked(path))

    first = read_all(log)
    path.write_text(new)
    second, notes = read_all(log)

    assert first == ("first run, all of it\n", [])
    assert second == new
    assert notes == [f"{path} was emptied: the next run of the job begins here"]


def test_the_files_of_all_runs_are_read_in_their_order(tmp_path: Path) -> None:
    n1, n2 = tmp_path / "n1.log", tmp_path / "n2.log"
    n1.write_text("on n1\n")
    asked = Asked(n1)
    followed = SlurmLog(asked)

    first = read_all(followed)
    n2.write_text("on n2\n")
    asked.paths.append(n2)
    asked.end()
    second = read_all(followed)

    assert (first[0], second[0]) == ("on n1\n", "on n2\n")
    assert read_all(SlurmLog(asked))[0] == "on n1\non n2\n"


def test_slurm_is_not_asked_for_each_part_of_a_large_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 2 * job_log.KNOWN_BYTES
    monkeypatch.setattr(exchange, "MOST_LOG_BYTES", most)
    monkeypatch.setattr(job_log, "MOST_LOG_BYTES", most)
    path = tmp_path / "slurm-16.out"
    path.write_text("€ " * 2000)
    asked = Asked(path)
    asked.end()

    text, _ = read_all(SlurmLog(asked))

    assert text == "€ " * 2000  # no character is cut
    assert asked.times == 2


def test_a_log_that_is_not_here_is_an_error_once_the_job_is_over(tmp_path: Path) -> None:
    asked = Asked(tmp_path / "elsewhere.out")
    log = SlurmLog(asked)

    assert log.read().text == ""
    asked.end()
    with pytest.raises(StewardError, match="there is no such file here"):
        log.read()
    (tmp_path / "folder").mkdir()
    with pytest.raises(StewardError, match="it cannot be read"):
        SlurmLog(Asked(tmp_path / "folder")).read()

"""The files in which a job on Slurm says whether it can save, and how a save went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steward.clients.slurm_jobs.batch_script import FOLDER
from steward.clients.slurm_jobs.listed_job import ListedJob
from steward.training.protocol import (
    ANSWER,
    CAN_SAVE,
    CHECKPOINTS,
    MANIFEST,
    REQUEST,
    TrainingError,
    read_json,
)

__all__ = ["JobFiles", "files_of"]

OUTPUT = "output"  # the paths of its logs, as its own shell saw them: one line where it changed


class JobFiles:
    """The folder of one job. What is not there, or not ours to read, is empty."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def able(self) -> bool | None:
        """Whether it can save; None if it has not said so, or not to us."""
        found = self._read(CAN_SAVE)
        return bool(found.get("can")) if found else None

    @property
    def why_not(self) -> str:
        """Why it cannot save, in its own words."""
        return str(self._read(CAN_SAVE).get("why", ""))

    @property
    def answer(self) -> dict[str, Any]:
        """What became of the last request."""
        return self._read(ANSWER)

    @property
    def saving(self) -> bool:
        """Whether a request has no answer yet."""
        asked = self._read(REQUEST).get("id")
        return bool(asked) and asked != self.answer.get("id")

    @property
    def logs(self) -> list[str]:
        """Where its output went, run by run; empty before it has started."""
        try:
            text = (self.folder / OUTPUT).read_text(errors="replace")
        except OSError:
            return []
        return [line for line in text.split("\n") if line]

    def checkpoints(self) -> list[dict[str, Any]]:
        """Return the checkpoints that are complete, oldest first."""
        try:
            paths = sorted((self.folder / CHECKPOINTS).glob(f"step-*/{MANIFEST}"))
        except OSError:
            return []
        found = []
        for path in paths:
            if path.parent.name.endswith(".corrupt"):
                continue
            manifest = self._read(path.relative_to(self.folder))
            step, created_s = manifest.get("step"), manifest.get("created_s")
            if isinstance(step, int):
                found.append({"t_s": created_s, "step": step, "path": str(path.parent)})
        return found

    def _read(self, name: str | Path) -> dict[str, Any]:
        try:
            return read_json(self.folder / name)
        except TrainingError:
            return {}


def files_of(job: ListedJob) -> JobFiles | None:
    """Return the files of a job that steward submitted; None for others."""
    if not job.mark.token or not job.folder:
        return None
    folder = Path(job.folder) / FOLDER.format(user=job.user) / job.mark.token
    return JobFiles(folder / job.task if job.task else folder)

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from job_bed import JobControllerBed as Bed
from steward.model.managed_job import LifeState


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    made = Bed(tmp_path)
    yield made
    for job in made.controller.store.open():
        made.controller.cancel(job.id, t_s=made.t_s, why="the test is over")
        made.reaches(job.id, LifeState.CANCELLED)
    made.controller.store.close()

"""Records of followed jobs: what survives, what is refused, what plans learn of ended jobs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from followed_world import STEPS, World, write_checkpoint
from steward.clients.site_jobs.job_folder import keep_checkpoint, newest_checkpoint
from steward.errors import PermanentError, StewardError
from steward.model.actions import Recalibrate
from steward.store.followed_jobs import FollowedJobs

HOUR = 3600.0


def test_one_process_follows_the_jobs_of_a_folder(tmp_path: Path) -> None:
    store = FollowedJobs(tmp_path / "followed")

    assert not store.is_followed()
    with store.locked():
        other = FollowedJobs(tmp_path / "followed")
        assert other.is_followed()
        with pytest.raises(StewardError, match="another process"), other.locked():
            pass
    assert not store.is_followed()


def test_a_damaged_record_is_named_and_the_others_are_followed(tmp_path: Path) -> None:
    world = World(tmp_path, {"a": STEPS / HOUR})
    world.submit("p-1", site="a", planned_s=HOUR)
    world.submit("p-2", site="a", planned_s=HOUR)
    file = tmp_path / "followed" / "p-1" / "job.json"
    file.write_bytes(file.read_bytes()[:50])

    again = FollowedJobs(tmp_path / "followed")

    assert [each.id for each in again.jobs()] == ["p-2"]
    assert list(again.damaged) == [str(file)]
    with pytest.raises(StewardError, match="no followed job"):
        again.job("p-1")


def test_a_launcher_runs_with_the_environment_and_the_checkpoint_of_its_job(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, {"a": STEPS / HOUR})
    world.submit("p-1", site="a", planned_s=HOUR)
    kept = write_checkpoint(tmp_path / "kept", 7, 1.0)
    launcher = world.store.launcher("p-1", 1, checkpoint=str(kept))
    folder, programs = tmp_path / "job", tmp_path / "bin"
    folder.mkdir()
    programs.mkdir()
    (programs / "train").write_text(
        '#!/bin/sh\necho "A=$A" && ls "$STEWARD_JOB_FOLDER"/checkpoints\n'
    )
    (programs / "train").chmod(0o700)
    here = {"STEWARD_JOB_FOLDER": str(folder), "PATH": f"{programs}:{os.environ['PATH']}"}

    done = subprocess.run([launcher], env=here, capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["A=1", "step-000007"]
    gone = world.store.launcher("p-1", 2, checkpoint=str(tmp_path / "gone" / "step-000009"))
    other = {**here, "STEWARD_JOB_FOLDER": str(tmp_path / "other")}
    failed = subprocess.run([gone], env=other, capture_output=True, text=True, check=False)
    assert failed.returncode == 75
    assert "cannot be copied" in failed.stderr


def test_only_a_whole_checkpoint_is_kept(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "job", 3, 1.0)
    path = write_checkpoint(tmp_path / "job", 5, 2.0, damaged=True)
    saved = newest_checkpoint(str(tmp_path / "job"))
    assert saved is not None
    assert saved.path == path

    with pytest.raises(PermanentError, match="another content"):
        keep_checkpoint(saved, tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []

    write_checkpoint(tmp_path / "job", 5, 2.0)
    kept = keep_checkpoint(saved, tmp_path / "kept")
    assert sorted(each.name for each in kept.iterdir()) == ["manifest.json", "rank-00000.pt"]


def test_jobs_that_took_longer_than_planned_correct_later_plans(tmp_path: Path) -> None:
    world = World(tmp_path, {"a": STEPS / (2 * HOUR)})
    for number in range(3):
        world.submit(f"p-{number}", site="a", planned_s=HOUR, name="bert")
    world.turns(3 * HOUR, every_s=300.0)

    [made] = world.store.plans.calibrations
    assert (made.name, made.gpu_model) == ("bert", "Ga")
    assert 1.3 < made.factor < 2.0
    assert any(isinstance(each.decision.action, Recalibrate) for each in world.done)
    again = FollowedJobs(tmp_path / "followed")
    assert again.plans.calibrations == (made,)

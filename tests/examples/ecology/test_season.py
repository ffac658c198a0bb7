"""Real trainings: a season in small, and a training that is pre-empted in the middle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ecology.results import SeasonResult

pytestmark = pytest.mark.torch


def crops(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(4)
    names = random.choice(["blank", "deer", "fox"], count)
    images = random.integers(0, 60, (count, 32, 32, 3)).astype(np.uint8)
    images[names == "deer", 8:20, 8:20] += 120
    images[names == "fox", :6] += 90
    return images, names


def test_a_training_that_is_pre_empted_learns_the_same_bits(tmp_path: Path) -> None:
    from ecology.jobs import steward_up
    from ecology.retraining import JobTrainer

    images, names = crops(96)
    with steward_up(tmp_path) as steward:
        trained = JobTrainer(steward, tmp_path, say=print).train(
            images, names, seed=3, title="retrain"
        )

    assert trained.attempts == 2
    assert trained.bit_equal is True
    assert (trained.model.ask(images).names == names).mean() > 0.95
    assert trained.core_s > 0
    assert trained.peak_bytes > 1e8


def test_training_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    from ecology.retraining import DirectTrainer, same_weights

    images, names = crops(40)
    one, same, other = (
        DirectTrainer().train(images, names, seed=seed, title="t", steps=5).model
        for seed in (1, 1, 2)
    )

    assert same_weights(one, same)
    assert not same_weights(one, other)


def test_the_bytes_of_a_model_are_those_of_its_weights() -> None:
    from ecology.edge import MODEL_BYTES
    from ecology.network import build

    assert 4 * sum(each.numel() for each in build(7).parameters()) == MODEL_BYTES


def test_a_model_keeps_its_classes_on_disk(tmp_path: Path) -> None:
    import torch

    from ecology.network import Model
    from ecology.retraining import DirectTrainer, same_weights

    images, names = crops(40)
    made = DirectTrainer().train(images, names, seed=1, title="t", steps=5).model
    torch.save({"weights": made.network.state_dict(), "classes": made.classes}, tmp_path / "m")
    read = Model.read(tmp_path / "m")

    assert same_weights(read, made)
    assert read.classes == ("blank", "deer", "fox")
    assert read.ask(images).share_of("raccoon").max() == 0
    assert read.ask(images[:0]).names.shape == (0,)


def test_a_small_season_keeps_its_promises(tmp_path: Path) -> None:
    from ecology.season import without_jobs
    from ecology.stream import Season

    report = without_jobs(Season(seed=2, weeks=3, frames_per_day=60), tmp_path, print)
    ours, always, never = report.results
    by_name: dict[str, SeasonResult] = {each.strategy: each for each in report.results}

    assert set(by_name) == {"steward", "label everything", "never retrain"}
    assert never.retrainings == ()
    assert never.labels == never.start_labels == ours.start_labels
    assert ours.labels - ours.start_labels <= 0.072 * ours.crops + 1
    assert always.labels - always.start_labels >= 0.95 * always.crops
    assert min(ours.saved_share, always.saved_share) > 0.8
    assert ours.recall > 0.95
    assert ours.alarms
    assert ours.alarms[0][0] >= 14  # the news come with the third week
    assert all(each.deployed == (each.f1_after > each.f1_before) for each in ours.retrainings)
    assert all(each.predicted_s > 0 for each in (*ours.retrainings, *always.retrainings))

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steward.errors import StewardError
from steward.learn.topology.training import Progress, TrainingPlan, forward, train
from steward.sim.fabric.residual_training import ResidualRun, make_example, train_residual

PLAN = TrainingPlan(steps=6, batch=2, report_every=2)


def has_torch() -> bool:
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


@pytest.mark.skipif(has_torch(), reason="says what happens without torch")
def test_without_torch_it_says_what_is_missing() -> None:
    with pytest.raises(StewardError, match="needs torch"):
        train([make_example(1, world="plain")], [], PLAN)


@pytest.mark.torch
def test_what_torch_computes_is_what_numpy_computes() -> None:
    import torch

    examples = [make_example(i, world="losses") for i in range(4)]
    network = train(examples, [], PLAN)
    inputs = examples[0].inputs
    weights = {name: torch.tensor(each) for name, each in network.weights.items()}

    found = forward(torch, weights, network.scales, inputs).numpy()

    assert network.residuals(inputs) == pytest.approx(found, abs=1e-4)


@pytest.mark.torch
def test_a_training_that_was_stopped_goes_on_to_the_same_network(tmp_path: Path) -> None:
    run = ResidualRun(scenes=20, held_out=5, plan=PLAN)
    whole = train_residual(tmp_path / "whole", run)

    class StoppedError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.step == 4:
            raise StoppedError

    with pytest.raises(StoppedError):
        train_residual(tmp_path / "cut", run, trained=stop)
    again = train_residual(tmp_path / "cut", run)

    for name, each in whole.weights.items():
        assert np.allclose(each, again.weights[name])

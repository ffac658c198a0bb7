"""Checkpoints in three lines, for code that runs inside a training container.

    from steward import training

    job = training.attach(model, optimizer, scheduler, loader=loader)
    for batch in job.batches():
        ...
        job.step(loss=loss)

Standard library only; torch and NumPy are used where the caller has imported them. Nothing of the
rest of steward is imported, and the rest imports `protocol` only.
"""

from steward.training.job import TrainingJob, attach
from steward.training.protocol import TrainingError

__all__ = ["TrainingError", "TrainingJob", "attach"]

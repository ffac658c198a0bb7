"""What the processes of one training agree on: at which step to save, and whether it worked."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from steward.training.protocol import TrainingError

__all__ = ["RankGroup", "replicated"]

EVERY_S = 0.05  # a gathering takes some tenths of a millisecond
MOST_STEPS = 100


class RankGroup:
    """The processes of `torch.distributed` and the own place among them; or one process alone.

    Agreement uses a gloo group of its own: NCCL's results are on the GPU, and reading them there
    would make every step wait for it.
    """

    def __init__(self) -> None:
        self.rank, self.size = 0, 1
        self._group: Any = None
        self._pending: tuple[Any, Any] | None = None
        self._every = 1  # steps between two gatherings: agreed on, too, since clocks differ
        self._calls = 0
        self._started_s = time.monotonic()
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            self.rank, self.size = distributed.get_rank(), distributed.get_world_size()
            if self.size > 1:
                self._group = distributed.new_group(backend="gloo")
        elif (size := os.environ.get("WORLD_SIZE", "1")) not in ("", "1"):
            raise TrainingError(
                f"WORLD_SIZE is {size}, but torch.distributed is not initialized",
                where="training.attach",
                hint="call torch.distributed.init_process_group() first",
            )

    @property
    def alone(self) -> bool:
        """Return True if there is nothing to agree on."""
        return self._group is None

    def agreed(self, level: int) -> int:
        """Return the greatest level of any rank at the last gathering, or 0 between two of them.

        Alone that is `level`. A gathering runs in the background from one call of `gather` until a
        later step: ranks act in the same step, some steps after one of them has seen a reason.
        """
        if self.alone:
            return level
        self._calls += 1
        if self._pending is not None and self._calls < self._every:
            return 0
        return self._result()

    def gather(self, level: int) -> None:
        """Begin the next gathering if the last one is over."""
        if not self.alone and self._pending is None:
            self._start(level)

    def greatest(self, value: int) -> int:
        """Return the greatest value of all ranks now."""
        if self.alone:
            return value
        self._result()
        self._start(value)
        return self._result()

    def _start(self, level: int) -> None:
        torch = sys.modules["torch"]
        now_s = time.monotonic()
        steps = int(EVERY_S * self._calls / max(now_s - self._started_s, 1e-6))
        self._calls, self._started_s = 0, now_s
        tensor = torch.tensor([level, min(max(steps, 1), MOST_STEPS)], dtype=torch.int64)
        work = torch.distributed.all_reduce(
            tensor, op=torch.distributed.ReduceOp.MAX, group=self._group, async_op=True
        )
        self._pending = (tensor, work)

    def _result(self) -> int:
        """Return the greatest level of the last gathering; 0 before the first."""
        if self._pending is None:
            return 0
        tensor, work = self._pending
        self._pending = None
        work.wait()
        level, steps = tensor.tolist()
        self._every = 1 if level else steps  # what was agreed on may wait for the next step
        return int(level)

    def from_first(self, value: int) -> int:
        """Return the value of rank 0, on all ranks."""
        if self.alone:
            return value
        torch = sys.modules["torch"]
        tensor = torch.tensor([value], dtype=torch.int64)
        torch.distributed.broadcast(tensor, src=0, group=self._group)
        return int(tensor)


def replicated(objects: dict[str, Any]) -> dict[str, Callable[[str], bool]]:
    """Return which tensors of which objects are equal on all ranks, by their paths.

    Those are the parameters of a DistributedDataParallel module (not its buffers), and everything
    of an optimizer of such parameters.
    """
    torch = sys.modules["torch"]
    found: dict[str, Callable[[str], bool]] = {}
    parameters: set[int] = set()
    for name, each in objects.items():
        if isinstance(each, torch.nn.parallel.DistributedDataParallel):
            named = dict(each.named_parameters())
            parameters.update(id(value) for value in named.values())
            found[name] = {f"{name}/{key}" for key in named}.__contains__
    for name, each in objects.items():
        if type(each).__module__.startswith("torch.optim.") and hasattr(each, "param_groups"):
            own = {id(value) for group in each.param_groups for value in group["params"]}
            if own <= parameters:
                found[name] = lambda _: True
    return found

"""What the processes of one training agree on: at which step to save, and whether it worked."""

from __future__ import annotations

import os
import sys
from typing import Any

from steward.training.protocol import TrainingError

__all__ = ["Ranks"]


class Ranks:
    """The processes of `torch.distributed` and the own place among them; or one process alone.

    Agreement uses a gloo group of its own: NCCL's results are on the GPU, and reading them there
    would make every step wait for it.
    """

    def __init__(self) -> None:
        self.rank, self.size = 0, 1
        self._group: Any = None
        self._pending: tuple[Any, Any] | None = None
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

    def start(self, value: int) -> None:
        """Begin to gather `value` of all ranks, in the background."""
        torch = sys.modules["torch"]
        tensor = torch.tensor([value], dtype=torch.int64)
        work = torch.distributed.all_reduce(
            tensor, op=torch.distributed.ReduceOp.MAX, group=self._group, async_op=True
        )
        self._pending = (tensor, work)

    def result(self) -> int:
        """Return the greatest value of the last `start` on any rank; 0 before the first."""
        if self._pending is None:
            return 0
        tensor, work = self._pending
        self._pending = None
        work.wait()
        return int(tensor)

    def greatest(self, value: int) -> int:
        """Return the greatest value of all ranks now."""
        if self.alone:
            return value
        self.result()
        self.start(value)
        return self.result()

    def from_first(self, value: int) -> int:
        """Return the value of rank 0, on all ranks."""
        if self.alone:
            return value
        torch = sys.modules["torch"]
        tensor = torch.tensor([value], dtype=torch.int64)
        torch.distributed.broadcast(tensor, src=0, group=self._group)
        return int(tensor)

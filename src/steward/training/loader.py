"""The position in the data: which batch of which epoch comes next, and how to get there again.

To continue in the middle of an epoch, the random generators are set to where they were when the
epoch began, the iterator is built (which draws seeds), the batches that were used are skipped, and
the generators are set to where they were at the checkpoint. Batches of a `DataLoader` are skipped
by its sampler, without loading them; of any other iterable by reading them; a loader with a
state_dict of its own (`StatefulDataLoader`) is left to continue by itself.
"""

from __future__ import annotations

import copy
import hashlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from steward.training.state import capture_generators, restore_generators

__all__ = ["LoaderPosition"]


class LoaderPosition:
    """Iterates over a loader, epoch by epoch, and knows where it is."""

    def __init__(self, loader: Any) -> None:
        self.rank = 0
        self.unused = loader is not None  # until the first batch is read
        self.epoch = 0
        self.batch = 0  # batches of this epoch that were handed out
        self._loader: Any = () if loader is None else loader
        self._resumable = hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
        self._sampled: Any = None if self._resumable else _with_skipping_sampler(loader)
        self._start: dict[str, Any] | None = None  # generators, before the iterator was built
        self._resume: dict[str, Any] | None = None

    def __len__(self) -> int:
        return len(self._loader)

    def state_dict(self) -> dict[str, Any]:
        """Return the position, between two batches."""
        inside = self._start is not None
        return {
            "epoch": self.epoch,
            "batch": self.batch,
            "start": self._start,
            "own": self._own_generators(),
            "loader": self._loader.state_dict() if self._resumable and inside else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Set the position; `rest_of_epoch` then needs the generators of the checkpoint, too."""
        self.epoch, self.batch = state["epoch"], state["batch"]
        self._restore_own(state["own"])
        self._resume = state if state["start"] is not None else None

    def rest_of_epoch(self, generators: dict[str, Any] | None = None) -> Iterator[Any]:
        """Yield the batches of this epoch that are left; `generators` are set before the first."""
        state, self._resume = self._resume, None
        self.unused = False
        if state is None:
            self.batch = 0
        else:
            restore_generators(state["start"])
            self._restore_own(state["start"]["own"])
        self._start = {**capture_generators(devices=False), "own": self._own_generators()}
        batches = self._iterator(state)
        if state is not None:
            if getattr(self._loader, "num_workers", 0) == 0:  # else the sampler is ahead, as it was
                self._restore_own(state["own"])
            restore_generators(generators or state["start"])
        try:
            for batch in batches:
                self.batch += 1
                yield batch
        finally:  # also after `break`: the next loop is the next epoch
            self.epoch += 1
            self.batch = 0
            self._start = None

    def _iterator(self, state: dict[str, Any] | None) -> Iterator[Any]:
        self._set_epoch()
        if self._resumable:
            if state is not None:
                self._loader.load_state_dict(state["loader"])
            return iter(self._loader)
        if self._sampled is None:
            rest = _Rest(self._loader, self.batch)
            rest.skip_now()
            return rest
        sampler = self._sampled.batch_sampler
        if sampler is None:
            sampler = self._sampled.sampler
        sampler.begin(self.batch, _epoch_seed(self.rank))
        batches: Iterator[Any] = iter(self._sampled)
        sampler.skip_now()
        return batches

    def _set_epoch(self) -> None:
        for each in (self._loader, *_samplers(self._loader)):
            if hasattr(each, "set_epoch"):
                each.set_epoch(self.epoch)

    def _own_generators(self) -> list[Any]:
        return [each.get_state() for each in _generators(self._loader)]

    def _restore_own(self, states: list[Any]) -> None:
        for each, state in zip(_generators(self._loader), states, strict=False):
            each.set_state(state)


def _samplers(loader: Any) -> list[Any]:
    found = [getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)]
    found.append(getattr(found[1], "sampler", None))
    return _distinct(found)


def _generators(loader: Any) -> list[Any]:
    """Return the random generators that the caller gave to the loader or its samplers."""
    return _distinct([getattr(each, "generator", None) for each in (loader, *_samplers(loader))])


def _distinct(found: list[Any]) -> list[Any]:
    return list({id(each): each for each in found if each is not None}.values())


def _with_skipping_sampler(loader: Any) -> Any:
    """Return a copy of a map-style DataLoader that can skip batches, or None for anything else."""
    data = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(loader, data.DataLoader):
        return None
    if isinstance(loader.dataset, data.IterableDataset):
        return None
    found = copy.copy(loader)
    name = "batch_sampler" if loader.batch_sampler is not None else "sampler"
    sampler = _SkippingSampler(getattr(loader, name), workers=loader.num_workers > 0)
    found.__dict__[name] = sampler  # DataLoader forbids setattr once it is built; this is a copy
    found.__dict__["_iterator"] = None  # of persistent workers
    if loader.persistent_workers:
        # DataLoader draws a seed for new workers, so in the first epoch only, or after resuming.
        found.__dict__["generator"] = sys.modules["torch"].Generator()
    return found


class _SkippingSampler:
    """Yields what another sampler yields, without the first `skip`.

    Workers seed their generators anew for each batch (see `_Seeded`): a worker that starts in the
    middle of an epoch then draws what the one that it replaces would have drawn.
    """

    def __init__(self, sampler: Any, *, workers: bool) -> None:
        self._sampler = sampler
        self._workers = workers
        self._skip = 0
        self._seed = ""
        self._rest: _Rest | None = None

    def __len__(self) -> int:
        return len(self._sampler)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_sampler":  # while it is being copied
            raise AttributeError(name)
        return getattr(self._sampler, name)

    def begin(self, skip: int, seed: str) -> None:
        """Set what the next iteration skips, and the seed of its epoch."""
        self._skip, self._seed = skip, seed

    def __iter__(self) -> Iterator[Any]:
        self._rest = _Rest(self._sampler, self._skip)
        return self._numbered(self._rest, self._skip, self._seed)

    def _numbered(self, rest: _Rest, first: int, seed: str) -> Iterator[Any]:
        for number, indices in enumerate(rest, start=first):
            yield _Seeded(indices, f"{seed}/{number}") if self._workers else indices

    def skip_now(self) -> None:
        """Draw what is skipped, of the newest iteration."""
        if self._rest is not None:
            self._rest.skip_now()


class _Rest:
    """An iterator without its first `skip` values.

    They are read with the first value, or earlier by `skip_now`; not when it is built: DataLoader
    draws a seed between building its sampler's iterator and reading from it.
    """

    def __init__(self, values: Iterable[Any], skip: int) -> None:
        self._values = iter(values)
        self._skip = skip

    def __iter__(self) -> _Rest:
        return self

    def __next__(self) -> Any:
        self.skip_now()
        return next(self._values)

    def skip_now(self) -> None:
        skip, self._skip = self._skip, 0
        for _ in islice(self._values, skip):
            pass


class _Seeded:
    """Indices of a batch on their way to a worker process.

    Unpickling is the first thing a worker does with them, and it loads them next: that is when its
    generators are seeded. What it gets are the plain indices.
    """

    def __init__(self, indices: Any, seed: str) -> None:
        self.indices = indices
        self.seed = seed

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _seed_worker, (self.indices, self.seed)


def _seed_worker(indices: Any, seed: str) -> Any:
    number = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest())
    random.seed(number)
    sys.modules["torch"].manual_seed(number >> 1)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(number & 0xFFFFFFFF)
    return indices


def _epoch_seed(rank: int) -> str:
    """Return a text that depends on torch's generator, without drawing from it."""
    state = bytes(sys.modules["torch"].get_rng_state().tolist())  # NumPy may not be there
    return f"{hashlib.blake2b(state, digest_size=16).hexdigest()}/{rank}"

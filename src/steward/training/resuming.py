"""Continuing from a checkpoint: what it says about itself, whether it fits, and loading it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from steward.training.checkpoints import CheckpointFolder
from steward.training.protocol import MANIFEST, TrainingError, read_json
from steward.training.ranks import RankGroup
from steward.training.saving import read_checkpoint

__all__ = ["choose_checkpoint", "contents", "load_objects"]

log = logging.getLogger(__name__)

_REFUSED, _NONE = -2, -1  # what rank 0 tells the others instead of a step


def contents(objects: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Return the part of a manifest that later starts are checked against, and versions."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    versions = {"python": sys.version.split()[0]}
    if torch is not None:
        versions |= {"torch": str(torch.__version__), "cuda": str(torch.version.cuda or "")}
    if numpy is not None:
        versions["numpy"] = numpy.__version__
    return {
        "world_size": size,
        "contains": {name: type(each).__qualname__ for name, each in objects.items()},
        "versions": versions,
    }


def choose_checkpoint(
    folder: CheckpointFolder, ranks: RankGroup, names: Collection[str]
) -> tuple[Path | None, list[str]]:
    """Return the newest whole checkpoint, and on rank 0 why newer ones were passed over.

    Rank 0 chooses for all. What does not fit the ranks, or objects of these names, is refused.
    """
    step, refusal = _NONE, None
    passed: list[str] = []
    if ranks.rank == 0:
        try:
            step, passed = _newest_step(folder, ranks.size, names)
        except TrainingError as fault:
            step, refusal = _REFUSED, fault
        except OSError as fault:
            step, refusal = _REFUSED, TrainingError(str(fault), hint="may it be read?")
    step = ranks.from_first(step)
    if step == _REFUSED:
        raise refusal or TrainingError("rank 0 refused the checkpoint; its message says why")
    return None if step == _NONE else folder.at(step), passed


def _newest_step(
    folder: CheckpointFolder, size: int, names: Collection[str]
) -> tuple[int, list[str]]:
    folder.clean()
    found, passed = folder.newest_whole()
    for each in passed:
        log.warning("damaged checkpoint set aside: %s", each)
    if found is None:
        return _NONE, passed
    manifest = read_json(found / MANIFEST)
    _check(manifest, found, size, sorted(names))
    return int(manifest["step"]), passed


def _check(manifest: dict[str, Any], path: Path, size: int, given: list[str]) -> None:
    written_by = manifest["world_size"]
    if written_by != size:
        raise TrainingError(
            f"was written by {written_by} ranks; this training has {size}",
            where=str(path),
            hint=f"start it with {written_by} ranks, or in another folder to begin anew",
        )
    if sorted(manifest["contains"]) != given:
        inside = ", ".join(sorted(manifest["contains"]))
        raise TrainingError(
            f"holds {inside or 'nothing'}; attach was given {', '.join(given) or 'nothing'}",
            where=str(path),
            hint="hand in objects of the same names, or use another folder to begin anew",
        )


def load_objects(
    path: Path, rank: int, objects: Mapping[str, Any], stateful: Mapping[str, Any]
) -> dict[str, Any]:
    """Give the caller's objects their states back; return all states, those of the job too.

    `stateful` has what loads the state of each of `objects`.
    """
    states = read_checkpoint(path, rank, lambda name: _keeps_devices(objects.get(name)))
    for name, each in stateful.items():
        try:
            each.load_state_dict(states[name])
        except Exception as fault:
            raise TrainingError(
                f"`{name}` does not accept its state: {fault}",
                where=str(path),
                hint="was it built differently? use another folder to begin anew",
            ) from fault
    return states


def _keeps_devices(value: Any) -> bool:
    """Return False for what copies into memory of its own, wherever that is."""
    torch = sys.modules.get("torch")
    return value is not None and not (
        torch is not None
        and isinstance(value, torch.nn.Module | torch.optim.Optimizer | torch.Generator)
    )

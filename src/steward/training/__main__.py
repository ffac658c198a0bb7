"""`python -m steward.training status|verify FOLDER`: which checkpoints there are, and if whole."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from steward.training.checkpoints import CheckpointFolder, faults_of
from steward.training.protocol import (
    ANSWER,
    CAN_SAVE,
    CHECKPOINTS,
    DONE,
    MANIFEST,
    PROGRESS,
    REQUEST,
    TrainingError,
    read_json,
)

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Print what was found; return 0, 1 if a checkpoint is damaged, 2 for wrong use."""
    parser = argparse.ArgumentParser(prog="python -m steward.training", description=__doc__)
    parser.add_argument("command", choices=("status", "verify"), help="verify reads every byte")
    parser.add_argument("folder", type=Path, help="of a job, of its checkpoints, or one of them")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    try:
        found = _look(options.folder, whole=options.command == "verify")
    except TrainingError as fault:
        print(f"error: {fault}", file=sys.stderr)  # noqa: T201
        return 2
    print(json.dumps(found, indent=1) if options.json else _text(found))  # noqa: T201
    return int(any(each["faults"] for each in found["checkpoints"]))


def _look(folder: Path, *, whole: bool) -> dict[str, Any]:
    if not folder.is_dir():
        raise TrainingError("is no folder", where=str(folder), hint="name a job's folder")
    if (folder / MANIFEST).exists():
        paths = [folder]
    else:
        inner = folder / CHECKPOINTS
        paths = CheckpointFolder(inner if inner.is_dir() else folder).listed()
    records = {
        name: read_json(folder / name)
        for name in (CAN_SAVE, PROGRESS, REQUEST, ANSWER, DONE)
        if (folder / name).is_file()
    }
    return {"checkpoints": [_checkpoint(each, whole=whole) for each in paths], "files": records}


def _checkpoint(path: Path, *, whole: bool) -> dict[str, Any]:
    faults = faults_of(path, content=whole)
    manifest = {} if faults and not (path / MANIFEST).is_file() else _manifest(path)
    return {
        "path": str(path),
        "faults": faults,
        "verified": whole,
        **{key: manifest.get(key) for key in ("step", "epoch", "world_size", "contains")},
        "bytes": sum(each.stat().st_size for each in path.iterdir()),
    }


def _manifest(path: Path) -> dict[str, Any]:
    try:
        return read_json(path / MANIFEST)
    except TrainingError:
        return {}


def _text(found: dict[str, Any]) -> str:
    lines = []
    for each in found["checkpoints"]:
        state = "whole" if each["verified"] else "complete (content not read)"
        if each["faults"]:
            state = "DAMAGED: " + "; ".join(each["faults"])
        lines.append(
            f"{Path(each['path']).name}  step {each['step']}, epoch {each['epoch']},"
            f" {each['world_size']} ranks, {each['bytes'] / 2**20:.1f} MiB  {state}"
        )
    lines += [f"{name}  {json.dumps(record)}" for name, record in found["files"].items()]
    return "\n".join(lines) or "no checkpoints"


if __name__ == "__main__":
    sys.exit(main())

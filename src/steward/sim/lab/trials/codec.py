"""A judged trial as bytes and back, without pickles: a stranger's file can do no harm."""

from __future__ import annotations

import io
import json
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from steward.sim.lab.intervals import JobSample, Ladder
from steward.sim.lab.judge.measures import Measures, TenantMeasures, Timeline
from steward.sim.lab.trials.trial import Failed, Gantt, Judged, ReplayCharts

__all__ = ["DamagedError", "pack", "unpack"]

SHAPES = {
    each.__name__: each
    for each in (
        *(Failed, Gantt, Judged, Ladder, Measures, ReplayCharts),
        *(JobSample, TenantMeasures, Timeline),
    )
}
DIGEST_BYTES = 32


class DamagedError(Exception):
    """These bytes are not what was once packed."""


def pack(found: Judged | Failed) -> bytes:
    """Return a checksum, and behind it the arrays with a description of what they belong to."""
    arrays: list[np.ndarray] = []
    text = json.dumps(_plain(found, arrays), sort_keys=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, text=np.frombuffer(text.encode(), np.uint8), **_numbered(arrays))
    body = buffer.getvalue()
    return blake2b(body, digest_size=DIGEST_BYTES).digest() + body


def unpack(content: bytes) -> Judged | Failed:
    """Return what was packed; raise `DamagedError` for anything else."""
    digest, body = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    if blake2b(body, digest_size=DIGEST_BYTES).digest() != digest:
        raise DamagedError
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as file:
            text = json.loads(file["text"].tobytes())
            found = _whole(text, [file[f"a{i}"] for i in range(len(file.files) - 1)])
    except (ValueError, KeyError, TypeError, OSError) as fault:
        raise DamagedError from fault
    if not isinstance(found, Judged | Failed):
        raise DamagedError
    return found


def _numbered(arrays: list[np.ndarray]) -> dict[str, Any]:
    return {f"a{i}": array for i, array in enumerate(arrays)}


def _plain(value: object, arrays: list[np.ndarray]) -> object:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: _plain(getattr(value, each.name), arrays) for each in fields(value)}
        return {"is": type(value).__name__, "parts": parts}
    if isinstance(value, dict):
        return {"table": {key: _plain(value[key], arrays) for key in sorted(value)}}
    if isinstance(value, tuple):
        return [_plain(each, arrays) for each in value]
    return value


def _whole(value: Any, arrays: list[np.ndarray]) -> Any:  # noqa: ANN401 - JSON is anything
    if isinstance(value, list):
        return tuple(_whole(each, arrays) for each in value)
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "table" in value:
        return {key: _whole(each, arrays) for key, each in value["table"].items()}
    return SHAPES[value["is"]](**{k: _whole(v, arrays) for k, v in value["parts"].items()})

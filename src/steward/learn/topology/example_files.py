"""Scenes with what they measured, as files: what a training goes on from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from steward.errors import StewardError
from steward.learn.topology.graph_inputs import GraphInputs, joined
from steward.learn.topology.training import Example

__all__ = ["read_examples", "write_examples"]


def write_examples(file: Path, examples: Sequence[Example]) -> None:
    """Write examples to one file; it is there whole or not at all."""
    together = joined([each.inputs for each in examples])
    counts = [
        (len(each.inputs.job), len(each.inputs.link), len(each.inputs.entry)) for each in examples
    ]
    partial = file.with_suffix(".partial")
    with partial.open("wb") as target:
        np.savez_compressed(
            target,
            counts=np.array(counts, np.int64),
            measured=np.concatenate([each.measured for each in examples]),
            job=together.job.astype(np.float32),
            link=together.link.astype(np.float32),
            entry=together.entry.astype(np.float32),
            entry_job=together.entry_job.astype(np.int32),
            entry_link=together.entry_link.astype(np.int32),
            mean_field=together.mean_field,
        )
        target.flush()
        os.fsync(target.fileno())
    partial.replace(file)


def read_examples(file: Path) -> list[Example]:
    """Read the examples of one file."""
    try:
        with file.open("rb") as source, np.load(source, allow_pickle=False) as arrays:
            content = {name: arrays[name] for name in arrays.files}
        ends = np.concatenate([np.zeros((1, 3), np.int64), np.cumsum(content["counts"], axis=0)])
    except (OSError, ValueError, EOFError, KeyError, BadZipFile) as fault:
        raise StewardError(
            f"holds no scenes: {fault}", where=str(file), hint="delete it; it is made again"
        ) from fault
    out = []
    for (job, link, entry), (job_end, link_end, entry_end) in pairwise(ends):
        inputs = GraphInputs(
            job=content["job"][job:job_end].astype(np.float64),
            link=content["link"][link:link_end].astype(np.float64),
            entry=content["entry"][entry:entry_end].astype(np.float64),
            entry_job=content["entry_job"][entry:entry_end].astype(np.int64) - job,
            entry_link=content["entry_link"][entry:entry_end].astype(np.int64) - link,
            mean_field=content["mean_field"][job:job_end],
        )
        out.append(Example(inputs=inputs, measured=content["measured"][job:job_end]))
    return out

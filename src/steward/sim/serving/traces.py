"""Reads requests from files: checked, in their order, each with its deadline class.

Rows that cannot be used are left out and told about, with their line; nothing is dropped in
silence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError, did_you_mean
from steward.model.serving.requests import (
    BATCH,
    INTERACTIVE,
    DeadlineClass,
    RequestTrace,
    requests_of,
)
from steward.model.trace import RowFault
from steward.sim.serving.arrivals import draw_arrivals, generate_clients
from steward.sim.serving.request_rows import HINT, RequestRows, rows_of
from steward.sim.traces.locate import data_folder

__all__ = ["RequestOptions", "read_requests", "request_folder"]

USUAL_RATE = 5.0  # requests a second where a file has lengths only
USUAL_COUNT = 20_000  # requests drawn where a folder describes clients
MOONCAKE_BLOCK_TOKENS = 512
_BATCH_NAMES = ("arxiv", "summar", "batch")
_FILES = ("requests.csv", "lengths.csv", "requests.jsonl", "client_rates.csv")
_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """How to read a trace.

    Without a column `class`, all requests of a file are of `deadline_class`; without that, they
    are batch if its name holds "arxiv", "summar" or "batch", else interactive. `batch_share` of
    them, drawn by seed, are batch then.
    """

    limit: int | None = None  # requests, from the first on
    rate: float | None = None  # requests a second, on average; None: as recorded
    burst_cv: float | None = None  # of the gaps between arrivals, drawn anew; None: as recorded
    deadline_class: str = ""
    batch_share: float = 0.0
    classes: tuple[DeadlineClass, ...] = (INTERACTIVE, BATCH)
    seed: int = 0


def request_folder() -> Path:
    """Return the folder of named request traces, beside the one of job traces."""
    return data_folder().parent / "llm_traces"


def read_requests(path: str | Path, options: RequestOptions | None = None) -> RequestTrace:
    """Read a file or folder, or a name in the data folder."""
    asked = options or RequestOptions()
    file = _find(path)
    if file.name in ("client_rates.csv", "client_lengths.csv"):
        count = asked.limit or USUAL_COUNT
        found = generate_clients(file.parent, count=count, seed=asked.seed, rate=asked.rate)
        return _classified(found, None, asked)
    rows = rows_of(file)
    name = (file.parent.name if file.name in _FILES else "") or file.stem
    return _trace(rows, name, asked)


def _find(path: str | Path) -> Path:
    for place in (Path(path), request_folder() / path):
        if place.is_file():
            return place
        files = [place / name for name in _FILES if (place / name).is_file()]
        files = files or _only_one(place)
        if files:
            return files[0]
    folder = request_folder()
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    known = [each.name for each in inside if any((each / name).is_file() for name in _FILES)]
    nothing = f"give a file, or set STEWARD_DATA: {folder} holds no named traces"
    named = f"named traces: {', '.join(known)}" if known else nothing
    hint = did_you_mean(str(path), known) or named
    raise StewardError("there is no such request trace", where=str(path), hint=hint)


def _only_one(place: Path) -> list[Path]:
    """Return the file of a folder that has one, whatever its name."""
    if not place.is_dir():
        return []
    files = [each for each in place.iterdir() if each.is_file() and ".md" not in each.suffixes]
    return files if len(files) == 1 else []


def _trace(rows: RequestRows, name: str, asked: RequestOptions) -> RequestTrace:
    wrong = _wrong(rows, asked)
    usable = ~np.logical_or.reduce([mask for _, mask in wrong])
    faults = tuple(_fault(reason, mask, rows) for reason, mask in wrong if mask.any())
    keep = np.flatnonzero(usable)
    if rows.arrival_s is not None:
        keep = keep[np.argsort(rows.arrival_s[keep], kind="stable")]
    keep = keep[: asked.limit]
    if not len(keep):
        reasons = "; ".join(f"{each.reason} ({each.examples[0]})" for each in faults)
        problem = f"no row can be used: {reasons}" if reasons else "there are no rows"
        raise StewardError(problem, where=str(rows.file), hint=HINT)
    found = requests_of(
        name,
        arrival_s=_arrivals(rows, keep, asked),
        prompt_tokens=rows.prompt[keep].astype(np.int64),
        output_tokens=rows.output[keep].astype(np.int64),
        tenant=None if rows.tenant is None else [rows.tenant[row] for row in keep],
        model=None if rows.model is None else [rows.model[row] for row in keep],
        prefix=None if rows.prefix is None else [rows.prefix[row] or [] for row in keep],
        prefix_block_tokens=MOONCAKE_BLOCK_TOKENS if rows.prefix is not None else 0,
        origin=f"{rows.file} ({rows.format})",
        synthetic=rows.arrival_s is None or asked.burst_cv is not None,
        faults=faults,
    )
    recorded = rows.arrival_s is not None and asked.burst_cv is None
    if recorded and asked.rate is not None:
        found = found.at_rate(asked.rate)
    return _classified(found, None if rows.klass is None else [rows.klass[r] for r in keep], asked)


def _wrong(rows: RequestRows, asked: RequestOptions) -> list[tuple[str, NDArray[np.bool_]]]:
    checks = [
        ("the prompt's tokens are not a number above 0", ~(rows.prompt >= 1)),
        ("the output's tokens are not a number above 0", ~(rows.output >= 1)),
        ("the lengths are beyond any model's", (rows.prompt > 1e8) | (rows.output > 1e8)),
    ]
    if rows.arrival_s is not None:
        checks.append(("the time is not a number", ~np.isfinite(rows.arrival_s)))
    if rows.prefix is not None:
        bad = np.array([each is None for each in rows.prefix], bool)
        checks.append(("the prefix blocks are not whole numbers", bad))
    if rows.klass is not None:
        known = {"", *(each.name for each in asked.classes)}
        bad = np.array([each not in known for each in rows.klass], bool)
        checks.append((f"the class is none of {', '.join(sorted(known - {''}))}", bad))
    return checks


def _fault(reason: str, mask: NDArray[np.bool_], rows: RequestRows) -> RowFault:
    shown = np.flatnonzero(mask)[:_EXAMPLES].tolist()
    examples = tuple(rows.lines(shown).values())
    return RowFault(reason=reason, rows=int(mask.sum()), examples=examples)


def _arrivals(
    rows: RequestRows, keep: NDArray[np.int64], asked: RequestOptions
) -> NDArray[np.float64]:
    if rows.arrival_s is not None and asked.burst_cv is None:
        recorded: NDArray[np.float64] = rows.arrival_s[keep] - rows.arrival_s[keep[0]]
        return recorded
    rate = asked.rate or USUAL_RATE
    if asked.rate is None and rows.arrival_s is not None:
        span_s = float(rows.arrival_s[keep[-1]] - rows.arrival_s[keep[0]])
        rate = len(keep) / span_s if span_s > 0 else USUAL_RATE
    return draw_arrivals(len(keep), rate=rate, cv=asked.burst_cv or 1.0, seed=asked.seed)


def _classified(
    trace: RequestTrace, given: list[str] | None, asked: RequestOptions
) -> RequestTrace:
    """Give each request its class: see `RequestOptions`."""
    by_name = {each.name: each for each in asked.classes}
    if given is not None and not asked.deadline_class:
        names = list(by_name)
        codes = [names.index(each) if each else 0 for each in given]
        return replace(trace, classes=asked.classes, deadline_class=np.array(codes, np.int64))
    batch_like = any(word in trace.name.lower() for word in _BATCH_NAMES)
    usual = BATCH.name if batch_like else INTERACTIVE.name
    found = trace.in_class(by_name[asked.deadline_class or usual])
    if asked.batch_share > 0:
        draw = np.random.default_rng((asked.seed, 1))
        found = found.with_share(by_name[BATCH.name], draw.random(len(trace)) < asked.batch_share)
    return found

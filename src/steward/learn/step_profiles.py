"""Reads measured step times: a CSV with one row per kind of step, in the form of an H200's.

Columns: `model`, `kind` (prefill or decode), `batch`, `tokens` (of each prompt), `context` (cached
tokens of each sequence), `kv_bytes` (of all of them), `s`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from steward.errors import StewardError
from steward.learn.step_times import MeasuredStep, fit_step_times
from steward.model.serving.instance_type import InstanceType

__all__ = ["Profile", "instance_types", "read_profiles"]

_COLUMNS = ("model", "kind", "batch", "tokens", "context", "s")
_SHOWN = 10  # faults in one message
_FEWEST = 4  # measured steps of a model


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The measured steps of one model."""

    model: str
    steps: tuple[MeasuredStep, ...]


def instance_types(files: list[Path], like: InstanceType) -> tuple[InstanceType, ...]:
    """Return a type for each model in the files: its fitted step times, other limits as `like`."""
    found = [each for file in files for each in read_profiles(file)]
    return tuple(
        replace(like, name=each.model, model=each.model, step_times=fit_step_times(each.steps))
        for each in found
    )


def read_profiles(file: Path) -> tuple[Profile, ...]:
    """Read a profile; raise one error that names all its faults."""
    where = str(file)
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            lacking = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            rows = [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as fault:
        raise StewardError(f"is no CSV: {fault}", where=where, hint="give a CSV file") from None
    except OSError as fault:
        problem = f"cannot be read: {fault.strerror}"
        raise StewardError(problem, where=where, hint="give a file that is there") from fault
    if lacking:
        hint = f"a profile has the columns {', '.join(_COLUMNS)}"
        raise StewardError(f"lacks the columns {', '.join(lacking)}", where=where, hint=hint)
    steps: dict[str, list[MeasuredStep]] = {}
    faults = []
    for line, row in rows:
        step = _step(row)
        if isinstance(step, str):
            faults.append(f"line {line}: {step}")
        else:
            steps.setdefault(row["model"], []).append(step)
    faults += [
        f"{model or 'a model without a name'} has {len(found)} steps, at least {_FEWEST} are needed"
        for model, found in steps.items()
        if len(found) < _FEWEST or not model
    ]
    if not rows:
        faults.append("it has no rows")
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        problem = "; ".join(faults[:_SHOWN]) + more
        raise StewardError(problem, where=where, hint="correct or remove these rows")
    return tuple(Profile(model=model, steps=tuple(found)) for model, found in steps.items())


def _step(row: Mapping[str, str | None]) -> MeasuredStep | str:
    """Return the measured step of a row, or what is wrong with it."""
    kind = row["kind"]
    if kind not in ("prefill", "decode"):
        return f"kind is '{kind}', not prefill or decode"
    length = "tokens" if kind == "prefill" else "context"
    numbers = {name: _number(row[name]) for name in ("batch", length, "s")}
    wrong = [
        f"{name} is '{row[name]}', not a number above 0" for name, v in numbers.items() if not v
    ]
    if wrong:
        return ", ".join(wrong)
    batch, tokens, s = numbers["batch"], numbers[length], numbers["s"]
    if kind == "prefill":
        pairs = batch * tokens * tokens / 2
        return MeasuredStep(s=s, prefill_tokens=batch * tokens, attention_pairs=pairs)
    return MeasuredStep(s=s, decode_sequences=batch, kv_tokens=batch * tokens)


def _number(text: str | None) -> float:
    """Return a number above 0, or 0 for anything else."""
    try:
        value = float(text or "")
    except ValueError:
        return 0.0
    return value if isfinite(value) and value > 0 else 0.0

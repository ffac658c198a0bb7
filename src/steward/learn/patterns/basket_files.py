"""Baskets as a Parquet file: a row per window, a column of levels per group, names within.

Groups are columns of names (`low`, `high`; null where not measured), so that any tool can read
them. What belongs to the whole, such as the names of the runs, is JSON in the file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from steward.errors import StewardError
from steward.learn.patterns.baskets import ABSENT, Baskets

__all__ = ["is_baskets_file", "read_about", "read_baskets", "write_baskets"]

_KEY, _FORM = "steward.baskets", 1
_RUN, _RUN_NAME, _LABEL, _START = "_run", "_run_name", "_label", "_start_s"
_MAGIC = b"PAR1"


def is_baskets_file(path: Path) -> bool:
    """Return whether this is a file that `write_baskets` has written, not raw telemetry."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            return False
    try:
        return _KEY in pl.read_parquet_metadata(path)
    except PolarsError:
        return False


def write_baskets(baskets: Baskets, path: Path, *, about: Mapping[str, Any] | None = None) -> None:
    """Write baskets; `about` is kept beside them: what they were learnt from, cuts and why."""
    _refuse_names(baskets, path)
    runs = pl.Series(baskets.runs, dtype=pl.String)
    columns = {
        _RUN: pl.Series(baskets.run, dtype=pl.Int32),
        _RUN_NAME: runs.gather(baskets.run),
        _START: pl.Series(baskets.start_s, dtype=pl.Float64),
    }
    if baskets.labels:
        columns[_LABEL] = pl.Series(baskets.labels, dtype=pl.String).gather(baskets.run)
    for place, (group, names) in enumerate(zip(baskets.groups, baskets.level_names, strict=True)):
        codes = pl.Series(group, baskets.levels[:, place])
        known = codes.to_frame().select(pl.when(pl.col(group) < len(names)).then(pl.col(group)))
        columns[group] = pl.Series(names, dtype=pl.Enum(names)).gather(known.to_series())
    whole = {
        "form": _FORM,
        "groups": baskets.groups,
        "level_names": baskets.level_names,
        "runs": baskets.runs,
        "labels": baskets.labels,
        "window_s": baskets.window_s,
        "about": about or {},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(columns).write_parquet(path, metadata={_KEY: json.dumps(whole)})


def read_baskets(path: Path) -> Baskets:
    """Read what `write_baskets` has written."""
    whole = _metadata(path)
    try:
        table = pl.read_parquet(path, glob=False)
        groups = tuple(whole["groups"])
        levels = np.full((len(table), len(groups)), ABSENT, np.uint8)
        for place, group in enumerate(groups):
            levels[:, place] = table[group].to_physical().fill_null(ABSENT).to_numpy()
        return Baskets(
            groups=groups,
            level_names=tuple(tuple(names) for names in whole["level_names"]),
            levels=levels,
            runs=tuple(whole["runs"]),
            run=table[_RUN].to_numpy(),
            start_s=table[_START].to_numpy(),
            window_s=float(whole["window_s"]),
            labels=tuple(whole["labels"]),
        )
    except (PolarsError, KeyError, TypeError, ValueError) as fault:
        raise _broken(path, fault) from fault


def read_about(path: Path) -> Mapping[str, Any]:
    """Return what was kept beside the baskets: inputs, groups, cuts and why."""
    about = _metadata(path).get("about", {})
    return about if isinstance(about, Mapping) else {}


def _metadata(path: Path) -> dict[str, Any]:
    if not path.is_file():
        problem = "this is no file" if path.exists() else "there is no such file"
        raise StewardError(problem, where=str(path), hint=_WRITTEN_BY)
    try:
        found = pl.read_parquet_metadata(path).get(_KEY)
        whole = None if found is None else json.loads(found)
    except (PolarsError, ValueError) as fault:
        raise _broken(path, fault) from fault
    if not isinstance(whole, dict):
        raise StewardError("this file holds no baskets", where=str(path), hint=_WRITTEN_BY)
    if whole.get("form") != _FORM:
        problem = f"the baskets are in form {whole.get('form')}, and this version reads {_FORM}"
        raise StewardError(problem, where=str(path), hint="make them again: " + _WRITTEN_BY)
    return whole


_WRITTEN_BY = "`steward learn baskets PATH... --out FILE` writes them"


def _broken(path: Path, fault: Exception) -> StewardError:
    problem = f"the file is broken: {' '.join(str(fault).split())[:200]}"
    return StewardError(problem, where=str(path), hint=_WRITTEN_BY)


def _refuse_names(baskets: Baskets, path: Path) -> None:
    faults = [f"'{group}' begins with _" for group in baskets.groups if group.startswith("_")]
    faults += [
        f"two groups are called '{group}'"
        for group in sorted({g for g in baskets.groups if baskets.groups.count(g) > 1})
    ]
    faults += [
        f"'{group}' has two levels of one name"
        for group, names in zip(baskets.groups, baskets.level_names, strict=True)
        if len({*names}) < len(names)
    ]
    if faults:
        hint = "each group and each of its levels needs a name of its own"
        raise StewardError("; ".join(faults), where=str(path), hint=hint)

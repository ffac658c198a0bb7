"""Which runs are compared with which: by label, by a file of labels, or before and after a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError, did_you_mean
from steward.learn.patterns.baskets import Baskets

__all__ = ["Sides", "before_and_after", "compared_sides", "with_labels"]

_MOST_TARGETS = 32  # labels that are each compared with all others, those of most runs
_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Two sets of runs with their names."""

    target: str
    against: str
    is_target: NDArray[np.bool_]
    is_other: NDArray[np.bool_]


def with_labels(baskets: Baskets, labels: Mapping[str, str]) -> tuple[Baskets, int]:
    """Return the baskets with these labels, and how many runs have none.

    A run's part on one host (`run-7/n01`) has the label of the run, unless it has its own.
    """
    found = tuple(
        labels.get(run) or labels.get(run.rpartition("/")[0]) or "" for run in baskets.runs
    )
    if not any(found):
        raise StewardError(
            "no run of the baskets has a label in the file",
            where="labels",
            hint=f"runs are called as in: {', '.join(baskets.runs[:3])}",
        )
    return replace(baskets, labels=found), found.count("")


def before_and_after(baskets: Baskets, t_s: float) -> tuple[Sides, int]:
    """Return runs that ended before a time, and those that began after it; the others are counted.

    The target is what comes after.
    """
    first = np.full(len(baskets.runs), np.inf)
    last = np.full(len(baskets.runs), -np.inf)
    np.minimum.at(first, baskets.run, baskets.start_s)
    np.maximum.at(last, baskets.run, baskets.start_s)
    seen = np.isfinite(first)
    after, before = seen & (first >= t_s), seen & (last < t_s)
    across = int((seen & ~after & ~before).sum())
    return Sides(target="after", against="before", is_target=after, is_other=before), across


def compared_sides(
    baskets: Baskets, target: str | None, against: str | None, *, fewest_runs: int
) -> tuple[tuple[Sides, ...], tuple[str, ...]]:
    """Return what is compared, and labels that are not: they have too few runs, or are too many.

    `target` and `against` are patterns such as `train*`. Without a target each label of enough
    runs is compared with all other runs; of two labels only the first is.
    """
    labels = baskets.labels
    counts = Counter(label for label in labels if label)
    if len(counts) < 2 and against is None:
        has = f"only the label '{next(iter(counts))}'" if counts else "no label at all"
        raise StewardError(
            f"there is nothing to compare: the runs have {has}",
            where="labels",
            hint="give --labels FILE (run,label), or --before TIME to compare by time",
        )
    if target is not None:
        return (_sides(labels, counts, target, against),), ()
    enough = [label for label, many in counts.most_common() if many >= fewest_runs]
    chosen = enough[: 1 if len(counts) == 2 else _MOST_TARGETS]
    if not chosen:
        raise StewardError(
            f"none of {len(counts):,} labels has {fewest_runs} runs",
            where="labels",
            hint="give coarser labels with --labels, or name several as in --target 'train*'",
        )
    left_out = () if len(counts) == 2 else tuple(each for each in counts if each not in {*chosen})
    return tuple(_sides(labels, counts, _literal(each), against) for each in chosen), left_out


def _literal(label: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in label)


def _sides(
    labels: tuple[str, ...], counts: Counter[str], target: str, against: str | None
) -> Sides:
    chosen = {label for label in counts if fnmatchcase(label, target)}
    others = {
        label
        for label in counts
        if label not in chosen and (against is None or fnmatchcase(label, against))
    }
    for pattern, found in ((target, chosen), (against or "all others", others)):
        if not found:
            shown = ", ".join(sorted(counts)[:_SHOWN])
            hint = did_you_mean(pattern, counts) or f"labels are: {shown}"
            raise StewardError(f"no label is like '{pattern}'", where="labels", hint=hint)
    name = next(iter(chosen)) if len(chosen) == 1 else target
    return Sides(
        target=name,
        against=against or "all others",
        is_target=np.array([label in chosen for label in labels]),
        is_other=np.array([label in others for label in labels]),
    )

"""The trained graph network: read from a file of arrays, evaluated with numpy.

It corrects the mean field: residual quantiles of log(measured / mean field) per job. Outside of
what it was trained on it abstains, and the mean field stands.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import cast
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.learn.topology.graph_inputs import (
    ENTRY_FEATURES,
    JOB_FEATURES,
    LINK_FEATURES,
    GraphInputs,
)

__all__ = ["LEVELS", "ROUNDS", "WIDTH", "GraphNetwork", "Hull", "shipped_network"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ROUNDS = 4
WIDTH = 32
LEVELS = (0.1, 0.5, 0.9)  # quantiles that it gives
_FORMAT = 1
_MARGIN = 0.1  # of a feature's range, that still counts as seen
_SHIPPED = "residual.npz"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hull:
    """The range of every feature that was trained on, with a margin."""

    job: Floats  # lowest and highest of each feature
    link: Floats
    entry: Floats

    @classmethod
    def around(cls, graphs: Sequence[GraphInputs]) -> Hull:
        """Return the ranges of these graphs, without the rarest thousandth at each end."""
        ranges = {}
        for name in ("job", "link", "entry"):
            rows = np.concatenate([getattr(each, name) for each in graphs])
            low, high = np.quantile(rows, [0.0005, 0.9995], axis=0)
            margin = _MARGIN * (high - low) + 1e-6
            ranges[name] = np.stack([low - margin, high + margin])
        return cls(**ranges)

    def holds(self, inputs: GraphInputs) -> Bools:
        """Return whether each job, its links and its entries are within the ranges."""
        inside = _within(inputs.job, self.job)
        met = _within(inputs.link, self.link)[inputs.entry_link] & _within(inputs.entry, self.entry)
        outside = np.bincount(inputs.entry_job[~met], minlength=len(inside))
        return cast("Bools", inside & (outside == 0))


def _within(rows: Floats, limits: Floats) -> Bools:
    return cast("Bools", ((rows >= limits[0]) & (rows <= limits[1])).all(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphNetwork:
    """Weights by name, scales of the features, and what they were learned from."""

    weights: Mapping[str, Singles]
    scales: Mapping[str, Floats]
    hull: Hull

    @staticmethod
    def shapes() -> dict[str, tuple[int, int]]:
        """Return rows and columns of each array of weights."""
        jobs, links, entries = len(JOB_FEATURES), len(LINK_FEATURES), len(ENTRY_FEATURES)
        shapes = {"job": (jobs, WIDTH), "job bias": (1, WIDTH)}
        shapes |= {"link": (links, WIDTH), "link bias": (1, WIDTH)}
        for each in range(ROUNDS):
            for here, there in (("job", "link"), ("link", "job")):
                shapes[f"{each} {here} to {there}"] = (WIDTH, WIDTH)
                shapes[f"{each} entry to {there}"] = (entries, WIDTH)
                shapes[f"{each} to {there} bias"] = (1, WIDTH)
                shapes[f"{each} {there} keeps"] = (WIDTH, WIDTH)
                shapes[f"{each} {there} hears"] = (2 * WIDTH, WIDTH)
                shapes[f"{each} {there} bias"] = (1, WIDTH)
        shapes |= {"read": (WIDTH, WIDTH), "read job": (jobs, WIDTH), "read bias": (1, WIDTH)}
        return shapes | {"out": (WIDTH, len(LEVELS)), "out bias": (1, len(LEVELS))}

    @property
    def parameters(self) -> int:
        """How many numbers were learned."""
        return sum(int(each.size) for each in self.weights.values())

    def residuals(self, inputs: GraphInputs) -> Floats:
        """Return the quantiles of log(measured / mean field), a row per job."""
        weights = self.weights
        job_rows = self._scaled("job", inputs.job)
        entry = self._scaled("entry", inputs.entry)
        job = _relu(job_rows @ weights["job"] + weights["job bias"])
        link = _relu(self._scaled("link", inputs.link) @ weights["link"] + weights["link bias"])
        by_job, by_link = _Groups(inputs.entry_job, len(job)), _Groups(inputs.entry_link, len(link))
        for each in range(ROUNDS):
            own = {name: weights[f"{each} {name}"] for name in _PARTS}
            sent = (job @ own["job to link"])[inputs.entry_job] + entry @ own["entry to link"]
            met = by_link.gathered(_relu(sent + own["to link bias"]))
            kept = link @ own["link keeps"] + met @ own["link hears"]
            link = link + _relu(kept + own["link bias"])
            sent = (link @ own["link to job"])[inputs.entry_link] + entry @ own["entry to job"]
            met = by_job.gathered(_relu(sent + own["to job bias"]))
            kept = job @ own["job keeps"] + met @ own["job hears"]
            job = job + _relu(kept + own["job bias"])
        read = job @ weights["read"] + job_rows @ weights["read job"]
        out = _relu(read + weights["read bias"]) @ weights["out"] + weights["out bias"]
        low, middle, high = out.astype(np.float64).T
        spread = np.stack(
            [-np.logaddexp(0.0, low - 3.0), 0.0 * middle, np.logaddexp(0.0, high - 3.0)]
        )
        return cast("Floats", (middle + float(self.scales["interval"][0]) * spread).T)

    def slowdowns(self, inputs: GraphInputs) -> Floats:
        """Return low, middle and high slowdown of each job; NaN where it abstains.

        A job that meets nobody is as fast as alone: there is nothing to correct.
        """
        predicted = inputs.mean_field[:, None] * np.exp(self.residuals(inputs))
        predicted = np.maximum(predicted, 1.0)
        predicted[np.bincount(inputs.entry_job, minlength=len(predicted)) == 0] = 1.0
        predicted[~self.hull.holds(inputs)] = np.nan
        return predicted

    def calibrated(self, held_out: Sequence[tuple[GraphInputs, Floats]]) -> GraphNetwork:
        """Return the same with intervals that hold as often as they say, on scenes held out.

        One factor widens or narrows all of them (conformal prediction); contended jobs count.
        """
        off = []
        for inputs, measured in held_out:
            low, middle, high = self.residuals(inputs).T
            target = np.log(measured / inputs.mean_field)
            side = np.where(target < middle, middle - low, high - middle)
            off.append((np.abs(target - middle) / np.maximum(side, 1e-9))[measured > 1.05])
        ratios = np.concatenate([*off, np.zeros(0)])
        if not len(ratios):
            return self
        factor = float(np.quantile(ratios, LEVELS[-1] - LEVELS[0]))
        interval = self.scales["interval"] * factor
        return replace(self, scales={**self.scales, "interval": interval})

    def _scaled(self, name: str, rows: Floats) -> Singles:
        scaled = (rows - self.scales[f"{name}_mean"]) / self.scales[f"{name}_spread"]
        return np.clip(scaled, -5.0, 5.0).astype(np.float32)

    def to_bytes(self) -> bytes:
        """Return the content of a file that `from_file` reads."""
        arrays: dict[str, NDArray[np.generic]] = {"format": np.array([_FORMAT])}
        arrays |= {f"weight/{name}": each for name, each in self.weights.items()}
        arrays |= {f"scale/{name}": each for name, each in self.scales.items()}
        hull = self.hull
        arrays |= {"hull/job": hull.job, "hull/link": hull.link, "hull/entry": hull.entry}
        target = io.BytesIO()
        np.savez_compressed(target, **arrays)  # type: ignore[arg-type]  # names are arguments
        return target.getvalue()

    @classmethod
    def from_file(cls, file: Path) -> GraphNetwork:
        """Read a network that was exported; fail on one that this version does not know."""
        try:
            with file.open("rb") as source, np.load(source, allow_pickle=False) as arrays:
                content = {name: arrays[name] for name in arrays.files}
        except (OSError, ValueError, EOFError, BadZipFile) as fault:
            raise StewardError(
                f"holds no network: {fault}", where=str(file), hint="train one: fabric train"
            ) from fault
        return _checked(content, str(file))


_PARTS = (
    *("job to link", "entry to link", "to link bias", "link keeps", "link hears", "link bias"),
    *("link to job", "entry to job", "to job bias", "job keeps", "job hears", "job bias"),
)


def _relu(rows: Singles) -> Singles:
    return np.maximum(rows, 0.0)


class _Groups:
    """Rows that belong together, to be summed and compared."""

    def __init__(self, index: Ints, groups: int) -> None:
        self._sorted = bool(np.all(np.diff(index) >= 0))
        self._order = np.argsort(index, kind="stable")
        counts = np.bincount(index, minlength=groups)
        self._kept = np.flatnonzero(counts)
        self._first = (np.cumsum(counts) - counts)[self._kept]
        self._groups = groups

    def gathered(self, messages: Singles) -> Singles:
        """Return the logarithm of the sum, and the maximum, of each group's messages."""
        width = messages.shape[1]
        out = np.zeros((self._groups, 2 * width), np.float32)
        if not len(messages):
            return out
        rows = messages if self._sorted else messages[self._order]
        out[self._kept, :width] = np.log1p(np.add.reduceat(rows, self._first, axis=0))
        out[self._kept, width:] = np.maximum.reduceat(rows, self._first, axis=0)
        return out


def _checked(content: Mapping[str, NDArray[np.generic]], where: str) -> GraphNetwork:
    def of(kind: str) -> dict[str, NDArray[np.generic]]:
        start = f"{kind}/"
        return {name[len(start) :]: content[name] for name in content if name.startswith(start)}

    hint = "train one with this version: fabric train"
    if "format" not in content or int(content["format"][0]) != _FORMAT:
        raise StewardError(f"is not of format {_FORMAT}", where=where, hint=hint)
    weights = of("weight")
    for name, (rows, columns) in GraphNetwork.shapes().items():
        if name not in weights or weights[name].size != rows * columns:
            raise StewardError(
                f"lacks the array `{name}`, or it has another size", where=where, hint=hint
            )
    hull = of("hull")
    return GraphNetwork(
        weights=cast("Mapping[str, Singles]", weights),
        scales=cast("Mapping[str, Floats]", of("scale")),
        hull=Hull(**cast("Mapping[str, Floats]", hull)),
    )


def shipped_network() -> GraphNetwork | None:
    """Return the network that comes with steward, if there is one."""
    place = resources.files("steward.learn.topology") / _SHIPPED
    if not place.is_file():
        return None
    with resources.as_file(place) as file:
        return GraphNetwork.from_file(file)

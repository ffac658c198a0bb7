"""The metric and the device of a column of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steward.model.metric import Metric
from steward.model.metrics import VOCABULARIES, aliases_from, metric

__all__ = ["TRIED", "ColumnNames", "ImportedColumn"]

_ORDER = ("canonical", "dcgm", "node_exporter", "h200", "nvidia_smi", "otel", "nvml", "linux")
TRIED = tuple(each for each in _ORDER if each in VOCABULARIES)
# `gpu0_power_w`, `GPU0:util`, `gpu.0.temp_c`, `gpu_3/sm_active`, `[gpu2] power`
_DEVICE = re.compile(
    r"^\[?(?P<kind>gpu|cpu|numa)[._]?(?P<number>\d{1,4})\]?[\s._:/-]+(?P<rest>.+)$", re.I
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedColumn:
    """A column of a file: what it measures, if that is known, and of what."""

    name: str
    metric: Metric | None = None
    scale: float = 1.0
    device: str = ""  # `gpu3`, where the name has it
    vocabulary: str = ""


class ColumnNames:
    """The vocabularies that are tried, in this order, after the user's own mapping."""

    def __init__(self, vocabularies: Sequence[str], given: Mapping[str, tuple[str, float]]) -> None:
        self._tables = [(each, aliases_from(each)) for each in vocabularies]
        self._given = given

    def column(self, name: str) -> ImportedColumn:
        """Return what a column is."""
        found = self._look_up(name, name, device="")
        if found is not None:
            return found
        match = _DEVICE.match(name)
        if match:
            device = f"{match['kind'].lower()}{int(match['number'])}"
            kind = match["kind"].lower()
            for alias in (match["rest"], f"{kind}_{match['rest']}", f"{kind}.{match['rest']}"):
                found = self._look_up(name, alias, device=device)
                if found is not None:
                    return found
            return ImportedColumn(name=name, device=device)
        return ImportedColumn(name=name)

    def _look_up(self, name: str, alias: str, *, device: str) -> ImportedColumn | None:
        if name in self._given or alias in self._given:
            ours, scale = self._given.get(name) or self._given[alias]
            return ImportedColumn(name=name, metric=metric(ours), scale=scale, device=device)
        for vocabulary, table in self._tables:
            if alias in table:
                known, entry = table[alias]
                return ImportedColumn(
                    name=name,
                    metric=known,
                    scale=entry.scale,
                    device=device,
                    vocabulary=vocabulary,
                )
        return None

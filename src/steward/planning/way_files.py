"""Ways to run a job from a file: what other estimators, or people, have written as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from steward.errors import StewardError
from steward.model.planning.plan import Range, Way

__all__ = ["read_ways"]

_HINT = (
    'as [{"gpu_model": "A100", "gpus": 1, "run_s": {"low": 3600, "mid": 5400, "high": 9000}, '
    '"watts": {"low": 200, "mid": 300, "high": 400}}]'
)


class _Quantiles(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False)
    low: float
    mid: float
    high: float

    @property
    def range(self) -> Range:
        return Range(low=self.low, mid=self.mid, high=self.high)


class _WayRecord(BaseModel):
    model_config = ConfigDict(extra="forbid")
    gpu_model: str = ""
    gpus: int = Field(0, ge=0)
    run_s: _Quantiles
    watts: _Quantiles = _Quantiles(low=0.0, mid=0.0, high=0.0)
    batch: int | None = None
    gpu_memory_bytes: int = Field(0, ge=0)
    most_nodes: int | None = None
    basis: str = ""

    def way(self) -> Way:
        more: dict[str, Any] = {"run_s": self.run_s.range, "watts": self.watts.range}
        return Way(**(self.model_dump() | more))


_WAYS = TypeAdapter(list[_WayRecord])


def read_ways(path: Path) -> tuple[Way, ...]:
    """Return the ways of a file, or raise all that is wrong with them."""
    try:
        records = _WAYS.validate_json(path.read_bytes())
    except OSError as fault:
        raise StewardError(
            f"it cannot be read: {(fault.strerror or str(fault)).lower()}",
            where=str(path),
            hint="name a file with a list of ways",
        ) from fault
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}"
            for each in error.errors(include_url=False)[:10]
        )
        raise StewardError(faults, where=str(path), hint=_HINT) from None
    if not records:
        raise StewardError("there is no way in it", where=str(path), hint=_HINT)
    return tuple(each.way() for each in records)

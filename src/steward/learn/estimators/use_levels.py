"""Estimator of how busy the owners of GPUs keep them, over minutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.model.forecast import BUSY_SHARE, About, Forecast, ForecastColumn
from steward.model.job import JobRequest
from steward.model.outcome import Outcome
from steward.model.view import ClusterView

__all__ = ["UseLevels"]

Floats = NDArray[np.float64]
Z95 = 1.645  # of one side


class UseLevels:
    """Average the busy share of each GPU's owner, older samples faded by half in `half_life_s`.

    The high end is what its owner stays below in about 19 of 20 looks. Known when a job has been
    looked at for `after_s` on that GPU; a look without a sample begins anew.
    """

    def __init__(self, *, half_life_s: float = 300.0, after_s: float = 600.0) -> None:
        self.name = "use-levels"
        self.half_life_s = half_life_s
        self.after_s = after_s
        self._t_s = float("nan")
        self._ids: tuple[str, ...] = ()
        self._owners: NDArray[np.object_] = np.empty(0, dtype=object)
        self._since_s: Floats = np.empty(0)
        self._mean: Floats = np.empty(0)
        self._square: Floats = np.empty(0)

    def learn(self, view: ClusterView, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the port's
        gpus = view.gpus
        ids = tuple(gpus.ids.tolist())
        names = np.append(view.jobs.ids, "")  # row -1: nobody
        owners, busy = names[gpus.owner], gpus.owner_busy_share
        if ids != self._ids or not view.t_s >= self._t_s:
            self._ids, self._owners = ids, np.full(len(ids), "", dtype=object)
            self._since_s, self._mean, self._square = np.full((3, len(ids)), np.nan)
        anew = (owners != self._owners) | np.isnan(self._mean) | np.isnan(busy)
        passed_s = view.t_s - self._t_s
        weight = np.where(anew, 1.0, 1.0 - 0.5 ** (passed_s / self.half_life_s))
        before, squared = np.where(anew, 0.0, self._mean), np.where(anew, 0.0, self._square)
        self._mean = before + weight * (busy - before)
        self._square = squared + weight * (busy**2 - squared)
        self._since_s = np.where(anew, view.t_s, self._since_s)
        self._owners, self._t_s = owners, view.t_s

    def predict(self, view: ClusterView) -> tuple[ForecastColumn, ...]:
        mid = low = high = np.full(len(view.gpus), np.nan)
        if tuple(view.gpus.ids.tolist()) == self._ids:
            known = (self._owners != "") & (self._t_s - self._since_s >= self.after_s)
            mid = np.where(known, self._mean, np.nan)
            spread = Z95 * np.sqrt(np.maximum(self._square - self._mean**2, 0.0))
            low, high = np.clip(mid - spread, 0.0, 1.0), np.clip(mid + spread, 0.0, 1.0)
        return (
            ForecastColumn(
                about=About.GPUS, quantity=BUSY_SHARE, low=low, mid=mid, high=high, basis=self.name
            ),
        )

    def estimate(self, _: JobRequest) -> tuple[Forecast, ...]:
        """Return nothing: it is about GPUs that are in use."""
        return ()

    # -- state ---------------------------------------------------------------------------------

    @property
    def state_version(self) -> int:
        return 1

    def save_state(self) -> dict[str, Any]:
        columns = {"since_s": self._since_s, "mean": self._mean, "square": self._square}
        return {
            "t_s": self._t_s,
            "gpus": list(self._ids),
            "owners": self._owners.tolist(),
            **{name: values.tolist() for name, values in columns.items()},
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        numbers = [np.array(state[name], dtype=float) for name in ("since_s", "mean", "square")]
        ids = tuple(str(each) for each in state["gpus"])
        owners = np.array([str(each) for each in state["owners"]], dtype=object)
        if {len(ids)} != {len(owners), *map(len, numbers)}:
            raise ValueError("its columns have different lengths")
        self._t_s, self._ids, self._owners = float(state["t_s"]), ids, owners
        self._since_s, self._mean, self._square = numbers

"""Estimator of what sharing links costs each application, from one moment of the fabric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.model.fabric.contention import Contention, JobColumns, of_entries, reduced
from steward.model.fabric.link_sharing import share_links
from steward.model.fabric.view import FabricView
from steward.model.forecast import About, Forecast, ForecastColumn
from steward.model.job import JobRequest
from steward.model.outcome import Outcome

__all__ = ["SHARING_SLOWDOWN", "LinkSharing", "contention_in"]

Floats = NDArray[np.float64]

SHARING_SLOWDOWN = "fabric.sharing_slowdown"  # iteration time against that without the others
_KEPT = 512  # errors, of which the interval is made
_FEW = 20
_PRIOR = 0.1  # error of the logarithm that is taken for granted before there are some
_PERIOD_S = 1.0  # the scale is free: shares decide
_LEAST = 1e-9


class LinkSharing:
    """The duty mean field on the links in use; its interval comes from errors seen before.

    Works without having learned. What it measures itself by is the slowdown that the view has for
    each application, where both are known.
    """

    name = "link-sharing"

    def __init__(self) -> None:
        self._errors: list[float] = []

    def learn(self, view: FabricView, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the port's
        """Compare what it would predict with the slowdowns that are measured."""
        predicted = _slowdowns(view)
        measured = view.applications.slowdown
        known = np.isfinite(predicted) & np.isfinite(measured) & (measured > 0.0)
        off = np.log(measured[known] / predicted[known])
        self._errors = [*self._errors, *np.clip(off, -2.0, 2.0).tolist()][-_KEPT:]

    def predict(self, view: FabricView) -> tuple[ForecastColumn, ...]:
        """Return the slowdown of each application; NaN where its paths or volumes are unknown."""
        middle = _slowdowns(view)
        low, high = self._interval()
        return (
            ForecastColumn(
                about=About.APPLICATIONS,
                quantity=SHARING_SLOWDOWN,
                low=np.maximum(1.0, middle * np.exp(low)),
                mid=middle,
                high=middle * np.exp(high),
                basis=f"{self.name}/1 from {len(self._errors)} measured slowdowns",
            ),
        )

    def estimate(self, _: JobRequest) -> tuple[Forecast, ...]:
        """Return nothing: where a job would go is not known before it is placed."""
        return ()

    def _interval(self) -> tuple[float, float]:
        """Return what to add to the logarithm: four of five errors were within."""
        if len(self._errors) < _FEW:
            return -_PRIOR, _PRIOR
        low, high = np.quantile(self._errors, [0.1, 0.9])
        return min(0.0, float(low)), max(0.0, float(high))

    @property
    def state_version(self) -> int:
        """Changes with the form of the state."""
        return 1

    def save_state(self) -> dict[str, Any]:
        """Return the errors."""
        return {"errors": np.array(self._errors)}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from saved errors."""
        errors = np.asarray(state["errors"], np.float64)
        self._errors = errors[np.isfinite(errors)].tolist()[-_KEPT:]


def contention_in(view: FabricView) -> tuple[Contention, NDArray[np.int64]]:
    """Return the applications whose paths and shares are known, on the links, and their rows."""
    columns, use = view.applications, view.use
    rows = [
        row
        for row in range(len(columns))
        if np.isfinite(columns.communication_share[row])
        and ((use.application == row) & (use.bytes_per_s > 0.0)).any()
    ]
    share = np.clip(columns.communication_share[rows], _LEAST, 1.0)
    overlap = np.nan_to_num(np.clip(columns.overlap_share[rows], 0.0, 0.99))
    entries, volume = [], []
    for row in rows:
        links, sent = view.used_by(row)
        busiest = float(sent.max())
        entries.append((links[sent > 0.0], sent[sent > 0.0] / busiest))
        volume.append(busiest * _PERIOD_S)
    known = view.topology.links.bytes_per_s
    capacity = np.where(np.isnan(known), np.inf, known)
    limit = np.array(volume) / (share * _PERIOD_S)  # what it reaches while it sends
    jobs = JobColumns(
        compute_s=np.maximum(_LEAST, (1.0 - share) / np.maximum(_LEAST, 1.0 - overlap)),
        overlap_share=overlap,
        volume_bytes=np.array(volume),
        rate_limit=np.maximum(limit, _fastest(entries, capacity)),
    )
    return of_entries(jobs, capacity, entries), np.array(rows, np.int64)


def _fastest(entries: Sequence[tuple[NDArray[np.int64], Floats]], capacity: Floats) -> Floats:
    """Return what each application's links would allow it alone; 0 where no capacity is known."""
    rates = [float(np.min(capacity[links] / flows)) for links, flows in entries]
    return np.array([rate if np.isfinite(rate) else 0.0 for rate in rates])


def _slowdowns(view: FabricView) -> Floats:
    found = np.full(len(view.applications), np.nan)
    if not len(view.applications):
        return found
    scene, rows = contention_in(view)
    if len(rows):
        found[rows] = share_links(reduced(scene, 1.0)[0]).slowdown
    return found

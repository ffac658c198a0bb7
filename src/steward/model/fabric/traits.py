"""What static traits of a program say about caps and delay, before anything was measured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.model.fabric.view import ApplicationColumns, FabricView

__all__ = ["Traits", "cap_loss", "delay_prior", "line_rate", "traits_of"]

Floats = NDArray[np.float64]
LEAST = (
    0.005  # per unit of 1/share - 1: a cap costs something even where all of it should be hidden
)


class Traits(NamedTuple):
    """Shares by application; what is unknown is taken for the worst that is plausible."""

    communication: Floats
    collective: Floats
    overlap: Floats


def traits_of(applications: ApplicationColumns) -> Traits:
    """Return the traits of applications: half communicates, nothing hidden, where unknown."""
    return Traits(
        communication=np.clip(np.nan_to_num(applications.communication_share, nan=0.5), 0.0, 1.0),
        collective=np.clip(np.nan_to_num(applications.collective_share, nan=0.5), 0.0, 1.0),
        overlap=np.clip(np.nan_to_num(applications.overlap_share, nan=0.0), 0.0, 1.0),
    )


def line_rate(view: FabricView) -> Floats:
    """Return what the slowest endpoint of each application can send; NaN where unknown."""
    topology = view.topology
    begin, rows = topology.out_links
    speed = topology.links.bytes_per_s
    found = []
    for job in view.applications.jobs:
        ends = view.endpoints.get(job, ())
        rates = [float(speed[rows[begin[end] : begin[end + 1]]].sum()) for end in ends]
        found.append(min(rates, default=float("nan")))
    return np.array(found, np.float64)


def cap_loss(traits: Traits, share: Floats) -> Floats:
    """Return the log of the slowdown if endpoints may send this share of their line rate.

    What computing hides costs nothing until it no longer fits beside it.
    """
    compute = 1.0 - traits.communication
    send = traits.communication * traits.collective
    chat = traits.communication - send
    tight = 1.0 / np.clip(share, 1e-3, 1.0)

    def step(stretch: Floats) -> Floats:
        exposed = (1.0 - traits.overlap) * compute + chat + send * stretch
        longest: Floats = np.maximum(np.maximum(compute, exposed), 1e-9)
        return longest

    loss: Floats = np.log(step(tight) / step(np.ones_like(tight))) + LEAST * (tight - 1.0)
    return loss


def delay_prior(applications: ApplicationColumns) -> Floats:
    """Return features from which the delay sensitivity of a program is guessed: one row each.

    A constant; what small messages would cost per millisecond; what exposed collectives would.
    """
    traits = traits_of(applications)
    best_ms = np.clip(np.nan_to_num(applications.best_delay_s, nan=2e-6) * 1e3, 1e-4, None)
    exposed = traits.communication * (1.0 - traits.overlap)
    chat = exposed * (1.0 - traits.collective) / best_ms
    return np.column_stack([np.ones(len(applications)), chat, exposed * traits.collective])

"""How much of the link others take, over time: flows whose sizes are drawn from a distribution."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError

__all__ = ["WEB_SEARCH", "Background", "flow_sizes"]

MOST = 0.95  # of the link: the rest is left to us even then
Floats = NDArray[np.float64]

# Bytes and cumulative percent, as published with DCTCP and used since (WebSearch).
WEB_SEARCH = (
    (0, 0), (10_000, 15), (20_000, 20), (30_000, 30), (50_000, 40), (80_000, 53), (200_000, 60),
    (1_000_000, 70), (2_000_000, 80), (5_000_000, 90), (10_000_000, 97), (30_000_000, 100),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Background:
    """The share of the link that others have in each slot of time; it repeats at its end."""

    share: Floats
    slot_s: float

    @classmethod
    def quiet(cls) -> Background:
        """Return a link without others."""
        return cls(share=np.zeros(1), slot_s=1.0)

    @classmethod
    def drawn(
        cls,
        mean_share: float,
        *,
        seed: int,
        bytes_per_s: float,
        slot_s: float = 1e-4,
        slots: int = 20_000,
        sizes: Floats | None = None,
    ) -> Background:
        """Return flows that arrive at random and take `mean_share` of the link on average.

        What does not fit into a slot waits for the next ones.
        """
        if not 0.0 <= mean_share < MOST:
            problem = f"a mean load of {mean_share}"
            raise StewardError(problem, where="load", hint=f"give 0 to below {MOST}")
        if mean_share == 0.0:
            return cls.quiet()
        draw = np.random.default_rng(seed)
        table = flow_sizes() if sizes is None else sizes
        per_slot = bytes_per_s * slot_s
        mean_bytes = float(np.sum((table[1:, 0] + table[:-1, 0]) / 2 * np.diff(table[:, 1])))
        flows = draw.poisson(mean_share * per_slot / mean_bytes, slots)
        bytes_ = np.interp(draw.random(int(flows.sum())), table[:, 1], table[:, 0])
        slot = np.repeat(np.arange(slots), flows)
        arrived = np.bincount(slot, weights=bytes_, minlength=slots)
        share, backlog = np.zeros(slots), 0.0
        for at in range(slots):
            backlog += arrived[at]
            sent = min(backlog, MOST * per_slot)
            backlog -= sent
            share[at] = sent / per_slot
        return cls(share=share, slot_s=slot_s)


def flow_sizes(file: Path | None = None) -> Floats:
    """Return sizes in bytes with the share of flows up to each, from a file or WebSearch."""
    if file is None:
        rows = np.array(WEB_SEARCH, np.float64)
    else:
        try:
            rows = np.loadtxt(file, ndmin=2)
        except (OSError, ValueError) as fault:
            hint = "each line has bytes and a cumulative percentage"
            raise StewardError(str(fault), where=str(file), hint=hint) from fault
    if rows.shape[1] != 2 or len(rows) < 2 or np.any(np.diff(rows, axis=0) < 0):
        hint = "each line has bytes and a cumulative percentage, both rising"
        raise StewardError("these are no flow sizes", where=str(file or ""), hint=hint)
    rows[:, 1] /= rows[-1, 1]
    return rows

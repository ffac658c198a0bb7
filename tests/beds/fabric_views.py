"""Views of a small fabric, as tests like them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from steward.model.fabric import shapes
from steward.model.fabric.view import (
    CAP_SENSITIVITY,
    DELAY_SENSITIVITY,
    ApplicationColumns,
    CongestionRegion,
    FabricView,
    LinkColumns,
    UseColumns,
)
from steward.model.forecast import About, ForecastColumn

LINE = 12.5e9
FABRIC = shapes.leaf_spine(leaves=2, nodes_per_leaf=4, spines=1)
UP, DOWN = FABRIC.link_row["leaf0>spine0"], FABRIC.link_row["spine0>leaf1"]
DEFAULTS = {
    "gpus": 8.0, "since_s": 0.0, "bytes_per_s": 1e9, "communication_share": 0.3,
    "collective_share": 0.9, "message_bytes": 1e6, "overlap_share": 0.95, "delay_s": 1e-4,
    "best_delay_s": 2e-6, "slowdown": 1.2, "cap_bytes_per_s": np.inf, "capped_since_s": np.nan,
}  # fmt: skip


def applications(**rows: Mapping[str, Any]) -> ApplicationColumns:
    """Return columns of jobs by name; what is not given is as in DEFAULTS."""
    filled = [{**DEFAULTS, **each} for each in rows.values()]
    columns = {name: np.array([row[name] for row in filled], np.float64) for name in DEFAULTS}
    return ApplicationColumns(
        jobs=tuple(rows),
        applications=tuple(str(row.get("application", job)) for job, row in rows.items()),
        tenants=tuple("bio" for _ in rows),
        **columns,
    )


def view(
    jobs: ApplicationColumns,
    use: Sequence[tuple[int, int, float]] = (),
    *,
    t_s: float = 100.0,
    stalled: float = 0.0,
    since_s: float = 0.0,
    **more: Any,
) -> FabricView:
    """Return a view; with `stalled`, both links between the leaves are a region."""
    links = LinkColumns.unknown(len(FABRIC.links))
    share = np.full(len(FABRIC.links), 0.0)
    share[[UP, DOWN]] = stalled
    table = np.array(use, np.float64).reshape(-1, 3)
    region = CongestionRegion(
        name="r", links=(UP, DOWN), stalled_share=stalled, level="high", since_s=since_s
    )
    return FabricView(
        t_s=t_s,
        topology=FABRIC,
        links=replace(links, stalled_share=share),
        applications=jobs,
        endpoints={
            job: (FABRIC.row[f"n{at % 4}"], FABRIC.row[f"n{4 + at % 4}"])
            for at, job in enumerate(jobs.jobs)
        },
        use=UseColumns(
            application=table[:, 0].astype(np.int64),
            link=table[:, 1].astype(np.int64),
            bytes_per_s=table[:, 2],
        ),
        regions=(region,) if stalled else (),
        **more,
    )


def believed(
    delay: Sequence[float], cap: Sequence[float], *, spread: float = 0.0
) -> tuple[Any, ...]:
    """Return forecasts of both sensitivities."""
    return tuple(
        ForecastColumn(
            about=About.APPLICATIONS,
            quantity=quantity,
            low=np.maximum(np.array(mid, np.float64) - spread, 0.0),
            mid=np.array(mid, np.float64),
            high=np.array(mid, np.float64) + spread,
            basis="test",
        )
        for quantity, mid in ((DELAY_SENSITIVITY, delay), (CAP_SENSITIVITY, cap))
    )

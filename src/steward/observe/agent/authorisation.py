"""Checks that a parcel is about what its sender may report: its own node, and jobs.

One node that is broken into must not be able to make another one look idle.
"""

from __future__ import annotations

from collections.abc import Iterator

from steward.errors import StewardError
from steward.model.cluster import Cluster
from steward.model.frame import ENTITY, T_S
from steward.model.job import Tenant
from steward.observe.agent.parcel import Parcel

__all__ = ["ANY_NODE", "check_authorised", "check_times"]

ANY_NODE = "*"  # in a token: may report all nodes, as the agent of a scheduler has to
MOST_AHEAD_S = 86_400.0


def check_authorised(parcel: Parcel, node: str) -> None:
    """Raise unless everything in a parcel is about `node`."""
    foreign = sorted({each for each in _entities(parcel) if not _is_of(each, node)})
    if foreign:
        shown = ", ".join(foreign[:5]) + (" ..." if len(foreign) > 5 else "")
        raise StewardError(
            f"an agent of '{node}' may not report {shown}",
            where="parcel",
            hint="a token made with `--node '*'` may; so may an agent that is called like its node",
        )
    favoured = [each.id for each in parcel.rest.tenants or () if each != Tenant(id=each.id)]
    if favoured:
        raise StewardError(
            f"an agent of '{node}' may name tenants, but not set what {favoured[0]} is entitled to",
            where="parcel",
            hint="a token made with `--node '*'` may",
        )


def check_times(parcel: Parcel, now_s: float) -> None:
    """Raise if anything in a parcel is long after now: samples, lines, events or spans."""
    newest_s = max(
        [
            *(float(table.column(T_S).max()) for table in parcel.tables if table.rows),
            *(line.t_s for line in parcel.rest.lines),
            *(event.t_s for event in parcel.rest.events),
            *(span.from_s for span in parcel.rest.spans),
            *(float(t_s) for t_s in parcel.rest.other[T_S]),
        ],
        default=now_s,
    )
    if newest_s > now_s + MOST_AHEAD_S:
        raise StewardError(
            f"it has samples that are {newest_s - now_s:.0f} s ahead of the server's clock",
            where="parcel",
            hint="set the clock of that node; the agent corrects it once it has reached the server",
        )


def _is_of(entity: str, node: str) -> bool:
    return entity == node or entity.startswith((f"{node}/", f"{node}@", "job:"))


def _entities(parcel: Parcel) -> Iterator[str]:
    for table in parcel.tables:
        yield from table.texts[ENTITY].distinct
    rest = parcel.rest
    yield from rest.other[ENTITY].unique()
    yield from (line.entity for line in rest.lines)
    yield from (span.entity for span in rest.spans)
    yield from (gpu for job in rest.jobs for gpu in job.gpus)
    yield from rest.health
    yield from rest.draining
    if rest.cluster is not None:
        yield from _parts(rest.cluster)


def _parts(cluster: Cluster) -> Iterator[str]:
    yield from (node.id for node in cluster.nodes)
    yield from (gpu.id for gpu in cluster.gpus)
    yield from (switch.id for switch in cluster.switches)
    yield from (end for link in cluster.links for end in (link.a, link.b))

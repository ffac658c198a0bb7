"""What the network sees of jobs on links: features of jobs, links and entries, and their order.

All are logarithms, shares or counts of a neighbourhood, so that a cluster eight times as large
shows the same range of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.model.fabric.contention import Contention, alone_rate, reduced
from steward.model.fabric.link_sharing import Sharing, share_links
from steward.model.fabric.link_signs import LinkSigns, as_counted

__all__ = ["ENTRY_FEATURES", "JOB_FEATURES", "LINK_FEATURES", "GraphInputs", "inputs_of", "joined"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

JOB_FEATURES = (
    "log slowdown by the mean field",
    "duty",
    "overlap share",
    "log of sending to computing, alone",
    "log of shared links",
    "incast share",
    "pause share",
)
LINK_FEATURES = (
    "log load",
    "log jobs",
    "tier",
    "log of counted capacity",
    "capacity is counted",
    "fault share",
    "log flows",
)
ENTRY_FEATURES = (
    "log flows",
    "share of flows",
    "log of the link's share to the job's rate",
    "log of the link to the job's rate, alone",
)
_MEET = 0.5  # links that could be half full at least are shown
_LEAST = 1e-6


class GraphInputs(NamedTuple):
    """One or several scenes as one graph. Entries are sorted by job."""

    job: Floats
    link: Floats
    entry: Floats
    entry_job: Ints
    entry_link: Ints
    mean_field: Floats  # slowdown of each job


def inputs_of(scene: Contention, signs: LinkSigns) -> GraphInputs:
    """Return the features of a scene, with capacities as configured, and its counters."""
    small, kept = reduced(as_counted(scene, signs), _MEET)
    sharing = share_links(small)
    entry_job = np.repeat(np.arange(small.compute_s.size), np.diff(small.job_first))
    return GraphInputs(
        job=_of_jobs(small, sharing, signs),
        link=_of_links(small, sharing, signs, kept),
        entry=_of_entries(small, sharing, entry_job),
        entry_job=entry_job,
        entry_link=small.link,
        mean_field=sharing.slowdown,
    )


def _log(values: Floats) -> Floats:
    return np.log(np.maximum(values, _LEAST))


def _of_jobs(scene: Contention, sharing: Sharing, signs: LinkSigns) -> Floats:
    sending = scene.volume_bytes / alone_rate(scene)
    many = np.ones(len(sending))
    columns = [
        _log(sharing.slowdown),
        sharing.duty,
        scene.overlap_share,
        np.clip(_log(sending) - _log(scene.compute_s), -6.0, 6.0),
        np.log1p(np.diff(scene.job_first)),
        signs.incast_share * many,
        signs.pause_share * many,
    ]
    return np.stack(columns, axis=1)


def _of_links(scene: Contention, sharing: Sharing, signs: LinkSigns, kept: Ints) -> Floats:
    jobs = np.bincount(scene.link, minlength=len(kept)).astype(np.float64)
    flows = np.bincount(scene.link, scene.flows, minlength=len(kept)).astype(np.float64)
    counted = signs.counted_share[kept]
    known = ~np.isnan(counted)
    columns = [
        np.log1p(sharing.load),
        _log(jobs),
        signs.tier[kept].astype(np.float64),
        np.where(known, _log(counted), 0.0),
        known.astype(np.float64),
        signs.fault_share[kept],
        _log(flows),
    ]
    return np.stack(columns, axis=1)


def _of_entries(scene: Contention, sharing: Sharing, job: Ints) -> Floats:
    own, link = scene.flows, scene.link
    all_flows = np.bincount(link, own, minlength=scene.capacity.size)[link]
    others = np.maximum(0.0, sharing.load[link] - own * sharing.duty[job])
    share = scene.capacity[link] / (own + others)
    columns = [
        _log(own),
        own / all_flows,
        np.clip(_log(share) - _log(sharing.rate[job]), -3.0, 6.0),
        np.clip(_log(scene.capacity[link] / own) - _log(alone_rate(scene)[job]), -3.0, 6.0),
    ]
    return np.stack(columns, axis=1)


def joined(graphs: Sequence[GraphInputs]) -> GraphInputs:
    """Return several graphs as one, without any edge between them."""
    job_before = np.cumsum([0, *(len(each.job) for each in graphs)])
    link_before = np.cumsum([0, *(len(each.link) for each in graphs)])
    return GraphInputs(
        job=np.concatenate([each.job for each in graphs]),
        link=np.concatenate([each.link for each in graphs]),
        entry=np.concatenate([each.entry for each in graphs]),
        entry_job=np.concatenate([each.entry_job + job_before[i] for i, each in enumerate(graphs)]),
        entry_link=np.concatenate(
            [each.entry_link + link_before[i] for i, each in enumerate(graphs)]
        ),
        mean_field=np.concatenate([each.mean_field for each in graphs]),
    )

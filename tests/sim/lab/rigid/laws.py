"""What must be true of every replay, whatever the policy: one function per law."""

from __future__ import annotations

from typing import Any

import numpy as np

from steward.model.machines import Machines
from steward.model.replay import Replay

SLACK_S = 1e-6


def assert_lawful(made: Replay) -> None:
    """Check all laws that need no more than the replay."""
    time_goes_forward(made)
    no_gpu_is_held_twice(made)
    no_node_holds_more_than_it_has(made)
    work_is_conserved(made)
    nobody_runs_before_it_may(made)


def time_goes_forward(made: Replay) -> None:
    spans = made.segments
    assert not np.isnan(spans.stop_s).any()
    assert (spans.stop_s >= spans.start_s).all()
    assert (np.diff(spans.start_s) >= 0).all()
    for job in range(len(made.trace)):
        mine = spans.job == job
        assert (spans.start_s[mine][1:] >= spans.stop_s[mine][:-1]).all()
        if mine.any():
            assert spans.start_s[mine][0] == made.start_s[job]
        if not np.isnan(made.end_s[job]):
            assert spans.stop_s[mine][-1] == made.end_s[job]
            assert mine.sum() == made.preemptions[job] + 1


def moments(made: Replay) -> Any:
    """Return a time inside every span in which nothing changes."""
    spans = made.segments
    changes_s = [change.t_s for change in made.machines.changes]
    times_s = np.concatenate([spans.start_s, spans.stop_s, made.trace.submit_s, changes_s])
    edges_s = np.unique(times_s)
    # Two events that rounding has parted by a hair are one.
    return ((edges_s[1:] + edges_s[:-1]) / 2)[np.diff(edges_s) > SLACK_S]


def running(made: Replay, t_s: float) -> Any:
    """Return which segments are open at a time."""
    return (made.segments.start_s < t_s) & (t_s < made.segments.stop_s)


def up_at(machines: Machines, t_s: float) -> Any:
    up = machines.up.copy()
    for change in sorted(machines.changes, key=lambda change: change.t_s):
        if change.t_s <= t_s:
            up[change.node] = change.up
    return up


def no_gpu_is_held_twice(made: Replay) -> None:
    for t_s in moments(made):
        there = made.machines.gpus[up_at(made.machines, t_s)].sum()
        assert made.segments.gpus[running(made, t_s)].sum() <= there + 1e-9


def no_node_holds_more_than_it_has(made: Replay) -> None:
    """Check nodes by the jobs that are on one node only, and that nothing is where nothing is."""
    spans, machines = made.segments, made.machines
    if (spans.node < 0).all():
        return
    for t_s in moments(made):
        now, up = running(made, t_s), up_at(machines, t_s)
        assert up[spans.node[now]].all()
        alone = now & (spans.nodes == 1)
        held = np.bincount(spans.node[alone], spans.gpus[alone], minlength=len(machines))
        held += np.bincount(spans.node[now & ~alone], minlength=len(machines))
        assert (held <= machines.gpus + 1e-9).all()


def work_is_conserved(made: Replay) -> None:
    spans = made.segments
    done_s = np.bincount(
        spans.job, (spans.stop_s - spans.start_s) * spans.speed, minlength=len(made.trace)
    )
    ended = ~np.isnan(made.end_s)
    wanted_s = made.trace.duration_s + made.lost_s
    assert np.allclose(done_s[ended], wanted_s[ended], rtol=0, atol=SLACK_S)


def nobody_runs_before_it_may(made: Replay) -> None:
    started = ~np.isnan(made.start_s)
    assert (made.start_s[started] >= made.trace.submit_s[started]).all()
    for job, before in made.trace.after:
        assert not made.start_s[job] < made.end_s[before]


def as_bytes(made: Replay) -> bytes:
    """Return everything that a replay says, but how long it took."""
    spans = made.segments
    columns = [made.start_s, made.end_s, made.preemptions, made.lost_s, made.quota]
    columns += [spans.job, spans.start_s, spans.stop_s, spans.gpus, spans.node, spans.nodes]
    return b"".join(np.asarray(column).tobytes() for column in [*columns, spans.speed])


def held_by_tenant(made: Replay, t_s: float) -> Any:
    """Return the GPUs of each tenant; the last is for jobs without one."""
    now = running(made, t_s)
    tenant = made.trace.tenant[made.segments.job[now]]
    return np.bincount(
        np.where(tenant < 0, len(made.trace.tenants), tenant),
        made.segments.gpus[now],
        minlength=len(made.trace.tenants) + 1,
    )


def waiting(made: Replay, t_s: float) -> Any:
    """Return the jobs that have come, have not ended, and do not run."""
    here = (made.trace.submit_s < t_s) & ~(made.end_s < t_s)
    here[made.segments.job[running(made, t_s)]] = False
    return np.flatnonzero(here)


def free_on_one_node(made: Replay, t_s: float) -> float:
    """Return the GPUs of the node with the most free ones, as far as one can tell.

    Where gangs span nodes it is not known what they hold beside their first node, so that all but
    wholly known nodes count as full.
    """
    now, machines = running(made, t_s), made.machines
    if (made.segments.nodes[now] > 1).any():
        return 0.0
    held = np.bincount(made.segments.node[now], made.segments.gpus[now], minlength=len(machines))
    return float(((machines.gpus - held) * up_at(machines, t_s)).max())


def short_of_guarantee(made: Replay, *, placed: bool = False) -> list[tuple[float, int]]:
    """Return when which job waited although its tenant's guarantee had room for it.

    Where jobs are `placed`, a gang may find no node with enough GPUs: it must wait no longer than
    until there is one. A single GPU is a place anywhere.
    """
    found = []
    for t_s in moments(made):
        held, most = held_by_tenant(made, t_s), free_on_one_node(made, t_s) if placed else np.inf
        for job in waiting(made, t_s):
            tenant, gpus = made.trace.tenant[job], made.trace.gpus[job]
            within = held[tenant] + gpus <= made.quota[tenant] - 1e-3
            if within and (gpus == 1 or gpus <= most):
                found.append((float(t_s), int(job)))
    return found

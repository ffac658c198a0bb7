"""Jobs and states of nodes as schedulers wrote them down, for what faults did to them.

Belongs here: accounting and events of Slurm and Kubernetes as files. Does not: the live queues
(`observe.collectors`), traces for replays (`sim.traces`).
"""

from __future__ import annotations

from steward.observe.accounting.files import Accounts, read_accounts
from steward.observe.accounting.kubernetes_objects import read_objects
from steward.observe.accounting.slurm_tables import (
    read_events,
    read_jobs,
    read_nodes,
    read_shown_jobs,
)

__all__ = [
    "Accounts",
    "read_accounts",
    "read_events",
    "read_jobs",
    "read_nodes",
    "read_objects",
    "read_shown_jobs",
]

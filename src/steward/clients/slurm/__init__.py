"""Reads and changes Slurm through its own commands or slurmrestd, in Slurm's names.

Belongs here: running the commands and reading what they print, for every shape it had since 22.05.
Does not: what it means for a cluster; `observe/collectors/slurm.py` translates, and
`act/slurm` decides which commands carry out a decision.

Two traps of real Slurm shape this package. With its controller down, `squeue --json` of 22.05
exits with 0 and an empty list: only `errors` is set. And its `sacct --json` calls a job that exited
with 3 a success, so ended jobs are read from sacct's columns, which are right in every version.
"""

from __future__ import annotations

from steward.clients.slurm.commands import SlurmCommands
from steward.clients.slurm.jobs import SlurmJob
from steward.clients.slurm.nodes import SlurmNode
from steward.clients.slurm.program import SlurmError, SlurmMissingError, own_account
from steward.clients.slurm.rest import RestSettings
from steward.clients.slurm.rest_reader import SlurmReader, SlurmRest, slurm_reader
from steward.clients.slurm.syntax import Gres

__all__ = [
    "Gres",
    "RestSettings",
    "SlurmCommands",
    "SlurmError",
    "SlurmJob",
    "SlurmMissingError",
    "SlurmNode",
    "SlurmReader",
    "SlurmRest",
    "own_account",
    "slurm_reader",
]

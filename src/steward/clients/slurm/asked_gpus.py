"""How many GPUs a job of Slurm asks for, and by which of its fields."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["AskedGpus", "read_asked_gpus"]

_FIELD = re.compile(r"^\s*(Tres\w+)=(\S+)", re.MULTILINE)
_GPUS = re.compile(r"(gres[:/]gpu(?:[:/][A-Za-z][\w.-]*)?)([:=])(\d{1,6})")
_NODES = re.compile(r"^\s*NumNodes=(\d+)", re.MULTILINE)
_PER_JOB, _PER_NODE = "TresPerJob", "TresPerNode"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedGpus:
    """GPUs that a job asks for in one field, of one kind: `TresPerNode=gres:gpu:a100:4`."""

    field: str
    kind: str
    count: int  # in that field
    nodes: int

    @property
    def total(self) -> int:
        """How many it asks for in all."""
        return self.count * self._times

    def instead(self, total: int) -> str:
        """Return what the field has to say for another number; empty if it cannot say that.

        >>> AskedGpus(field="TresPerNode", kind="gres:gpu:", count=4, nodes=2).instead(4)
        'TresPerNode=gres:gpu:2'
        """
        each, rest = divmod(total, self._times)
        return "" if rest or each < 1 else f"{self.field}={self.kind}{each}"

    @property
    def _times(self) -> int:
        return self.nodes if self.field == _PER_NODE else 1


def read_asked_gpus(text: str) -> AskedGpus | None:
    r"""Read `scontrol show job`; None if it asks for no GPUs, or in a way that depends on more.

    >>> read_asked_gpus(" NumNodes=1 NumCPUs=4\n TresPerJob=gres:gpu:4").total
    4
    """
    fields = [each for each in _FIELD.findall(text) if "gpu" in each[1]]
    nodes = _NODES.search(text)
    if len(fields) != 1 or nodes is None or fields[0][0] not in (_PER_JOB, _PER_NODE):
        return None
    found = _GPUS.fullmatch(fields[0][1])
    if found is None:
        return None
    kind, count = f"{found[1]}{found[2]}", int(found[3])
    return AskedGpus(field=fields[0][0], kind=kind, count=count, nodes=int(nodes[1]))

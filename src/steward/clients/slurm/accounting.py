"""What accounting knows of accounts: their place in the tree, their shares and their limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from steward.clients.slurm.syntax import gpu_count, tres

__all__ = ["ASSOCIATION_FIELDS", "QOS_FIELDS", "Accounting", "SlurmAccount", "read_accounting"]

ASSOCIATION_FIELDS = (
    "Cluster",
    "Account",
    "User",
    "Partition",
    "ParentName",
    "Fairshare",
    "GrpTRES",
    "DefaultQOS",
    "QOS",
)
QOS_FIELDS = ("Name", "GrpTRES")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmAccount:
    """One account of a cluster. `gpu_limit` is what all its jobs together may hold; None: any."""

    name: str
    cluster: str
    parent: str
    shares: int
    gpu_limit: int | None
    qos: tuple[str, ...]  # that its jobs may name, its default first


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """All accounts, and by QOS the GPUs that its jobs together may hold, where that is limited."""

    accounts: tuple[SlurmAccount, ...] = ()
    qos_gpu_limits: tuple[tuple[str, int], ...] = ()

    def of(self, cluster: str) -> tuple[SlurmAccount, ...]:
        """Return the accounts of a cluster: one database may have several."""
        clusters = {each.cluster for each in self.accounts}
        wanted = {cluster} if cluster in clusters else clusters
        return tuple(each for each in self.accounts if each.cluster in wanted)


def read_accounting(associations: Iterable[str], qos: Iterable[str]) -> Accounting:
    """Read sacctmgr's lines, columns as above and separated by `|`."""
    accounts = (_account(line) for line in associations)
    limits = (_qos(line) for line in qos)
    return Accounting(
        accounts=tuple(each for each in accounts if each is not None),
        qos_gpu_limits=tuple(each for each in limits if each is not None),
    )


def _account(line: str) -> SlurmAccount | None:
    """Read one association; None for those of users, and for what is none."""
    cells = line.split("|")
    if len(cells) != len(ASSOCIATION_FIELDS):
        return None
    cell = dict(zip(ASSOCIATION_FIELDS, cells, strict=True))
    if not cell["Account"] or cell["User"] or cell["Partition"]:
        return None
    names = [cell["DefaultQOS"], *cell["QOS"].split(",")]
    return SlurmAccount(
        name=cell["Account"],
        cluster=cell["Cluster"],
        parent=cell["ParentName"],
        shares=int(cell["Fairshare"]) if cell["Fairshare"].isdecimal() else 1,
        gpu_limit=_gpu_limit(cell["GrpTRES"]),
        qos=tuple(dict.fromkeys(each for each in names if each)),
    )


def _qos(line: str) -> tuple[str, int] | None:
    name, separator, limits = line.partition("|")
    limit = _gpu_limit(limits)
    return (name, limit) if name and separator and limit is not None else None


def _gpu_limit(text: str) -> int | None:
    """Return the limit on GPUs in a TRES list; None where it has none.

    >>> _gpu_limit("cpu=64,gres/gpu=16"), _gpu_limit("cpu=64"), _gpu_limit("gres/gpu=0")
    (16, None, 0)
    """
    limits = tres(text)
    counted = any(name.partition(":")[0] == "gres/gpu" for name in limits)
    return gpu_count(limits) if counted else None

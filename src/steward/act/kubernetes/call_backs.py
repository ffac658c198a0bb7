"""Which lent GPUs are called back for a workload to whom they are guaranteed: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from steward.clients.kubernetes.kueue_objects import Workload

__all__ = ["Loan", "fewest_loans", "loans_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """One running workload, and how many of its GPUs are beyond its namespace's guarantee."""

    workload: Workload
    check: str  # by which it is called back
    since_s: float
    frees: Mapping[str, int]  # by resource: what another could have after it is gone
    lent: int = 0

    @property
    def gpus(self) -> int:
        return sum(self.frees.values())


def loans_of(
    running: Iterable[Loan], used: Mapping[str, int], guaranteed: Mapping[str, int]
) -> list[Loan]:
    """Return those of the running workloads that use what is guaranteed to others.

    `used`: GPUs by namespace that stay. What a namespace was given first is its own, up to its
    guarantee; what it uses without Kueue comes before that, since it cannot be called back.
    """
    by_namespace: dict[str, list[Loan]] = {}
    for each in running:
        by_namespace.setdefault(each.workload.namespace, []).append(each)
    found = []
    for namespace, ours in by_namespace.items():
        elsewhere = max(0, used.get(namespace, 0) - sum(each.gpus for each in ours))
        beyond = elsewhere - guaranteed.get(namespace, 0)
        for each in sorted(ours, key=lambda loan: (loan.since_s, loan.workload.uid)):
            before, beyond = max(0, beyond), beyond + each.gpus
            found.append(replace(each, lent=max(0, beyond) - before))
    return [each for each in found if each.lent]


def fewest_loans(loans: Iterable[Loan], missing: Mapping[str, int]) -> list[Loan] | None:
    """Return the fewest loans that free what is missing of each resource; None: all do not.

    Of as many, those that free the least beyond it; then those that take least of what is their
    namespace's own, of who borrows most, and the youngest.
    """
    rest = list(loans)
    borrowed: dict[str, int] = {}
    for each in rest:
        namespace = each.workload.namespace
        borrowed[namespace] = borrowed.get(namespace, 0) + each.lent

    def order(loan: Loan) -> tuple[float | str, ...]:
        own, most = loan.gpus - loan.lent, borrowed[loan.workload.namespace]
        return own, -most, -loan.since_s, loan.workload.uid

    chosen: list[Loan] = []
    for name, count in sorted(missing.items()):
        lacks = count - sum(each.frees.get(name, 0) for each in chosen)
        while lacks > 0:
            possible = [each for each in rest if each.frees.get(name, 0) > 0]
            if not possible:
                return None
            enough = [each for each in possible if each.frees[name] >= lacks]
            best = min(enough or possible, key=lambda each: _size(each, name, lacks, order(each)))
            rest.remove(best)
            chosen.append(best)
            lacks -= best.frees[name]
    return chosen


def _size(
    loan: Loan, name: str, lacks: int, order: tuple[float | str, ...]
) -> tuple[float | str, ...]:
    """Return a key: the smallest of those that are enough alone, else the largest."""
    size = loan.frees[name]
    return (loan.gpus if size >= lacks else -size, *order)

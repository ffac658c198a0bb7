"""Tenants of a Slurm: its accounts, with weights and guarantees from its accounting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from steward.clients.slurm import SlurmJob
from steward.clients.slurm.accounting import Accounting, SlurmAccount
from steward.clients.slurm.jobs import ENDED
from steward.model.identity import TenantId
from steward.model.job import Tenant

__all__ = ["SlurmTenants", "gpu_demand", "tenants_of"]

LEAST_WEIGHT = 0.001  # of an account with no shares: it still exists


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmTenants:
    """The tenants of a moment. `problem` is why limits were not taken for guarantees, or empty."""

    tenants: tuple[Tenant, ...] = ()
    problem: str = ""


def tenants_of(
    accounting: Accounting,
    *,
    cluster: str,
    names: Collection[str],
    gpus: int,
    guarantees: bool,
    demand: Mapping[str, int],
) -> SlurmTenants:
    """Return the accounts of a cluster, and those of `names` that accounting does not have.

    With `guarantees`, the GPUs that an account is limited to are guaranteed to it and to those
    below it, shared by `demand`, the GPUs that jobs of each hold or wait for. Limits that add up to
    more than the `gpus` that there are can be promised to nobody: then there is no guarantee.
    """
    accounts = {each.name: each for each in accounting.of(cluster)}
    limits = _gpu_limits(accounts, dict(accounting.qos_gpu_limits)) if guarantees else {}
    promised_to = _shared_out(limits, accounts, demand)
    promised, problem = sum(promised_to.values()), ""
    if promised > gpus:
        problem = (
            f"the limits of {len(limits)} accounts add up to {promised} of {gpus} GPUs: "
            "none of them is taken for a guarantee"
        )
        promised_to = Counter()
    return SlurmTenants(
        tenants=tuple(
            Tenant(
                id=TenantId(name),
                weight=max(_weight(name, accounts), LEAST_WEIGHT),
                guaranteed_gpus=promised_to[name],
            )
            for name in sorted({*names, *accounts})
        ),
        problem=problem,
    )


def gpu_demand(jobs: Iterable[SlurmJob]) -> Counter[str]:
    """Return by account the GPUs that its jobs hold or wait for; tasks that wait count as one."""
    found: Counter[str] = Counter()
    for job in jobs:
        if ENDED.isdisjoint(job.states) and not job.is_kept_waiting:
            found[job.account] += job.gpus
    return found


def _weight(name: str, accounts: Mapping[str, SlurmAccount]) -> float:
    """Return the shares of an account; those of one below another are a part of the other's."""
    account = accounts.get(name)
    if account is None:
        return 1.0
    weight, seen = float(account.shares), {name}
    while account.parent in accounts and account.parent not in seen:
        level = [each.shares for each in accounts.values() if each.parent == account.parent]
        account = accounts[account.parent]
        seen.add(account.name)
        if account.parent:  # the root has no shares of anything
            weight *= account.shares / max(sum(level), 1)
    return weight


def _gpu_limits(accounts: Mapping[str, SlurmAccount], qos: Mapping[str, int]) -> dict[str, int]:
    """Return the GPUs that accounts are limited to, by themselves or by a QOS of their own."""
    users = Counter(name for account in accounts.values() for name in account.qos)
    found: dict[str, int] = {}
    for name, account in accounts.items():
        own = (qos[each] for each in account.qos if each in qos and users[each] == 1)
        limit = account.gpu_limit if account.gpu_limit is not None else next(own, None)
        if limit and account.parent:
            found[name] = limit
    return found


def _shared_out(
    limits: Mapping[str, int], accounts: Mapping[str, SlurmAccount], demand: Mapping[str, int]
) -> Counter[str]:
    """Return what of the limits is guaranteed to each account.

    Of an account's limit, those below it that have limits get theirs. The rest is for itself and
    for those below it without one, as far as their jobs need it and else by their shares; what
    nobody needs now stays with the account of the limit.
    """
    nearest = {name: _nearest_limited(name, accounts, limits) for name in accounts}
    found: Counter[str] = Counter()
    for name, limit in limits.items():
        below = [each for each, above in nearest.items() if above == name]
        rest = limit - sum(limits.get(each, 0) for each in below)
        others = [each for each in below if each not in limits]
        weights = {each: max(_weight(each, accounts), LEAST_WEIGHT) for each in others}
        weights[name] = _weight(name, accounts) / (len(others) + 1)  # of its own jobs
        found += _by_need(max(rest, 0), weights, demand, left_to=name)
    return found


def _by_need(
    gpus: int, weights: Mapping[str, float], demand: Mapping[str, int], *, left_to: str
) -> Counter[str]:
    """Share GPUs one by one, each with who has least for its weight and still needs one."""
    found: Counter[str] = Counter()
    for _ in range(gpus):
        wanting = [each for each in weights if demand.get(each, 0) > found[each]]
        who = min(wanting, key=lambda each: (found[each] / weights[each], each), default=left_to)
        found[who] += 1
    return found


def _nearest_limited(
    name: str, accounts: Mapping[str, SlurmAccount], limits: Mapping[str, int]
) -> str:
    """Return the closest account above one that has a limit; empty if none has."""
    seen, parent = {name}, accounts[name].parent
    while parent in accounts and parent not in seen and parent not in limits:
        seen.add(parent)
        parent = accounts[parent].parent
    return parent if parent in limits and parent not in seen else ""

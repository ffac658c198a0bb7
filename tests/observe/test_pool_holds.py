"""A job is held where it would borrow what its pool does not lend, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from beds.kubernetes import node, pod
from steward.clients.kubernetes.objects import KubeNode, Pod, node_from, pod_from
from steward.clients.kubernetes.pool_usage import PoolUsage, pool_usages
from steward.clients.kubernetes.resource_pool import ResourcePool, pool_of, resource_pool_from
from steward.clients.kubernetes.tenant_share import TenantShare
from steward.observe.pool_holds import WaitingJob, pool_holds

GPU = "nvidia.com/gpu"
A100 = {"gpu": "a100"}


def pool(name: str = "shared", **changes: Any) -> ResourcePool:
    return ResourcePool(**{"uid": f"uid-{name}", "name": name, "node_selector": A100, **changes})


def kube_node(name: str, *, labels: dict[str, str] | None = None, **options: Any) -> KubeNode:
    raw = node(name, **options)
    raw["metadata"]["labels"] |= A100 if labels is None else labels
    found = node_from(raw)
    assert found is not None
    return found


def kube_pod(uid: str, namespace: str, *, gpus: int = 8, on: str = "n1") -> Pod:
    raw = pod(uid, gpus=gpus, spec={"nodeName": on})
    raw["metadata"]["namespace"] = namespace
    found = pod_from(raw)
    assert found is not None
    return found


def share(namespace: str, gpus: int, pool: str = "") -> TenantShare:
    return TenantShare(
        uid=f"share-{namespace}",
        name=namespace,
        namespace=namespace,
        weight=1.0,
        guaranteed_gpus=gpus,
        pool=pool,
    )


def waiting(uid: str = "w", namespace: str = "chem", gpus: int = 8, **changes: Any) -> WaitingJob:
    given = {"created_s": 1.0, "selector": A100, "save_s": 20.0, "end_s": 30.0, **changes}
    return WaitingJob(uid=uid, namespace=namespace, devices={GPU: gpus}, **given)


def usage(of: ResourcePool | None = None, *, nodes: int = 2, bio: int = 8) -> dict[str, PoolUsage]:
    """Return a pool of two nodes; `bio` GPUs are guaranteed to a namespace that uses none."""
    return pool_usages(
        [of or pool()],
        nodes=[kube_node(f"n{index + 1}") for index in range(nodes)],
        pods=[],
        shares=[share("bio", bio)],
    )


# -- what is used ----------------------------------------------------------------------------------


def test_what_is_used_beyond_guarantees_is_lent_once_nothing_unguaranteed_is_left() -> None:
    nodes = [kube_node(f"n{index}") for index in (1, 2, 3)]
    pods = [kube_pod("a", "chem", on="n1"), kube_pod("b", "chem", on="n2", gpus=4)]

    found = pool_usages([pool()], nodes=nodes, pods=pods, shares=[share("bio", 16)])["shared"]

    assert (found.nodes, found.total, found.free) == (3, 24, 12)
    assert (found.unguaranteed, found.lent, dict(found.used)) == (8, 4, {"chem": 12})
    assert (found.borrows("chem", 4), found.borrows("bio", 16)) == (4, 0)


def test_nodes_that_are_down_or_of_another_pool_do_not_count_and_cordoned_ones_are_not_free() -> (
    None
):
    nodes = [
        kube_node("n1"),
        kube_node("n2", ready="Unknown"),
        kube_node("n3", cordoned=True),
        kube_node("n4", labels={"gpu": "h100"}),
    ]

    found = pool_usages([pool()], nodes=nodes, pods=[], shares=[])["shared"]

    assert (found.nodes, found.total, found.free) == (2, 16, 8)


def test_a_node_is_in_the_pool_that_says_most_about_it() -> None:
    wide, narrow = pool("a", node_selector={}), pool("b", node_selector=A100)

    assert pool_of(A100, [wide, narrow]) is narrow
    assert pool_of({"gpu": "h100"}, [wide, narrow]) is wide
    assert pool_of({"gpu": "h100"}, [narrow]) is None


def test_a_guarantee_that_names_no_pool_is_of_the_only_one() -> None:
    shares = [share("bio", 8), share("chem", 4, pool="other")]

    one = pool_usages([pool()], nodes=[], pods=[], shares=shares)
    two = pool_usages([pool(), pool("other")], nodes=[], pods=[], shares=shares)

    assert dict(one["shared"].guaranteed) == {"bio": 8}
    assert dict(two["shared"].guaranteed) == {}
    assert dict(two["other"].guaranteed) == {"chem": 4}


def test_only_the_resources_that_a_pool_names_count() -> None:
    sliced = pool(resource_names=("nvidia.com/mig-1g.10gb",))
    raw = node("n1")
    raw["metadata"]["labels"] |= A100
    raw["status"]["capacity"]["nvidia.com/mig-1g.10gb"] = "7"
    made = node_from(raw)
    assert made is not None

    found = pool_usages([sliced], nodes=[made], pods=[kube_pod("a", "chem")], shares=[])["shared"]

    assert (found.total, found.free) == (7, 7)


@pytest.mark.parametrize(
    "raw", [{}, {"metadata": {"uid": "u"}}, {"metadata": {"name": "n"}, "spec": {}}]
)
def test_what_is_no_pool_is_none(raw: dict[str, Any]) -> None:
    assert resource_pool_from(raw) is None


# -- who is held -----------------------------------------------------------------------------------


def test_a_job_within_its_guarantee_is_never_held() -> None:
    of = pool(lends=False, borrower_class="low")

    assert pool_holds([waiting(namespace="bio", save_s=None)], usage(of)) == {}


def test_a_job_that_needs_nothing_of_others_is_not_held() -> None:
    assert pool_holds([waiting(save_s=None)], usage(pool(lends=False))) == {}


@pytest.mark.parametrize(
    ("of", "job", "why"),
    [
        (pool(lends=False), waiting(gpus=16), "pool shared lends nothing"),
        (pool(borrower_class="low"), waiting(gpus=16), "priority class low, and it has none"),
        (pool(), waiting(gpus=16, save_s=None), "lends to jobs that can save"),
        (pool(call_back_s=20.0), waiting(gpus=16), "within 20 s, and it may take 30 s"),
        (pool(), waiting(gpus=16, selector={}), "nodeSelector does not say gpu: a100"),
    ],
    ids=["off", "class", "saves", "call-back", "nodes"],
)
def test_a_borrower_is_held_with_what_is_missing(
    of: ResourcePool, job: WaitingJob, why: str
) -> None:
    (text,) = pool_holds([job], usage(of)).values()

    assert "it would borrow 8 GPUs" in text
    assert why in text


def test_a_borrower_that_fits_the_pool_may_start() -> None:
    of = pool(borrower_class="low", call_back_s=30.0)

    assert pool_holds([waiting(gpus=16, priority_class="low")], usage(of)) == {}


def test_a_job_that_cannot_get_to_the_pools_nodes_is_no_borrower() -> None:
    elsewhere = waiting(gpus=16, selector={"gpu": "h100"}, save_s=None)

    assert pool_holds([elsewhere], usage(pool(lends=False))) == {}


def test_two_that_start_in_the_same_moment_do_not_both_take_what_is_there_once() -> None:
    older, younger = waiting("b", created_s=1.0), waiting("a", created_s=2.0)

    held = pool_holds([younger, older], usage(pool(lends=False)))

    assert set(held) == {"a"}


def test_one_that_does_not_fit_keeps_nothing_from_others() -> None:
    large = waiting("large", gpus=64, created_s=1.0)

    assert "small" not in pool_holds([large, waiting("small", created_s=2.0)], usage(bio=0))

"""The roles that are handed out are those that are needed, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from act.actuators.test_kubernetes import (
    SAVER,
    T_S,
    brought_back,
    drained,
    engine,
    followed,
    made,
    own_pod,
    preempt,
    start,
)
from act.actuators.test_kubernetes_saves import saver
from act.serving.test_deployment import ORDER
from act.serving.test_deployment import Bed as Servers
from beds.kube_cluster import KubeCluster
from beds.kubernetes import KubeDouble, kube_double, node
from beds.kueue import Kueue
from beds.training_jobs import MortalApi, ended, operator, training
from factories import decision
from patience import until
from steward.act.kubernetes.kueue_operator import KueueOperator
from steward.act.kubernetes.pool_operator import PoolOperator
from steward.clients.kubernetes.annotations import HOLD
from steward.clients.kubernetes.calls import CALLS
from steward.model.actions import Reprioritise, Save
from steward.observe.collectors.kubernetes import Kubernetes as Collector

ROLES = Path(__file__).parents[3] / "deploy" / "kubernetes" / "roles.yaml"


def granted() -> set[tuple[str, str, str]]:
    return {
        (verb, resource, group)
        for role in yaml.safe_load_all(ROLES.read_text(encoding="utf-8"))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.fixture
def double() -> Iterator[KubeDouble]:
    with kube_double() as running:
        running.put("nodes", node("n1"))
        running.rights = granted()
        yield running


def test_what_is_asked_of_the_server_is_what_the_roles_grant(double: KubeDouble) -> None:
    cluster = KubeCluster(double)
    kubernetes = engine(double, drain_evicts=True, resource_pools=True, optimization_policies=True)
    calm = {"metadata": {"name": "calm"}, "spec": {"autonomy": "auto"}}
    double.create("optimizationpolicies", "bio", calm, "ann")
    double.create("resourcepools", "", {"metadata": {"name": "p"}, "spec": {}}, "ann")
    pools = PoolOperator(double.api())
    pools.start()
    until(lambda: pools.turn(leads=True) or pools.usages, why="the pools")
    lend = {"metadata": {"name": "lend"}, "spec": {"controllerName": "steward.dev/lend"}}
    double.create("admissionchecks", "", lend, "ann")
    kueue = Kueue(double, cluster, checks=("lend",))
    kueue.submit("queued", "bio")
    kueue.tick()
    checks = KueueOperator(double.api(), pools)
    checks.start()
    until(lambda: checks.turn(leads=True) or kueue.states()["queued"][1], why="our answer")
    collector = Collector(api=double.api(), resource_pools=True, optimization_policies=True)
    double.create("trainingjobs", "bio", training("train"), "ann")
    serving = operator(MortalApi(double))
    serving.start()
    until(lambda: serving.turn().updated, why="the operator")
    restarted = operator(MortalApi(double))  # it finds what the first one has done
    double.put("trainingjobs", _without_status(double.named("trainingjobs", "train")))
    restarted.start()
    until(lambda: restarted.turn().updated, why="the operator that was started again")
    until(lambda: collector.collect(T_S).cluster, why="the first lists")
    kinds = (
        "pods",
        "nodes",
        "events",
        "jobs",
        "trainingjobs",
        "tenantshares",
        "resourcepools",
        "optimizationpolicies",
        "workloads",
        "admissionchecks",
    )
    status = ("patch", "optimizationpolicies/status", "steward.dev")
    until(lambda: collector.collect(T_S) and status in double.calls, why="the policy's status")
    watches = {("watch", kind) for kind in kinds}
    until(lambda: watches <= {(verb, kind) for verb, kind, _ in double.calls}, why="the watches")
    queue = {"kueue.x-k8s.io/queue-name": "q"}

    held = made(double, suspend=True, annotations={HOLD: "true", **SAVER})
    waiting = made(double, "waiting", suspend=True, labels=queue)
    raised = decision("d-up", action=Reprioritise(job=waiting, before=0, priority=1), t_s=T_S)
    saving = saver(double, cluster, name="saving")
    gated = {"nodeName": "", "schedulingGates": [{"name": HOLD}]}
    for each in (
        start(held),
        decision("d-save", action=Save(job=saving), t_s=T_S),
        preempt(held),
        raised,
        start(own_pod(double, "gated", phase="Pending", spec=gated), "d-gate"),
        preempt(own_pod(double), "d-evict"),
        drained(),
        brought_back(),
    ):
        followed(kubernetes, cluster, each)
    servers = Servers(double)
    servers.fleet.stop(replace(ORDER, url=servers.started()), T_S)

    assert double.calls == granted()
    assert granted() == {(each.verb, each.resource, each.group) for each in CALLS}
    for reflector in (*pools.reflectors, *checks.reflectors):
        reflector._stop.set()
    for watched in collector._watched.all if collector._watched else ():
        watched._stop.set()
    ended(double, serving, restarted)
    collector.close()
    pools.stop()
    checks.stop()


def _without_status(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key != "status"}


def test_nothing_may_be_deleted_and_no_secret_is_read() -> None:
    assert not {"delete", "deletecollection", "*"} & {verb for verb, _, _ in granted()}
    assert not {"secrets", "*", "pods/exec"} & {resource for _, resource, _ in granted()}

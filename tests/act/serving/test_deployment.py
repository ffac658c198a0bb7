"""Model servers as pods of a Deployment: scaled by compare and set, through `scale` alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from beds.kube_deployment import COST, KubeDeployment
from beds.kubernetes import KubeDouble, kube_double
from steward.act.serving.deployment import Deployment
from steward.act.serving.fleet import Order
from steward.clients.kubernetes.calls import KubeRole, calls_of
from steward.errors import PermanentError, TemporaryError

ORDER = Order(decision="d-1", instance="chat-1", type="chat", model="m", gpus=1, count=1)


class Bed:
    """A Deployment, its controller, and the fleet; `known` is what the gateway has."""

    def __init__(self, double: KubeDouble, replicas: int = 0) -> None:
        self.double = double
        self.deployment = KubeDeployment(double, replicas=replicas)
        self.known: set[str] = set()
        self.fleet = self.fresh()

    def fresh(self, **options: object) -> Deployment:
        """Return a fleet as a steward that was just started has it."""
        return Deployment(
            str(options.get("deployment", "llama")),
            connect=self.double.api,
            known_urls=lambda: frozenset(self.known),
            namespace="serving",
        )

    def started(self, order: Order = ORDER) -> str:
        """Start an instance and register it; return its address."""
        self.fleet.start(order, 0.0)
        self.deployment.tick()
        url = self.fleet.start(order, 0.0).url
        self.known.add(url)
        return url


@pytest.fixture
def bed() -> Iterator[Bed]:
    with kube_double() as double:
        double.rights = {
            (each.verb, each.resource, each.group) for each in calls_of(KubeRole.SERVING)
        }
        yield Bed(double)


def test_a_start_raises_the_number_and_waits_for_a_pod_that_the_gateway_lacks(bed: Bed) -> None:
    coming = bed.fleet.start(ORDER, 0.0)
    bed.deployment.tick(ready=False)
    loading = bed.fleet.start(ORDER, 0.0)
    bed.deployment.tick()
    ready = bed.fleet.start(ORDER, 0.0)

    assert bed.deployment.replicas == 1
    assert [coming.state, loading.state, ready.state] == ["coming", "coming", "ready"]
    assert ready.url == "http://10.0.0.1:8000"


def test_two_starts_get_a_pod_each(bed: Bed) -> None:
    first = bed.started()
    second = bed.started(replace(ORDER, decision="d-2", instance="chat-2", count=2))

    assert (first, second) == ("http://10.0.0.1:8000", "http://10.0.0.2:8000")


def test_repeating_a_start_changes_nothing_after_a_restart_either(bed: Bed) -> None:
    bed.started()
    bed.known.clear()

    again = bed.fresh().start(ORDER, 0.0)

    assert again.url == "http://10.0.0.1:8000"
    assert bed.deployment.replicas == 1


def test_a_stop_lets_its_own_pod_go_and_lowers_the_number_once(bed: Bed) -> None:
    bed.started()
    url = bed.started(replace(ORDER, instance="chat-2", count=2))
    bed.started(replace(ORDER, instance="chat-3", count=3))
    order = replace(ORDER, instance="chat-2", decision="d-9", url=url)

    states = [bed.fleet.stop(order, 0.0).state, bed.fresh().stop(order, 0.0).state]
    numbers = bed.deployment.replicas
    bed.deployment.tick()
    ending = bed.fleet.stop(order, 0.0)
    bed.deployment.tick()
    gone = bed.fleet.stop(order, 0.0)

    assert states == ["leaving", "leaving"]
    assert numbers == 2
    assert (ending.state, gone.state) == ("leaving", "gone")
    assert bed.deployment.names() == ["llama-1", "llama-3"]
    assert bed.deployment.replicas == 2


def test_a_pod_that_goes_has_the_lowest_deletion_cost(bed: Bed) -> None:
    url = bed.started()
    bed.fleet.stop(replace(ORDER, url=url), 0.0)

    assert bed.deployment.pods()[0]["metadata"]["annotations"][COST] == "-1000"


def test_an_instance_without_a_pod_is_gone_and_nothing_is_lowered(bed: Bed) -> None:
    bed.started()

    assert bed.fleet.stop(replace(ORDER, url="http://10.9.9.9:8000"), 0.0).state == "gone"
    assert bed.fleet.stop(ORDER, 0.0).state == "gone"
    assert bed.deployment.replicas == 1


def test_a_number_that_another_has_changed_meanwhile_is_not_overwritten(bed: Bed) -> None:
    bed.double.before_patch = lambda: bed.deployment.set_replicas(3)

    with pytest.raises(TemporaryError, match="modified"):
        bed.fleet.start(ORDER, 0.0)

    assert bed.deployment.replicas == 3
    assert bed.fleet.start(ORDER, 0.0).state == "coming"
    assert bed.deployment.replicas == 3


def test_what_is_busy_is_tried_again_and_what_is_forbidden_is_given_up(bed: Bed) -> None:
    bed.double.down = 1
    with pytest.raises(TemporaryError):
        bed.fleet.start(ORDER, 0.0)

    bed.double.rights = set()
    with pytest.raises(PermanentError, match="forbidden"):
        bed.fleet.start(ORDER, 0.0)


def test_a_deployment_that_is_not_there_is_given_up(bed: Bed) -> None:
    with pytest.raises(PermanentError, match="not found"):
        bed.fresh(deployment="nobody").start(ORDER, 0.0)


def test_without_a_selector_no_pod_is_anybodys(bed: Bed) -> None:
    raw = bed.double.named("deployments", "llama")
    bed.double.put("deployments", {**raw, "spec": {"replicas": 1, "selector": {}}})

    with pytest.raises(PermanentError, match="names no pods"):
        bed.fleet.start(ORDER, 0.0)


def test_doctor_hears_of_the_deployment_and_of_a_missing_cluster(bed: Bed) -> None:
    without = Deployment("llama", connect=lambda: None, known_urls=frozenset)

    assert "scales serving/llama, 0 replicas now" in bed.fleet.available().reason
    assert bed.fresh(deployment="nobody").available().status == "missing"
    assert "kubeconfig" in without.available().hint


def test_all_it_asks_is_in_the_role_for_serving(bed: Bed) -> None:
    url = bed.started()
    bed.fleet.stop(replace(ORDER, url=url), 0.0)

    granted = {(each.verb, each.resource, each.group) for each in calls_of(KubeRole.SERVING)}

    assert bed.double.calls == granted

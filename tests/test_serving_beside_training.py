"""Serving and training share one cluster: an instance is a job of a tenant with a guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beds.serving_fleet import Wants, scalable
from beds.serving_gateway import GatewayDouble, gateway_double
from factories import SAVES, cluster, gpu_row, job, node, samples
from patience import LONG_S
from steward.act.desk import Desk
from steward.act.guard import Guard, Limits
from steward.act.serving.actuator import ServingActuator, ServingPlan
from steward.act.serving.fleet import FleetState, Order
from steward.act.serving.outcomes import ServingVerifier
from steward.act.verify import ClusterVerifier
from steward.clients.gateway import GatewayClient
from steward.clock import ManualClock
from steward.decide.scheduling.tenant_sharing.commons import Commons
from steward.decide.serving.scale_instances import ScaleInstances
from steward.loop import Loop
from steward.model.actions import Action, Preempt, Resume, Start
from steward.model.decision import Autonomy, Decision, Receipt
from steward.model.event import Availability, Observation
from steward.model.identity import GpuId, JobId, TenantId
from steward.model.job import Job, JobShape, JobState, Tenant
from steward.model.moment import Moment
from steward.model.serving.state import ServingState
from steward.model.serving.view import Scaling
from steward.observe.serving_gateway import ServingGateway
from steward.observe.watch import Watch
from steward.stages import Stages
from steward.store.journal import open_journal
from steward.store.recording import Recording

GPUS = 4
TURN_S = 10.0
SHARES = (
    Tenant(id=TenantId("serving"), guaranteed_gpus=2),
    Tenant(id=TenantId("train"), guaranteed_gpus=2),
)
ONE = JobShape(gpus=1)
TRAINING = tuple(f"t{number}" for number in range(1, 7))


class Engine:
    """An engine with a queue: collector and actuator of the cluster, and a fleet of instances.

    A job of training needs `SAVES.save_s` to stop; an instance stops at once.
    """

    name = "engine"
    vocabulary = "canonical"

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.saving_s: dict[str, float] = {}  # until when
        self.t_s = 0.0

    def submit(self, name: str, tenant: str) -> None:
        made = job(name, tenant=tenant, shape=ONE, submit_s=self.t_s, checkpointing=SAVES)
        self.jobs[name] = made

    def running(self, tenant: str) -> list[str]:
        return sorted(
            name
            for name, each in self.jobs.items()
            if each.tenant == tenant and each.state is JobState.RUNNING
        )

    # -- as collector and actuator of the cluster

    def available(self) -> Availability:
        return Availability(status="ok", reason="a test")

    def collect(self, t_s: float) -> Observation:
        self.t_s = t_s
        for name in [name for name, s in self.saving_s.items() if s <= t_s]:
            del self.saving_s[name]
            self._put(name, JobState.QUEUED, ())
        rows = {f"n1/gpu{index}": gpu_row(0.9) for index in range(GPUS)}
        return Observation(
            frame=samples(t_s, rows),
            jobs=tuple(self.jobs.values()),
            cluster=cluster(node("n1", GPUS)),
            tenants=SHARES,
        )

    def close(self) -> None: ...

    def actions(self) -> tuple[type[Action], ...]:
        return (Start, Resume, Preempt)

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        action: Any = decision.action
        found = self.jobs[action.job]
        if isinstance(action, Preempt):
            if found.state is JobState.RUNNING:
                self.saving_s.setdefault(action.job, t_s + SAVES.save_s)
                return self._receipt(decision, t_s, "begun")
        elif found.state is JobState.QUEUED:
            taken = {gpu for each in self.jobs.values() for gpu in each.gpus}
            assert taken.isdisjoint(action.gpus)
            self._put(action.job, JobState.RUNNING, action.gpus)
        return self._receipt(decision, t_s, "done")

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        return self.carry_out(decision, t_s)

    @staticmethod
    def _receipt(decision: Decision, t_s: float, result: Any) -> Receipt:
        gpus = decision.action.gpus
        return Receipt(decision=decision.id, t_s=t_s, result=result, gpus=gpus, text=result)

    def _put(self, name: str, state: JobState, gpus: tuple[GpuId, ...]) -> None:
        before = self.jobs[name]
        start_s = self.t_s if gpus else None
        moved = replace(before, gpus=gpus, start_s=start_s)
        self.jobs[name] = moved.changed(self.t_s, state, "")


class JobFleet:
    """Instances as jobs of the tenant `serving`, as the Slurm fleet submits them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def available(self) -> Availability:
        return Availability(status="ok", reason="a test")

    def start(self, order: Order, t_s: float) -> FleetState:
        if order.instance not in self._engine.jobs:
            self._engine.submit(order.instance, "serving")
        found = self._engine.jobs[order.instance]
        if found.state is not JobState.RUNNING:
            return FleetState(state="coming", text="its job waits")
        return FleetState(state="ready", text="it answers", url=f"http://127.0.0.1/{found.id}")

    def stop(self, order: Order, t_s: float) -> FleetState:
        found = self._engine.jobs[order.instance]
        if not found.state.ended:
            self._engine._put(order.instance, JobState.COMPLETED, ())
        return FleetState(state="gone", text="its job has ended")


class Bed:
    """Both loops on one journal and one clock."""

    def __init__(self, gateway: GatewayDouble, folder: Path) -> None:
        self.gateway, self.engine = gateway, Engine()
        self.clock = ManualClock(100_000.0)
        self.scaler = Wants()
        self.client = GatewayClient(gateway.url)
        plan = ServingPlan(fleet=JobFleet(self.engine))
        guard = Limits(autonomy=Autonomy.AUTO)
        cluster_stages = Stages(
            watch=Watch([self.engine], timeout_s=LONG_S),
            moment=Moment(),
            miners=(),
            estimators=(),
            detectors=(),
            policies=[Commons()],
            desk=Desk(Guard(guard), self.engine),
            verifier=ClusterVerifier(),
        )
        serving_stages = Stages(
            watch=Watch([ServingGateway(GatewayClient(gateway.url))], timeout_s=LONG_S),
            moment=ServingState([scalable(gpus=1)], tenant="serving"),
            miners=(),
            estimators=(),
            detectors=(),
            policies=[ScaleInstances(scaler=self.scaler)],
            desk=Desk(Guard(guard), ServingActuator(self.client, {"chat": plan})),
            verifier=ServingVerifier(),
            domain="serving",
        )
        self.cluster: Loop[Any] = self._loop(cluster_stages, folder, "cluster")
        self.serving: Loop[Any] = self._loop(serving_stages, folder, "serving")

    def _loop(self, stages: Stages[Any], folder: Path, name: str) -> Loop[Any]:
        return Loop(
            stages,
            journal=open_journal(f"sqlite:///{folder / 'journal.sqlite3'}"),
            recording=Recording(folder / name, events=False),
            clock=self.clock,
        )

    def turn(self) -> None:
        self.clock.set(self.clock.now_s() + TURN_S)
        self.serving.turn()
        self.cluster.turn()

    def until(self, there: Any, *, turns: int = 30) -> float:
        """Take turns until something is so; return how long that took."""
        since_s = self.clock.now_s()
        while not there():
            assert self.clock.now_s() < since_s + turns * TURN_S, self.faults()
            self.turn()
        return self.clock.now_s() - since_s

    def faults(self) -> list[str]:
        both = (*self.serving.status.faults, *self.cluster.status.faults)
        return [f"{each.where}: {each.problem}" for each in both]


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    with gateway_double() as double:
        made = Bed(double, tmp_path)
        for name in TRAINING:
            made.engine.submit(name, "train")
        yield made
        made.cluster.close()
        made.serving.close()
        made.client.close()


def test_what_serving_does_not_use_is_lent_and_called_back_within_the_bound(bed: Bed) -> None:
    bed.until(lambda: len(bed.engine.running("train")) == GPUS)

    bed.scaler.scaling = Scaling(start=(0, 0))
    bed.turn()
    bed.scaler.scaling = Scaling()
    took_s = bed.until(lambda: len(bed.gateway.instances) == 2)

    saved_and_seen_s = SAVES.save_s + 3 * TURN_S  # a turn to decide, to see, and to start
    assert took_s <= saved_and_seen_s
    assert bed.engine.running("serving") == ["chat-1", "chat-2"]
    assert len(bed.engine.running("train")) == GPUS - 2
    assert bed.faults() == []


def test_an_instance_is_a_job_of_its_tenant_in_the_view_of_the_cluster(bed: Bed) -> None:
    bed.scaler.scaling = Scaling(start=(0,))
    bed.turn()
    bed.scaler.scaling = Scaling()
    bed.until(lambda: bed.engine.running("serving"))
    bed.turn()

    view = bed.cluster.view
    held = dict(zip(view.tenants.ids.tolist(), view.tenants.held.tolist(), strict=True))
    assert view.details[JobId("chat-1")].tenant == "serving"
    assert len(view.details[JobId("chat-1")].gpus) == 1
    assert held["serving"] == 1


def test_a_drain_frees_the_gpus_and_training_goes_on_with_them(bed: Bed) -> None:
    bed.scaler.scaling = Scaling(start=(0, 0))
    bed.turn()
    bed.scaler.scaling = Scaling()
    bed.until(lambda: len(bed.gateway.instances) == 2)

    bed.scaler.scaling = Scaling(drain=(0, 1))
    bed.turn()
    bed.scaler.scaling = Scaling()
    took_s = bed.until(lambda: len(bed.engine.running("train")) == GPUS)

    assert took_s <= 3 * TURN_S
    assert bed.engine.running("serving") == []
    assert bed.gateway.instances == {}

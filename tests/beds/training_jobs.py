"""TrainingJobs on the double, an operator that can be killed in any request, and what decides."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from beds.kube_cluster import KubeCluster
from beds.kubernetes import KubeDouble, node
from factories import decision
from steward.act.actuators.kubernetes import Kubernetes
from steward.act.kubernetes.training_operator import TrainingOperator
from steward.clients.kubernetes import Api
from steward.clients.kubernetes.batch_job import BatchJob, batch_job_from
from steward.clients.kubernetes.lease import Lease
from steward.model.actions import Drain, Preempt, Resume, Start, Undrain
from steward.model.decision import Decision
from steward.model.identity import JobId, NodeId

TENANTS = ("bio", "chem", "physics")


def training(name: str, **spec: Any) -> dict[str, Any]:
    """Return a TrainingJob as its owner sends it."""
    limits = {"nvidia.com/gpu": str(spec.pop("gpus", 8))}
    pods = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    return {
        "apiVersion": "steward.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"pods": 1, "saveSeconds": 20, "template": {"spec": pods}, **spec},
    }


class KilledError(BaseException):
    """The process was killed: nothing after this line is done."""


class MortalApi(Api):
    """A client whose process is killed around its n-th write: before it is sent, or after."""

    def __init__(self, double: KubeDouble, *, lives: int = 10**9, sends: bool = True) -> None:
        super().__init__(double.access())
        double.clients.append(self)
        self._lives = lives
        self._sends = sends

    def _answer(self, method: str, *args: Any, **options: Any) -> dict[str, Any]:
        self._lives -= method != "GET"
        if self._lives >= 0 or method == "GET":
            return super()._answer(method, *args, **options)
        if self._sends:
            super()._answer(method, *args, **options)
        raise KilledError


def operator(
    api: Api,
    *,
    identity: str = "one",
    duration_s: float = 15.0,
    passes: dict[str, Any] | None = None,
    **options: Any,
) -> TrainingOperator:
    lease = Lease(
        api, namespace="steward", name="op", identity=identity, duration_s=duration_s, **options
    )
    return TrainingOperator(api, lease, **(passes or {}))


def ended(double: KubeDouble, *operators: TrainingOperator) -> None:
    """End the threads of operators, without any last word to the server."""
    for each in operators:
        for reflector in each.reflectors:
            reflector._stop.set()
    double.cut()
    for each in operators:
        for reflector in each.reflectors:
            reflector.stop()


class Decider:
    """What the loop decides in the scenario, carried out by an engine that can be killed, too.

    It starts whatever waits, preempts what a seed says, and resumes it; its only memory over a
    kill is the list of open decisions, as that is what the journal keeps.
    """

    def __init__(self, double: KubeDouble, cluster: KubeCluster, *, seed: int) -> None:
        self._double = double
        self._cluster = cluster
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._count = 0
        self._t_s = 1_000_000.0
        self.open: dict[str, Decision] = {}  # by what each is about
        self.results: list[tuple[str, str, str]] = []
        self.engine: Kubernetes
        self.restart()

    def restart(self) -> None:
        api = Api(self._double.access())
        self._double.clients.append(api)
        self.engine = Kubernetes(api=api, settle_s=0.0, start_within_s=1e9, drain_evicts=True)

    def turn(self) -> None:
        self._t_s += 1.0
        found = [batch_job_from(raw) for raw in self._double.all("jobs")]
        jobs = [each for each in found if each is not None and not each.over]
        self._decide_starts(jobs)
        if self._random.random() < 0.3:
            self._decide_preempt(jobs)
        for about, each in list(self.open.items()):
            receipt = self.engine.carry_out(each, self._t_s)
            if receipt.result != "begun":
                del self.open[about]
                self.results.append((each.action.type, receipt.result, receipt.text))

    def decide(self, about: str, action: Any) -> None:
        if about not in self.open:
            self._count += 1
            made = decision(f"d-{self._count}", action=action, t_s=self._t_s)
            self.open[about] = made

    def drain(self, node: str) -> None:
        self.decide(node, Drain(node=NodeId(node), gpus=()))

    def bring_back(self, node: str) -> None:
        self.decide(node, Undrain(node=NodeId(node), gpus=()))

    def _decide_starts(self, jobs: list[BatchJob]) -> None:
        running = sum(not each.suspended for each in jobs)
        room = max(0, sum(count // 8 for count in self._cluster.free().values()))
        waiting = [each for each in jobs if each.waits_for_us]
        opened = sum(isinstance(each.action, Start | Resume) for each in self.open.values())
        for each in waiting[: max(0, min(room, 8 - running) - opened)]:
            kind = Resume if each.did else Start
            self.decide(each.uid, kind(job=JobId(f"batch:{each.uid}"), gpus=()))

    def _decide_preempt(self, jobs: list[BatchJob]) -> None:
        running = [each for each in jobs if each.ready and not each.suspended]
        if running:
            victim = self._random.choice(running)
            self.decide(victim.uid, Preempt(job=JobId(f"batch:{victim.uid}"), gpus=()))


class Scenario:
    """Jobs of three tenants on eight nodes; some are preempted, a node is drained and comes back.

    Nothing but turns moves it on, so whoever serves the TrainingJobs may be killed in between.
    """

    def __init__(self, double: KubeDouble, *, jobs: int, seed: int) -> None:
        self._double = double
        self._jobs = jobs
        self.turns = 0
        for index in range(8):
            double.put("nodes", node(f"n{index + 1}"))
        for index in range(jobs):
            double.create("trainingjobs", TENANTS[index % 3], training(f"t{index}"), "ann")
        self._cluster = KubeCluster(double, work_ticks=5)
        self.decider = Decider(double, self._cluster, seed=seed)

    @property
    def over(self) -> bool:
        phases = [each.get("status", {}).get("phase") for each in self._double.all("trainingjobs")]
        return set(phases) == {"Succeeded"}

    def turn(self) -> None:
        self.turns += 1
        if self.turns % 40 == 10:
            self.decider.drain("n3")
        if self.turns % 40 == 30:
            self.decider.bring_back("n3")
        self.decider.turn()
        self._cluster.tick()

    def assert_each_job_ended_once(self) -> None:
        ends = Counter(self._cluster.ends)
        assert (len(ends), set(ends.values())) == (self._jobs, {1})
        assert len(self._double.all("jobs")) == self._jobs
        told = Counter(
            (each["involvedObject"]["namespace"], each["involvedObject"]["name"])
            for each in self._double.all("events")
            if each["reason"] == "JobComplete"
        )
        assert (len(told), set(told.values())) == (self._jobs, {1})
        done = Counter((type_, result) for type_, result, _ in self.decider.results)
        assert min(done["preempt", "done"], done["resume", "done"]) > 10, done
        assert min(done["drain", "done"], done["undrain", "done"]) > 0, done

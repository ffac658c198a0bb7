"""The recogniser and the policies that run live, in a simulated fleet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steward.decide.health.climb_ladder import ClimbLadder
from steward.decide.health.undrain_recovered import UndrainRecovered
from steward.health.live import FaultRecogniser
from steward.model.actions import Action, Diagnose, Drain, Reboot, Reset, Tell, Undrain
from steward.model.cluster import GIB, Cluster, Gpu, GpuModel, Health, Node
from steward.model.decision import Decision, Receipt
from steward.model.event import LogLine, Observation
from steward.model.identity import DecisionId, GpuId, JobId, NodeId, TenantId
from steward.model.job import Checkpointing, Job, JobShape, JobState
from steward.model.moment import Moment
from steward.sim.health.fleet import Fleet
from steward.sim.health.orders import Order, OrderKind
from steward.sim.health.work import Running

__all__ = ["LivePolicy"]

H200 = GpuModel(
    name="h200", generation="hopper", memory_bytes=141 * GIB, idle_watts=75.0, max_watts=700.0
)
TENANT = TenantId("all")
_ORDERS: dict[type[Action], OrderKind] = {
    Drain: OrderKind.DRAIN,
    Undrain: OrderKind.UNDRAIN,
    Reset: OrderKind.RESET,
    Reboot: OrderKind.REBOOT,
    Diagnose: OrderKind.TEST,
    Tell: OrderKind.REPLACE,  # the one advice that the ladder ends in
}


class LivePolicy:
    """Folds what happens into a moment, lets plugs look at it, and orders what they decide."""

    name = "steward"

    def __init__(self, ladder: ClimbLadder | None = None) -> None:
        self.recogniser = FaultRecogniser()
        self._policies = (
            ladder or ClimbLadder(max_share=1.0, patience_s=1e9),
            UndrainRecovered(after_s=0.0),
        )
        self._moment = Moment()
        self._jobs: dict[int, Job] = {}  # that run, by number
        self._draining: set[int] = set()
        self._done: set[DecisionId] = set()
        self._rows: dict[NodeId, int] = {}

    def react(self, fleet: Fleet, lines: Sequence[LogLine], t_s: float) -> Iterator[Order]:
        """Take one turn."""
        if not self._rows:
            self._begin(fleet)
        self._moment.fold(self._observation(fleet, tuple(lines)))
        view = self._moment.view(t_s)
        view = view.with_findings(self.recogniser.recognise(Observation(lines=tuple(lines)), view))
        for policy in self._policies:
            for decision in policy.decide(view):
                yield from self._carry_out(decision, fleet, t_s)

    def _carry_out(self, decision: Decision, fleet: Fleet, t_s: float) -> Iterator[Order]:
        action = decision.action
        row = self._rows[NodeId(decision.subject)]
        busy = fleet.nodes[row].busy_until_s > t_s and not isinstance(action, Drain)
        if decision.id in self._done or busy:
            return
        self._done.add(decision.id)
        receipt = Receipt(decision=decision.id, t_s=t_s, result="done", gpus=(), text="simulated")
        self._moment.apply(decision, receipt)
        yield Order(kind=_ORDERS[type(action)], node=row)

    def _begin(self, fleet: Fleet) -> None:
        nodes = [
            Node(
                id=NodeId(node.name),
                gpus=tuple(
                    Gpu(
                        id=GpuId(f"{node.name}/gpu{k}"), node=NodeId(node.name), index=k, model=H200
                    )
                    for k in range(fleet.plan.gpus)
                ),
            )
            for node in fleet.nodes
        ]
        self._rows = {node.id: row for row, node in enumerate(nodes)}
        self._moment.fold(Observation(cluster=Cluster(id="fleet", nodes=tuple(nodes))))

    def _observation(self, fleet: Fleet, lines: tuple[LogLine, ...]) -> Observation:
        running = {each.number: each for each in fleet.running()}
        gone = [each for each in self._jobs if each not in running or self._is_new(running[each])]
        jobs = [self._over(number) for number in gone]
        jobs += [self._started(each, fleet) for each in running.values() if self._is_new(each)]
        draining = {node.row for node in fleet.nodes if node.drained}
        changed = {
            NodeId(fleet.nodes[row].name): row in draining for row in draining ^ self._draining
        }
        self._draining = draining
        health = {
            GpuId(f"{fleet.nodes[row].name}/gpu{k}"): Health.GOOD
            for row in draining
            for k in range(fleet.plan.gpus)
        }
        return Observation(lines=lines, jobs=tuple(jobs), draining=changed, health=health)

    def _is_new(self, job: Running) -> bool:
        known = self._jobs.get(job.number)
        return known is None or known.start_s != job.began_s

    def _over(self, number: int) -> Job:
        job = self._jobs.pop(number)
        return job.changed(self._moment_s(job), JobState.COMPLETED, "over")

    def _moment_s(self, job: Job) -> float:
        return (job.start_s or 0.0) + 1.0

    def _started(self, job: Running, fleet: Fleet) -> Job:
        gpus = tuple(
            GpuId(f"{fleet.nodes[row].name}/gpu{k}")
            for row in job.rows
            for k in range(fleet.plan.gpus)
        )
        made = Job(
            id=JobId(f"{job.number}@{job.began_s:.0f}"),
            tenant=TENANT,
            shape=JobShape(gpus=len(gpus)),
            submit_s=job.began_s,
            checkpointing=Checkpointing(able=True, save_s=30.0, restore_s=60.0),
            gpus=gpus,
            state=JobState.RUNNING,
            start_s=job.began_s,
        )
        self._jobs[job.number] = made
        return made

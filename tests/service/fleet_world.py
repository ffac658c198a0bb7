"""A fleet whose nodes write kernel lines, with the loop that reads them and drains nodes."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from factories import cluster, gpu_row, node, samples, tenants
from patience import LONG_S
from steward.act.desk import Desk
from steward.act.guard import Guard, Limits
from steward.act.verify import ClusterVerifier
from steward.clock import Clock
from steward.decide.health.climb_ladder import ClimbLadder
from steward.decide.health.undrain_recovered import UndrainRecovered
from steward.health.live import FaultRecogniser
from steward.loop import Loop
from steward.model.actions import Action, Diagnose, Drain, Reboot, Undrain
from steward.model.cluster import Health
from steward.model.decision import Autonomy, Decision, Receipt
from steward.model.event import Availability, LogLine, Observation
from steward.model.identity import NodeId
from steward.model.moment import Moment
from steward.model.view import ClusterView
from steward.observe.watch import Watch
from steward.stages import Stages
from steward.store.journal import open_journal
from steward.store.learned import LearnedStates
from steward.store.recording import Recording

XID = "NVRM: Xid (PCI:0000:{bus}:00): {code}, pid=7, {text}"
LOST = XID.format(bus="3b", code=79, text="GPU has fallen off the bus.")
TEARDOWN = XID.format(bus="3b", code=45, text="name=python, Ch 8")


class FleetWorld:
    """A collector and an actuator. `say` lets a node write lines, seen at the next look."""

    name = "fleet"
    vocabulary = "canonical"

    def __init__(self, nodes: int = 12, gpus: int = 8, *, tested_well: bool = True) -> None:
        self._nodes = [node(f"n{row:02d}", gpus) for row in range(nodes)]
        self._gpus = [gpu.id for each in self._nodes for gpu in each.gpus]
        self.tested_well = tested_well
        self.failed: set[str] = set()  # GPUs
        self.draining: dict[NodeId, bool] = {}
        self.done: list[tuple[str, str]] = []
        self._lines: list[LogLine] = []
        self._planned: list[tuple[float, str, str]] = []
        self._first = True
        self._t_s = 0.0

    def say(self, node: str, text: str, t_s: float) -> None:
        self._planned.append((t_s, node, text))

    def available(self) -> Availability:
        return Availability(status="ok", reason="a test")

    def collect(self, t_s: float) -> Observation:
        first, self._first, self._t_s = self._first, False, t_s
        due = [each for each in self._planned if each[0] <= t_s]
        self._planned = [each for each in self._planned if each[0] > t_s]
        lines = [
            LogLine(t_s=at_s, entity=node, source="kernel", text=text) for at_s, node, text in due
        ]
        changed, self.draining = self.draining, {}
        return Observation(
            frame=samples(t_s, {gpu: gpu_row(0.9) for gpu in self._gpus}),
            lines=tuple(lines),
            cluster=cluster(*self._nodes) if first else None,
            tenants=tenants() if first else None,
            draining=changed,
            health={gpu: Health.BAD if gpu in self.failed else Health.GOOD for gpu in self._gpus},
        )

    def close(self) -> None: ...

    def actions(self) -> tuple[type[Action], ...]:
        return get_args(Action)

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        return self.carry_out(decision, t_s)

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        action = decision.action
        self.done.append((action.type, decision.subject))
        if isinstance(action, Drain | Undrain):
            self.draining[action.node] = isinstance(action, Drain)
        elif isinstance(action, Diagnose):
            verdict = "well" if self.tested_well else "bad"
            self.say(action.node, f"steward-diagnose: {verdict} node={action.node}", t_s + 60.0)
        assert isinstance(action, Drain | Undrain | Diagnose | Reboot) or action.type in (
            "reset",
            "tell",
        )
        return Receipt(
            decision=decision.id, t_s=t_s, result="done", gpus=action.gpus, text=action.sentence
        )


def fleet_loop(
    folder: Path,
    world: FleetWorld,
    clock: Clock,
    *,
    autonomy: Autonomy = Autonomy.AUTO,
    every_s: float = 10.0,
    disturbed_gpus_per_hour: int = 1_000,
) -> Loop[ClusterView]:
    limits = Limits(
        autonomy=autonomy,
        disturbed_gpus_per_hour=disturbed_gpus_per_hour,
        disturbed_gpus_per_tenant_per_hour=disturbed_gpus_per_hour,
    )
    stages: Stages[ClusterView] = Stages(
        watch=Watch([world], timeout_s=LONG_S),
        moment=Moment(),
        miners=[],
        estimators=[],
        detectors=[],
        recognisers=[FaultRecogniser()],
        policies=[ClimbLadder(max_share=0.5), UndrainRecovered(after_s=0.0)],
        desk=Desk(Guard(limits), world),
        verifier=ClusterVerifier(),
    )
    return Loop(
        stages,
        journal=open_journal(f"sqlite:///{folder / 'journal.sqlite3'}"),
        recording=Recording(folder, events=False),
        clock=clock,
        every_s=every_s,
        learned=LearnedStates(folder / "learned"),
    )

"""The serving domain in the loop: desk, guard, journal and outcomes work for it unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beds.serving_fleet import TinyFleet, Wants, scalable
from beds.serving_gateway import GatewayDouble, gateway_double
from factories import decision
from patience import LONG_S
from steward.act.actuators.dry_run import DryRun
from steward.act.desk import Desk
from steward.act.guard import Guard, Limits
from steward.act.serving.actuator import ServingActuator, ServingPlan
from steward.act.serving.outcomes import ServingVerifier
from steward.clients.gateway import GatewayClient
from steward.clock import ManualClock
from steward.decide.serving.scale_instances import ScaleInstances
from steward.loop import Loop
from steward.model.actions import Action
from steward.model.decision import Autonomy, Choice, DecisionState
from steward.model.outcome import Story
from steward.model.serving.moment import ServingMoment
from steward.model.serving.state import ServingState
from steward.model.serving.view import SERVING, Scaling
from steward.observe.serving_gateway import ServingGateway
from steward.observe.watch import Watch
from steward.ports import Actuator
from steward.stages import Stages
from steward.store.journal import open_journal
from steward.store.learned import LearnedStates
from steward.store.recording import Recording
from tiny_world import TinyWorld, tiny_loop


class Bed:
    """A gateway, a fleet and a loop that can be stopped at any point and started again."""

    def __init__(self, double: GatewayDouble, folder: Path) -> None:
        self.gateway = double
        self.folder = folder
        self.fleet = TinyFleet()
        self.clock = ManualClock(1000.0)
        self.scaler = Wants()
        self.loops: list[Loop[ServingMoment]] = []
        self.client = GatewayClient(double.url)

    def loop(
        self, autonomy: Autonomy = Autonomy.AUTO, *, dry_run: bool = False, **limits: Any
    ) -> Loop[ServingMoment]:
        plan = ServingPlan(fleet=self.fleet)
        actuator: Actuator[Action] = (
            DryRun() if dry_run else ServingActuator(self.client, {"chat": plan})
        )
        stages = Stages(
            watch=Watch([ServingGateway(GatewayClient(self.gateway.url))], timeout_s=LONG_S),
            moment=ServingState([scalable()], tenant="serving"),
            miners=(),
            estimators=(),
            detectors=(),
            policies=[ScaleInstances(scaler=self.scaler, check_after_s=100.0)],
            desk=Desk(Guard(Limits(autonomy=autonomy, **limits)), actuator),
            verifier=ServingVerifier(),
            domain="serving",
        )
        made = Loop(
            stages,
            journal=open_journal(f"sqlite:///{self.folder / 'journal.sqlite3'}"),
            recording=Recording(self.folder / "serving", events=False),
            clock=self.clock,
            learned=LearnedStates(self.folder / "serving" / "learned"),
        )
        self.loops.append(made)
        return made

    def turn(self, loop: Loop[ServingMoment], times: int = 1) -> None:
        for _ in range(times):
            self.clock.set(self.clock.now_s() + 10.0)
            self.gateway.t_s = self.clock.now_s()
            loop.turn()

    def kill(self, loop: Loop[ServingMoment]) -> None:
        """End a loop without letting it finish anything."""
        loop.stages.watch.close()
        loop.journal.close()
        self.loops.remove(loop)

    def stories(self) -> list[Story]:
        journal = open_journal(f"sqlite:///{self.folder / 'journal.sqlite3'}")
        found = [story for _, story in journal.stories()]
        journal.close()
        return found


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    with gateway_double() as double:
        made = Bed(double, tmp_path)
        yield made
        for each in made.loops:
            each.close()
        made.client.close()


def test_a_start_goes_from_reason_to_receipt_and_the_scaler_sees_it_coming(bed: Bed) -> None:
    bed.scaler.scaling = Scaling(start=(0,))
    loop = bed.loop()

    bed.turn(loop)
    bed.scaler.scaling = Scaling()
    bed.turn(loop)
    coming = bed.scaler.seen[-1].instances.state.tolist().count(SERVING - 1)
    bed.fleet.ready = True
    bed.turn(loop, 2)

    story = bed.stories()[0]
    assert coming == 1
    assert [each.result for each in story.receipts] == ["begun", "done"]
    assert "1 of chat are needed" in story.decision.because
    assert list(bed.gateway.instances) == ["chat-1"]


def test_a_drain_is_measured_by_the_gpu_time_that_it_freed(bed: Bed) -> None:
    bed.gateway.add("chat-1")
    bed.scaler.scaling = Scaling(drain=(0,))
    loop = bed.loop()

    bed.turn(loop)
    bed.scaler.scaling = Scaling()
    bed.turn(loop, 11)

    story = bed.stories()[0]
    assert story.state is DecisionState.DONE
    assert story.outcomes[0].yardstick == "gpu-time"
    assert story.outcomes[0].kept_share == 1.0
    assert bed.gateway.instances == {}


@pytest.mark.parametrize("autonomy", [Autonomy.OBSERVE, Autonomy.ADVISE])
def test_without_autonomy_nothing_is_touched(bed: Bed, autonomy: Autonomy) -> None:
    bed.gateway.add("chat-1")
    bed.scaler.scaling = Scaling(start=(0,), drain=(0,))

    bed.turn(bed.loop(autonomy), 3)

    assert bed.fleet.orders == []
    assert bed.gateway.asked == []
    states = {each.state for each in bed.stories()}
    assert states == ({DecisionState.ADVISED} if autonomy is Autonomy.ADVISE else set())


def test_a_dry_run_writes_down_what_it_would_have_done(bed: Bed) -> None:
    bed.scaler.scaling = Scaling(start=(0,))

    bed.turn(bed.loop(dry_run=True))

    story = bed.stories()[0]
    assert "nothing was changed: Start chat-1" in story.receipts[0].text
    assert bed.gateway.asked == []


def test_a_person_approves_and_then_it_goes(bed: Bed) -> None:
    bed.scaler.scaling = Scaling(start=(0,))
    bed.fleet.ready = True
    loop = bed.loop(Autonomy.APPROVE)
    bed.turn(loop)
    asked = bed.stories()[0]

    approve = Choice(
        decision=asked.decision.id, t_s=bed.clock.now_s(), choice="approve", user="ann"
    )
    loop.journal.append([approve])
    bed.turn(loop)

    assert asked.state is DecisionState.WAITING
    assert list(bed.gateway.instances) == ["chat-1"]


def test_a_tenant_can_ask_for_less_autonomy_than_the_site_has(bed: Bed) -> None:
    bed.gateway.add("chat-1")
    bed.scaler.scaling = Scaling(drain=(0,))

    bed.turn(bed.loop(tenant_autonomy={"serving": Autonomy.APPROVE}))

    assert bed.stories()[0].state is DecisionState.WAITING


def test_the_guards_budget_counts_the_gpus_of_instances(bed: Bed) -> None:
    bed.gateway.add("chat-1")
    bed.gateway.add("chat-2")
    bed.scaler.scaling = Scaling(drain=(0, 1))

    bed.turn(bed.loop(disturbed_gpus_per_hour=3))

    states = sorted(each.state.value for each in bed.stories())
    assert states == ["done", "held"]


def test_a_steward_that_is_killed_in_a_start_goes_on_with_it_and_starts_no_other(bed: Bed) -> None:
    bed.scaler.scaling = Scaling(start=(0,))
    first = bed.loop()
    bed.turn(first)
    bed.kill(first)

    bed.scaler.scaling = Scaling()
    bed.fleet.ready = True
    again = bed.loop()
    bed.turn(again, 3)

    decisions = {order.decision for what, order in bed.fleet.orders if what == "start"}
    assert len(decisions) == 1
    assert list(bed.gateway.instances) == ["chat-1"]
    assert [each.state for each in bed.stories()] == [DecisionState.DONE]


def test_a_steward_that_is_killed_in_a_drain_ends_it(bed: Bed) -> None:
    bed.gateway.add("chat-1", running=3)
    bed.scaler.scaling = Scaling(drain=(0,))
    first = bed.loop()
    bed.turn(first)
    bed.kill(first)

    bed.scaler.scaling = Scaling()
    bed.gateway.add("chat-1", running=0)
    bed.turn(bed.loop())

    assert bed.gateway.instances == {}


def test_while_the_gateway_is_silent_nothing_is_decided_and_the_fault_is_named(bed: Bed) -> None:
    bed.scaler.scaling = Scaling(start=(0,))
    bed.gateway.down = 10**6
    loop = bed.loop()

    bed.turn(loop)

    assert bed.stories() == []
    assert any("503" in each.problem for each in loop.status.faults)


def test_loops_of_two_domains_share_a_journal_and_each_takes_up_its_own(bed: Bed) -> None:
    bed.scaler.scaling = Scaling(start=(0,))
    loop = bed.loop()
    bed.turn(loop)
    mine = bed.stories()[0].decision

    world = TinyWorld()
    clusters = tiny_loop(bed.folder, world, bed.clock)
    clusters.journal.append(
        [
            Choice(decision=mine.id, t_s=bed.clock.now_s(), choice="undo", user="ann"),
            Choice(decision=decision().id, t_s=bed.clock.now_s(), choice="undo", user="ann"),
        ]
    )
    clusters.turn()

    about_mine = next(each for each in bed.stories() if each.decision.id == mine.id)
    assert world.carried_out == []
    assert not any("undone" in each.why for each in about_mine.verdicts)
    assert clusters.stages.desk.proposed_s(mine.id) is None
    assert loop.stages.desk.proposed_s(mine.id) is not None
    clusters.close()


def test_an_undo_of_a_start_drains_the_instance(bed: Bed) -> None:
    bed.scaler.scaling = Scaling(start=(0,))
    bed.fleet.ready = True
    loop = bed.loop()
    bed.turn(loop)
    bed.scaler.scaling = Scaling()
    started = bed.stories()[0].decision

    undo = Choice(decision=started.id, t_s=bed.clock.now_s(), choice="undo", user="ann")
    loop.journal.append([undo])
    bed.turn(loop)

    assert bed.gateway.instances == {}
    assert bed.fleet.running == {}

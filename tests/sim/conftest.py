"""A stage for worlds whose jobs are told, not drawn: a test says who comes and does what."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from factories import decision
from steward.model.actions import CallBack, Lend
from steward.model.cluster import GIB
from steward.model.decision import Decision
from steward.model.identity import DecisionId, GpuId, JobId, TenantId
from steward.model.job import Checkpointing, Job, JobShape, JobState, Tenant
from steward.sim.program import JobProgram, Kind, Order, Phase, SimulatedJob, Use
from steward.sim.scenario import Group, Scenario
from steward.sim.shapes import measured_shapes
from steward.sim.world import World

START_S = 1000.0
USES = {"idle_allocated": Use.IDLE, "checkpoint": Use.SAVE, "dataset_load": Use.SETUP}


class Stage:
    """Collects jobs, is the script of a world, and plays it."""

    def __init__(self) -> None:
        self.shapes = measured_shapes()
        self._orders: list[Order] = []
        self._programs: dict[int, JobProgram] = {}
        self._coming: list[Order] = []

    # -- who comes -----------------------------------------------------------------------------

    def job(self, *phases: tuple[str, float], gpus: int = 1, **changes: Any) -> JobId:
        """Add a job that goes through (shape, seconds); it is there from the beginning."""
        number = len(self._orders) + 1
        able = changes.pop("able", True)
        saves = Checkpointing(able=True, save_s=20.0, restore_s=30.0) if able else Checkpointing()
        order = Order(
            job=Job(
                id=JobId(str(number)),
                tenant=TenantId("a"),
                shape=JobShape(
                    gpus=gpus,
                    gpu_memory_bytes=changes.pop("memory_gib", 20) * GIB,
                    gpu_models=changes.pop("models", ()),
                ),
                submit_s=changes.pop("at_s", START_S),
                priority=changes.pop("priority", 0),
                checkpointing=saves,
            ),
            number=number,
            kind=Kind.TRAINING,
            duration_s=1.0,
            limit_s=changes.pop("limit_s", math.inf),
            fill_share=1.0,
            ends=changes.pop("ends", JobState.COMPLETED),
            patience=0.0,
        )
        assert not changes
        self._orders.append(order)
        self._programs[number] = JobProgram(
            tuple(
                Phase(self.shapes.code(shape), seconds, USES.get(shape, Use.WORK))
                for shape, seconds in phases
            )
        )
        return order.job.id

    def initial(self) -> Sequence[Order]:
        here = [order for order in self._orders if order.job.submit_s <= START_S]
        self._coming = [order for order in self._orders if order.job.submit_s > START_S]
        return here

    def following(self) -> Order | None:
        return self._coming.pop(0) if self._coming else None

    def submits(self, order: Order, *, waiting: int) -> bool:
        return order.patience == 0.0 or waiting == 0

    def program(self, order: Order) -> JobProgram:
        return self._programs[order.number]

    # -- the world -----------------------------------------------------------------------------

    def world(self, *, gpus: int = 1, nodes: int = 1, seed: int = 0, **changes: Any) -> World:
        scenario = Scenario(
            name="told",
            groups=(Group(tenant=Tenant(id=TenantId("a"))),),
            nodes=nodes,
            gpus_per_node=gpus,
            warm_up_s=0.0,
            **{"failures_per_gpu_hour": 0.0, **changes},
        )
        return World(scenario, seed=seed, start_s=START_S, script=self)

    @staticmethod
    def life(world: World, job: JobId) -> SimulatedJob:
        return world._engine.lives[int(job)]

    @staticmethod
    def state(world: World, job: JobId) -> Job:
        return world._engine.lives[int(job)].job

    @staticmethod
    def lending(owner: JobId, borrower: JobId, *gpus: str, name: str = "d-1") -> Decision:
        ids = tuple(GpuId(gpu) for gpu in gpus or ("n01/gpu0",))
        return decision(name, action=Lend(gpus=ids, owner=owner, borrower=borrower))

    @staticmethod
    def calling_back(of: Decision, name: str = "d-back") -> Decision:
        assert isinstance(of.action, Lend)
        back = CallBack(
            loan=DecisionId(of.id),
            gpus=of.action.gpus,
            owner=of.action.owner,
            borrower=of.action.borrower,
        )
        return decision(name, action=back)


@pytest.fixture
def stage() -> Stage:
    return Stage()

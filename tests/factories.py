"""The smallest valid value of each kind; a test states only what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from steward.model.actions import Drain, Lend, Preempt, Start
from steward.model.cluster import GIB, Cluster, Gpu, GpuModel, Node
from steward.model.decision import Decision, Expectation, Receipt
from steward.model.event import Observation
from steward.model.finding import Evidence, Finding, Severity
from steward.model.forecast import (
    LOAN_YIELD,
    REMAINING_S,
    UNEXPLAINED_S,
    About,
    Forecast,
    ForecastColumn,
)
from steward.model.frame import ENTITY, T_S, Frame, job_entity, share_entity
from steward.model.identity import DecisionId, FindingId, GpuId, JobId, NodeId, TenantId
from steward.model.job import Checkpointing, Job, JobShape, JobState, Tenant
from steward.model.moment import Moment
from steward.model.outcome import Interval, Outcome
from steward.model.view import ClusterView, Loan

H200 = GpuModel(
    name="h200", generation="hopper", memory_bytes=141 * GIB, idle_watts=75.0, max_watts=700.0
)
SAVES = Checkpointing(able=True, save_s=20.0, restore_s=30.0)


def node(name: str = "n1", gpus: int = 2, model: GpuModel = H200) -> Node:
    id_ = NodeId(name)
    return Node(
        id=id_,
        gpus=tuple(
            Gpu(id=GpuId(f"{name}/gpu{i}"), node=id_, index=i, model=model) for i in range(gpus)
        ),
    )


def cluster(*nodes: Node) -> Cluster:
    return Cluster(id="test", nodes=nodes or (node(),))


def job(name: str = "j1", **changes: Any) -> Job:
    """Return a waiting one-GPU job of tenant `a`; give `on` to let it run on those GPUs."""
    gpus = tuple(GpuId(gpu) for gpu in changes.pop("on", ()))
    values: dict[str, Any] = {
        "id": JobId(name),
        "tenant": TenantId("a"),
        "shape": JobShape(gpus=max(1, len(gpus)), gpu_memory_bytes=10 * GIB),
        "submit_s": 0.0,
        "checkpointing": SAVES,
        "gpus": gpus,
        "state": JobState.RUNNING if gpus else JobState.QUEUED,
        "start_s": 0.0 if gpus else None,
    }
    return Job(**{**values, **changes})


def tenants(*names: str) -> tuple[Tenant, ...]:
    return tuple(Tenant(id=TenantId(name)) for name in names or ("a", "b"))


def samples(t_s: float, rows: Mapping[str, Mapping[str, float | None]]) -> Frame:
    """Return a frame of one instant: entity -> metric -> value."""
    metrics = sorted({metric for row in rows.values() for metric in row})
    return pl.DataFrame(
        {
            T_S: [t_s] * len(rows),
            ENTITY: list(rows),
            **{metric: [row.get(metric) for row in rows.values()] for metric in metrics},
        },
        schema={T_S: pl.Float64, ENTITY: pl.String, **dict.fromkeys(metrics, pl.Float64)},
    )


def gpu_row(busy: float | None, *, watts: float = 80.0, used_gib: float = 8.0) -> dict[str, Any]:
    return {
        "gpu.busy_share": busy,
        "gpu.power_watts": watts,
        "gpu.memory.used_bytes": used_gib * GIB,
    }


def host_row(
    cores: float = 0.05, *, read: float = 0.0, write: float = 0.0
) -> dict[str, float | None]:
    return {
        "job.cpu.busy_cores": cores,
        "job.disk.read_bytes_per_s": read,
        "job.disk.write_bytes_per_s": write,
    }


def moment(*nodes: Node, jobs: Iterable[Job] = (), of: tuple[Tenant, ...] = ()) -> Moment:
    made = Moment()
    made.fold(Observation(cluster=cluster(*nodes), tenants=of or tenants(), jobs=tuple(jobs)))
    return made


def view(
    *nodes: Node,
    jobs: Iterable[Job] = (),
    busy: Mapping[str, float | None] | None = None,
    t_s: float = 1000.0,
    loans: Iterable[Loan] = (),
    of: tuple[Tenant, ...] = (),
) -> ClusterView:
    """Return a moment in which every GPU said how busy it is (idle unless `busy` says more)."""
    nodes = nodes or (node(),)
    made = moment(*nodes, jobs=jobs, of=of)
    for each in loans:
        made.lend(each)
    ids = [gpu.id for each in nodes for gpu in each.gpus]
    rows: dict[str, Any] = {id_: gpu_row((busy or {}).get(id_, 0.0)) for id_ in ids}
    rows |= {job_entity(each.id): host_row() for each in jobs}
    for loan in loans:
        for gpu in loan.gpus:
            rows[share_entity(gpu, loan.owner)] = {"share.busy_share": (busy or {}).get(gpu, 0.0)}
            rows[share_entity(gpu, loan.borrower)] = {"share.busy_share": 0.8}
    made.fold(Observation(frame=samples(t_s, rows)))
    return made.view(t_s)


def believing(
    seen: ClusterView,
    *,
    idle_s: Mapping[str, float] | None = None,
    remaining_s: float = 1800.0,
    loan_yield: float = 0.6,
) -> ClusterView:
    """Return the view with the forecasts that the built-in policy relies on."""
    ages = np.array([(idle_s or {}).get(id_, np.nan) for id_ in seen.gpus.ids])
    remaining = np.where(np.isnan(ages), np.nan, remaining_s)
    return seen.with_forecasts(
        (
            column(UNEXPLAINED_S, ages),
            column(REMAINING_S, remaining),
            column(LOAN_YIELD, np.array([loan_yield]), about=About.WHOLE),
        )
    )


def column(quantity: str, values: Any, *, about: About = About.GPUS) -> ForecastColumn:
    return ForecastColumn(
        about=about, quantity=quantity, low=values, mid=values, high=values, basis="test"
    )


def finding(owner: str = "j1", *gpus: str, since_s: float = 0.0) -> Finding:
    ids = tuple(GpuId(gpu) for gpu in gpus or ("n1/gpu0",))
    return Finding(
        id=FindingId(f"f-{owner}"),
        t_s=1000.0,
        rule="gpu-idle-while-allocated",
        subject=owner,
        title=f"{owner} is idle",
        severity=Severity.WASTE,
        since_s=since_s,
        evidence=tuple(
            Evidence(
                entity=gpu, metric="gpu.busy_share", from_s=since_s, to_s=1000.0, says="0 % busy"
            )
            for gpu in ids
        ),
        job=JobId(owner),
        tenant=TenantId("a"),
        gpus=ids,
    )


def loan(
    name: str = "d-1", *, owner: str = "j1", borrower: str = "j2", gpus: tuple[str, ...] = ()
) -> Loan:
    return Loan(
        id=DecisionId(name),
        owner=JobId(owner),
        borrower=JobId(borrower),
        gpus=tuple(GpuId(gpu) for gpu in gpus or ("n1/gpu0",)),
        since_s=0.0,
    )


def decision(name: str = "d-1", **changes: Any) -> Decision:
    """Return a decision to lend `n1/gpu0` of `j1` to `j2`."""
    gpus = tuple(GpuId(gpu) for gpu in changes.pop("gpus", ("n1/gpu0",)))
    owner = JobId(changes.pop("owner", "j1"))
    borrower = JobId(changes.pop("borrower", "j2"))
    id_ = DecisionId(name)
    values: dict[str, Any] = {
        "id": id_,
        "t_s": 1000.0,
        "policy": "lend-idle",
        "action": Lend(gpus=gpus, owner=owner, borrower=borrower),
        "because": "it is idle",
        "findings": (FindingId(f"f-{owner}"),),
        "forecasts": tuple(idle_for(gpu, 1800.0) for gpu in gpus),
        "expects": Expectation(low=100.0, mid=300.0, high=500.0),
        "check_after_s": 600.0,
        "tenant": TenantId("a"),
    }
    return Decision(**{**values, **changes})


def idle_for(gpu: str, seconds: float) -> Forecast:
    return Forecast(
        subject=gpu, quantity=REMAINING_S, low=seconds, mid=seconds, high=seconds, basis="test"
    )


def call_back(of: Decision, name: str = "d-back") -> Decision:
    """Return the decision that gives back what `of` lent."""
    assert of.undo is not None
    return decision(name, action=of.undo, findings=())


def start(
    name: str = "d-start", *, job: str = "j2", gpus: tuple[str, ...] = ("n1/gpu0",)
) -> Decision:
    """Return the decision to start a waiting job."""
    action = Start(job=JobId(job), gpus=tuple(GpuId(gpu) for gpu in gpus))
    return decision(name, policy="fifo", action=action, findings=(), forecasts=())


def preempt(
    name: str = "d-stop", *, job: str = "j1", gpus: tuple[str, ...] = ("n1/gpu0",)
) -> Decision:
    """Return the decision to save a running job and put it back into the queue."""
    action = Preempt(job=JobId(job), gpus=tuple(GpuId(gpu) for gpu in gpus))
    return decision(name, policy="las", action=action, findings=(), forecasts=())


def drain(name: str = "d-drain", on: str = "n1") -> Decision:
    gpus = (GpuId(f"{on}/gpu0"), GpuId(f"{on}/gpu1"))
    return decision(name, action=Drain(node=NodeId(on), gpus=gpus))


def receipt(of: Decision, *, t_s: float = 1000.0, result: Any = "done") -> Receipt:
    gpus = of.action.gpus if result != "failed" else ()
    return Receipt(decision=of.id, t_s=t_s, result=result, gpus=gpus, text="")


def outcome(name: str = "d-1", *, gained: float = 300.0, **changes: Any) -> Outcome:
    values: dict[str, Any] = {
        "decision": DecisionId(name),
        "t_s": 1600.0,
        "from_s": 1000.0,
        "to_s": 1600.0,
        "gained": Interval(low=gained - 30, mid=gained, high=gained + 30),
        "lent": 600.0,
        "counted_on": 600.0,
        "expected": 300.0,
        "due_s": 1600.0,
        "counterfactual": 0.0,
        "idle_watts": 80.0,
        "final": False,
        "text": "",
    }
    return Outcome(**{**values, **changes})

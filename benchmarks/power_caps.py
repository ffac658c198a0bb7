"""Power caps: which part of the best possible saving is reached, at which slowdown.

Real measured curves (Zeus: V100, A40, P100; time per epoch and mean power of trainings at power
limits 25 or 50 W apart; straight lines between them) stand in for a GPU. The estimator
`power-curve` and the policy `save-energy` are those that run live: they see views with counted
steps and power readings (1 % of noise), and their caps are carried out.

The constants of the fit were chosen on the V100
curves of shufflenetv2, resnet50 and ncf ("chosen on"); everything else was not looked at for it.
"""

from __future__ import annotations

import argparse
import gzip
import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from report import bar, finish, progress
from steward.decide.energy.save_energy import SaveEnergy
from steward.learn.estimators.power_curve import PowerCurve
from steward.model.actions import CapPower
from steward.model.cluster import GIB, Cluster, Gpu, GpuModel, Node
from steward.model.event import Observation
from steward.model.forecast import POWER_FLOOR_WATTS, About
from steward.model.frame import ENTITY, T_S, job_entity
from steward.model.identity import GpuId, JobId, NodeId, TenantId
from steward.model.job import Job, JobShape, JobState, Tenant
from steward.model.moment import Moment

Floats = NDArray[np.float64]
DATA = Path(os.environ.get("STEWARD_DATA", Path(__file__).parents[2] / "shared" / "data"))
CHOSEN_ON = ("v100", ("shufflenetv2", "resnet50", "ncf"))
ALLOWED = (0.05, 0.10)
NOISE_SHARE = 0.01  # of the speed in a window and of a power reading, standard deviation
STEPS_PER_S = 7.3  # without a cap; only ratios matter
TURN_S = 10.0
TURNS = 400
SETTLED_TURNS = 40  # without a change: it stays there
GPU, JOB = GpuId("n1/gpu0"), JobId("1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One training on one kind of GPU: what was recorded at each limit, highest last."""

    name: tuple[str, ...]
    limits: Floats
    speeds: Floats  # against that at the highest limit
    watts: Floats

    def at(self, limit: float) -> tuple[float, float]:
        """Return speed and power at a limit, between recorded ones on a straight line."""
        speed = np.interp(limit, self.limits, self.speeds)
        return float(speed), float(np.interp(limit, self.limits, self.watts))

    def saving(self, limit: float) -> float:
        """Return the part of the energy of a step that a limit saves."""
        speed, watts = self.at(limit)
        return 1.0 - watts / speed / float(self.watts[-1])

    def best(self, allowed: float) -> float:
        """Return the limit of least energy within a slowdown, to the watt."""
        tried = np.arange(self.limits[0], self.limits[-1] + 0.5)
        within = [each for each in tried if 1.0 - self.at(each)[0] <= allowed]
        return float(max(within, key=self.saving))

    @property
    def part(self) -> str:
        """Which part of the data it is in."""
        if self.name[0] != CHOSEN_ON[0]:
            return f"{self.name[0]}, all models"
        return "v100, chosen on" if self.name[2] in CHOSEN_ON[1] else "v100, other models"


def curves() -> list[Curve]:
    """Read all recorded curves."""
    with gzip.open(DATA / "energy" / "zeus_power.csv.gz") as file:
        table = pl.read_csv(file.read())
    found = []
    keys = ["gpu", "dataset", "network", "batch_size", "optimizer"]
    for name, rows in table.sort("power_limit").group_by(keys, maintain_order=True):
        seconds = rows["time_per_epoch"].to_numpy()
        found.append(
            Curve(
                name=tuple(map(str, name)),
                limits=rows["power_limit"].cast(pl.Float64).to_numpy(),
                speeds=seconds[-1] / seconds,
                watts=rows["average_power"].to_numpy(),
            )
        )
    return sorted(found, key=lambda each: each.name)


class Card:
    """A GPU with one training on it, whose speed and power follow a recorded curve."""

    def __init__(self, curve: Curve, allowed: float, seed: int) -> None:
        self.curve = curve
        self.limit = float(curve.limits[-1])
        self.random = np.random.default_rng(seed)
        self.steps = 0.0
        self.moment = Moment()
        model = GpuModel(
            name=curve.name[0],
            generation="",
            memory_bytes=16 * GIB,
            idle_watts=30.0,
            max_watts=self.limit,
            least_watts=float(curve.limits[0]),
        )
        node = NodeId("n1")
        gpu = Gpu(id=GPU, node=node, index=0, model=model)
        job = Job(
            id=JOB,
            tenant=TenantId("a"),
            shape=JobShape(gpus=1),
            submit_s=0.0,
            start_s=0.0,
            state=JobState.RUNNING,
            gpus=(GPU,),
            max_slowdown_share=allowed,
        )
        self.moment.fold(
            Observation(
                cluster=Cluster(id="n1", nodes=(Node(id=node, gpus=(gpu,)),)),
                tenants=(Tenant(id=TenantId("a")),),
                jobs=(job,),
            )
        )

    def run(self, t_s: float) -> None:
        """Let `TURN_S` pass, and report it."""
        speed, watts = self.curve.at(self.limit)
        noise = 1.0 + NOISE_SHARE * self.random.standard_normal(2)
        self.steps += STEPS_PER_S * speed * TURN_S * noise[0]
        frame = pl.DataFrame(
            {
                T_S: [t_s, t_s],
                ENTITY: [GPU, job_entity(JOB)],
                "gpu.busy_share": [0.97, None],
                "gpu.power_watts": [watts * noise[1], None],
                "gpu.power.limit_watts": [self.limit, None],
                "job.progress.step_count": [None, float(int(self.steps))],
            }
        )
        self.moment.fold(Observation(frame=frame))


def trial(curve: Curve, allowed: float, seed: int) -> dict[str, Any]:
    """Let the learner and the policy find a cap for one training."""
    card, learner, policy = Card(curve, allowed, seed), PowerCurve(), SaveEnergy()
    limits, slowdowns, unchanged = [card.limit], [], 0
    believed: list[tuple[float, float]] = []
    for turn in range(TURNS):
        t_s = 1000.0 + turn * TURN_S
        card.run(t_s)
        slowdowns.append(1.0 - curve.at(card.limit)[0])
        view = card.moment.view(t_s)
        learner.learn(view, ())
        view = view.with_forecasts(learner.predict(view))
        decisions = policy.decide(view)
        unchanged += 1
        for decision in decisions:
            assert isinstance(decision.action, CapPower)
            assert not decision.action.unmet(view)
            floor = view.forecast(About.JOBS, POWER_FLOOR_WATTS)
            if floor is not None and len(limits) == 1:
                believed = [(float(floor.low[0]), float(floor.high[0]))]
            card.limit, unchanged = decision.action.watts, 0
            limits.append(card.limit)
        if unchanged >= SETTLED_TURNS:
            break
    best = curve.best(allowed)
    return {
        "part": curve.part,
        "reached": bool(curve.watts[-1] >= curve.limits[0]),
        "allowed": allowed,
        "limit": card.limit,
        "slowdown": 1.0 - curve.at(card.limit)[0],
        "saving": curve.saving(card.limit),
        "best_saving": curve.saving(best),
        "limits_tried": len(set(limits)) - 1,
        "changes": len(limits) - 1,
        "settled_s": (len(slowdowns) - unchanged) * TURN_S,
        "worst_slowdown": max(slowdowns),
        "mean_slowdown": float(np.mean(slowdowns)),
        "covered": None if not believed else believed[0][0] - 5 <= best <= believed[0][1] + 5,
    }


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of many trials with one allowance."""

    def column(name: str) -> Floats:
        return np.array([each[name] for each in found], dtype=np.float64)

    allowed = found[0]["allowed"]
    covered = [each["covered"] for each in found if each["covered"] is not None]
    return {
        "jobs": len(found),
        "saving_median": round(float(np.median(column("saving"))), 4),
        "best_saving_median": round(float(np.median(column("best_saving"))), 4),
        "share_of_best_saving": round(
            float(column("saving").sum() / column("best_saving").sum()), 4
        ),
        "slowdown_median": round(float(np.median(column("slowdown"))), 4),
        "slowdown_p95": round(float(np.quantile(column("slowdown"), 0.95)), 4),
        "beyond_allowed_and_1_percent_share": round(
            float(np.mean(column("slowdown") > allowed + 0.01)), 4
        ),
        "worst_slowdown_while_trying_p95": round(
            float(np.quantile(column("worst_slowdown"), 0.95)), 4
        ),
        "limits_tried_median": float(np.median(column("limits_tried"))),
        "limits_tried_most": int(column("limits_tried").max()),
        "settled_s_median": float(np.median(column("settled_s"))),
        "first_interval_covers_best_share": round(float(np.mean(covered)), 3) if covered else None,
    }


def main() -> None:
    """Run all curves and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="every fourth curve")
    parser.add_argument("--part", default="", help="only parts of the data that begin with this")
    given = parser.parse_args()
    wanted = [
        each for each in curves()[:: 4 if given.quick else 1] if each.part.startswith(given.part)
    ]
    found = []
    for number, curve in enumerate(wanted):
        found += [trial(curve, allowed, number) for allowed in ALLOWED]
        if number % 20 == 0:
            progress(f"{number} of {len(wanted)} curves")
    groups: Mapping[str, list[dict[str, Any]]] = defaultdict(list)
    for each in found:
        held_out = "" if each["part"] == "v100, chosen on" else "held out"
        for part in filter(None, (each["part"], held_out)):
            kind = f"{each['allowed']:.0%} allowed"
            groups[f"{part}, {kind}, any power"].append(each)
            if each["reached"]:
                groups[f"{part}, {kind}"].append(each)
    results = {name: summary(each) for name, each in sorted(groups.items())}
    bars = []
    for allowed in ALLOWED:
        name = f"held out, {allowed:.0%} allowed"
        if name not in results:
            continue
        held = results[name]
        beyond = held["beyond_allowed_and_1_percent_share"]
        bars += [
            bar(f"share of the best saving, {name}", held["share_of_best_saving"], ">=", 0.8),
            bar(f"jobs beyond the allowed slowdown and 1 %, {name}", beyond, "<=", 0.05),
            bar(f"limits tried, median, {name}", held["limits_tried_median"], "<=", 5),
        ]
    finish("power_caps", results, bars)


if __name__ == "__main__":
    main()

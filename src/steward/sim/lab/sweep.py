"""A comparison at every point of a grid: loads, checkpoint costs, forecast errors, sizes, options.

Where a conclusion turns as the load or a cost grows, it shows here. All points run together, on
all cores or on other machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from steward.errors import StewardError, unknown_name
from steward.sim.lab.compare import Comparison, ComparisonPlan, compared, fitting, trials_of
from steward.sim.lab.settings import LabSettings
from steward.sim.lab.trials import StudyInput, run_trials
from steward.sim.lab.trials.variants import resized
from steward.sim.lab.trials.workers import OnDone

__all__ = ["VARIED", "Sweep", "SweepPoint", "sweep"]

OPTION = "option."  # `option.NAME` varies an option of the policies: ablations
_SETTINGS = ("placement", "checkpoint_s", "saves_every_s", "forecast_error")
VARIED = ("load", "gpus", *_SETTINGS)
Value = float | int | str | bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SweepPoint:
    """One point of the grid and what came out there."""

    varied: dict[str, Value]
    comparison: Comparison


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """What came out at every point."""

    points: tuple[SweepPoint, ...]

    def as_record(self) -> dict[str, Any]:
        """Return all of it as JSON knows it; the trace and the plan stand there once."""
        records = [each.comparison.as_record() for each in self.points]
        first = records[0]
        kept = ("cluster", "policies", "baseline", "differences", "failed")
        return {
            "trace": first["trace"],
            "settings": first["settings"],
            "points": [
                {"varied": point.varied, **{key: record[key] for key in kept}}
                for point, record in zip(self.points, records, strict=True)
            ],
        }

    def rows(self) -> Iterator[dict[str, Value]]:
        """Return a flat row per point and policy: what was varied, then every figure."""
        for point in self.points:
            for policy, figures in point.comparison.figures.items():
                yield {**point.varied, "policy": policy, **figures}


def sweep(
    base: StudyInput,
    policies: Sequence[str],
    settings: LabSettings,
    plan: ComparisonPlan,
    *,
    vary: Mapping[str, Sequence[Value]],
    done: OnDone = lambda _i, _trial: None,
) -> Sweep:
    """Compare the policies at every combination of the values of `vary`."""
    check(vary)
    grid = [dict(zip(vary, values, strict=True)) for values in product(*vary.values())]
    worlds = [_world(base, settings, varied) for varied in grid]
    trials = [
        trial
        for varied, (_, changed) in zip(grid, worlds, strict=True)
        for trial in trials_of(
            policies,
            changed,
            plan,
            load=float(varied.get("load", 1.0)),
            gpus=int(varied.get("gpus", 0)),
        )
    ]
    found = run_trials(
        base, trials, workers=plan.workers, scheduler=plan.scheduler, cache=plan.cache, done=done
    )
    each = len(trials) // len(grid)
    points = []
    for i, (varied, (world, changed)) in enumerate(zip(grid, worlds, strict=True)):
        here, left_out = fitting(world)
        part = found[i * each : (i + 1) * each]
        comparison = compared(here, policies, changed, plan, found=part, left_out=left_out)
        points.append(SweepPoint(varied=varied, comparison=comparison))
    return Sweep(points=tuple(points))


def check(vary: Mapping[str, Sequence[Value]]) -> None:
    """Refuse what cannot be varied, before anything runs."""
    for name, values in vary.items():
        if name not in VARIED and not name.startswith(OPTION):
            raise unknown_name("thing to vary", name, (*VARIED, "option.NAME"), where="--vary")
        if name == "placement" or name.startswith(OPTION):
            continue
        for value in values:
            lowest = 0.0 if name in _SETTINGS else 1e-9
            if isinstance(value, str | bool) or not lowest <= value < float("inf"):
                raise StewardError(
                    f"{name} cannot be '{value}'",
                    where="--vary",
                    hint=f"give numbers, such as `--vary {name}=1,2`",
                )


def _world(
    base: StudyInput, settings: LabSettings, varied: Mapping[str, Value]
) -> tuple[StudyInput, LabSettings]:
    known = {each.name for each in fields(LabSettings)}
    changes: dict[str, Any] = {name: v for name, v in varied.items() if name in known}
    options = {k.removeprefix(OPTION): v for k, v in varied.items() if k.startswith(OPTION)}
    if options:
        changes["policy_options"] = {**settings.policy_options, **options}
    machines = resized(base.machines, int(varied["gpus"])) if "gpus" in varied else base.machines
    return replace(base, machines=machines), replace(settings, **changes)

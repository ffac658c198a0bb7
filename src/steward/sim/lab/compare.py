"""Several policies on the same jobs and machines, judged alike, with how sure the figures are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steward.errors import StewardError
from steward.model.trace import RowFault, Trace
from steward.sim.lab.intervals import Difference, difference, drawn, interval
from steward.sim.lab.judge.measures import FIGURES
from steward.sim.lab.settings import LabSettings
from steward.sim.lab.trials import Cache, Failed, Judged, StudyInput, Trial, run_trials, runnable
from steward.sim.lab.trials.variants import span_s
from steward.sim.lab.trials.workers import OnDone

__all__ = ["Comparison", "ComparisonPlan", "compare", "compared", "fitting", "trials_of"]

COMPARED = (
    *("jct_mean_s", "jct_p50_s", "jct_p99_s", "wait_mean_s", "wait_p99_s", "makespan_s"),
    *("utilisation", "fairness_compliance", "share_compliance", "preemptions", "slowdown_mean"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPlan:
    """How a comparison is carried out. Every seed runs on every window of the trace."""

    seeds: tuple[int, ...] = (0,)
    windows: int = 1
    baseline: str = ""  # "": the first policy that could be run
    workers: int = 1
    scheduler: str = ""
    cache: Cache | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """What came out. Figures are means over runs; pictures are of the first run."""

    base: StudyInput
    settings: LabSettings
    plan: ComparisonPlan
    baseline: str
    judged: dict[str, tuple[Judged, ...]]  # per policy, its runs
    failed: tuple[Failed, ...]
    figures: dict[str, dict[str, float]]
    intervals: dict[str, dict[str, tuple[float, float]]]
    differences: dict[str, dict[str, Difference]]
    left_out: tuple[RowFault, ...]  # or changed: by the reader, and for want of machines

    def as_record(self, *, series: bool = False) -> dict[str, Any]:
        """Return all of it as JSON knows it; with `series` also the queue over time."""
        return {
            "trace": _trace_record(self.base.trace, self.left_out),
            "cluster": _cluster_record(self.base),
            "settings": _settings_record(self.settings, self.plan),
            "policies": {name: self._policy(name, series=series) for name in self.judged},
            "baseline": self.baseline,
            "differences": {
                policy: {name: _difference_record(each) for name, each in rows.items()}
                for policy, rows in self.differences.items()
            },
            "failed": {
                each.policy: {"problem": each.problem, "hint": each.hint} for each in self.failed
            },
        }

    def _policy(self, name: str, *, series: bool) -> dict[str, Any]:
        first = self.judged[name][0]
        record: dict[str, Any] = dict(self.figures[name])
        for count in ("jobs", "finished", "unfinished", "preemptions", "decisions"):
            record[count] = _whole(record[count])
        exact = {"jobs": [record["jobs"], record["jobs"]]}
        drawn_ = {key: list(each) for key, each in self.intervals[name].items()}
        record["intervals"] = {**exact, **drawn_}
        record["tenants"] = [_fields(row) for row in first.measures.tenants]
        record["notes"] = list(first.notes)
        if series:
            line = first.measures.timeline
            record["timeline"] = {key: values.tolist() for key, values in _fields(line).items()}
        return record


def compare(
    base: StudyInput,
    policies: Sequence[str],
    settings: LabSettings,
    plan: ComparisonPlan | None = None,
    *,
    done: OnDone = lambda _i, _trial: None,
) -> Comparison:
    """Run every policy on the same jobs and machines, and judge and compare what came out.

    A policy that cannot run on this trace is in `failed`, and the others are compared.
    """
    plan = plan or ComparisonPlan()
    base, left_out = fitting(base)
    found = run_trials(
        base,
        trials_of(policies, settings, plan),
        workers=plan.workers,
        scheduler=plan.scheduler,
        cache=plan.cache,
        done=done,
    )
    return compared(base, policies, settings, plan, found=found, left_out=left_out)


def trials_of(
    policies: Sequence[str],
    settings: LabSettings,
    plan: ComparisonPlan,
    *,
    load: float = 1.0,
    gpus: int = 0,
) -> list[Trial]:
    """Return a trial per policy and run, the runs of a policy together."""
    runs = [(seed, which) for which in range(plan.windows) for seed in plan.seeds]
    return [
        Trial(
            policy=policy,
            settings=replace(settings, seed=seed),
            load=load,
            window=(which, plan.windows),
            gpus=gpus,
        )
        for policy in policies
        for seed, which in runs
    ]


def compared(
    base: StudyInput,
    policies: Sequence[str],
    settings: LabSettings,
    plan: ComparisonPlan,
    *,
    found: Sequence[Judged | Failed],
    left_out: tuple[RowFault, ...],
) -> Comparison:
    """Put together what came out of `trials_of`, in its order."""
    runs = len(plan.seeds) * plan.windows
    judged, failed = _sorted_out(policies, found, runs)
    baseline = _baseline(plan.baseline, policies, judged)
    figures = {name: _means(each) for name, each in judged.items()}
    draws = _draws(judged, runs, settings.seed)
    return Comparison(
        base=base,
        settings=settings,
        plan=plan,
        baseline=baseline,
        judged=judged,
        failed=failed,
        figures=figures,
        intervals={
            name: {figure: interval(values) for figure, values in rows.items()}
            for name, rows in draws.items()
        },
        differences=_differences(draws, figures, baseline),
        left_out=left_out,
    )


def fitting(base: StudyInput) -> tuple[StudyInput, tuple[RowFault, ...]]:
    """Leave out, for all policies alike, what no machine could ever run."""
    trace, faults = runnable(base.trace, base.machines)
    if not len(trace):
        reasons = "; ".join(f"{each.rows} rows: {each.reason}" for each in faults)
        raise StewardError(
            f"no job of the trace can run on this cluster ({reasons or 'it has no jobs'})",
            where=base.trace.name,
            hint="give more GPUs, or another trace",
        )
    return replace(base, trace=trace), (*base.trace.faults, *faults)


def _sorted_out(
    policies: Sequence[str], found: Sequence[Judged | Failed], runs: int
) -> tuple[dict[str, tuple[Judged, ...]], tuple[Failed, ...]]:
    judged: dict[str, tuple[Judged, ...]] = {}
    failed: list[Failed] = []
    for i, policy in enumerate(policies):
        mine = found[i * runs : (i + 1) * runs]
        wrong = [each for each in mine if isinstance(each, Failed)]
        if wrong:
            failed.append(wrong[0])
        else:
            judged[policy] = tuple(each for each in mine if isinstance(each, Judged))
    return judged, tuple(failed)


def _baseline(asked: str, policies: Sequence[str], judged: Mapping[str, object]) -> str:
    if asked and asked not in policies:
        raise StewardError(
            f"the baseline '{asked}' is not among the policies: {', '.join(policies)}",
            where="--baseline",
            hint="name one of them",
        )
    return asked if asked in judged else next(iter(judged), "")


def _means(runs: Sequence[Judged]) -> dict[str, float]:
    tables = [run.measures.figures() for run in runs]
    return {name: float(np.mean([table[name] for table in tables])) for name in FIGURES}


def _draws(
    judged: Mapping[str, tuple[Judged, ...]], runs: int, seed: int
) -> dict[str, dict[str, Any]]:
    if not judged:
        return {}
    samples = [{name: each[i].sample for name, each in judged.items()} for i in range(runs)]
    return drawn(samples, seed=seed)


def _differences(
    draws: Mapping[str, Mapping[str, Any]],
    figures: Mapping[str, Mapping[str, float]],
    baseline: str,
) -> dict[str, dict[str, Difference]]:
    return {
        name: {
            figure: difference(
                rows[figure],
                draws[baseline][figure],
                figure=figures[name][figure],
                other=figures[baseline][figure],
            )
            for figure in COMPARED
        }
        for name, rows in draws.items()
        if name != baseline
    }


# -- records -----------------------------------------------------------------------------------


def _trace_record(trace: Trace, faults: Sequence[RowFault]) -> dict[str, Any]:
    return {
        "name": trace.name,
        "origin": trace.origin,
        "synthetic": trace.synthetic,
        "jobs": len(trace),
        "gpu_hours": trace.gpu_seconds / 3600.0,
        "span_s": span_s(trace),
        "tenants": len(trace.tenants),
        "rows_left_out": sum(each.rows for each in faults if not each.kept),
        "left_out": [_fields(each) | {"examples": list(each.examples)} for each in faults],
    }


def _cluster_record(base: StudyInput) -> dict[str, Any]:
    machines = base.machines
    types = {
        name: int(machines.gpus[machines.up & (machines.type == code)].sum())
        for code, name in enumerate(machines.types)
    }
    return {
        "gpus": machines.total_gpus,
        "nodes": len(machines),
        "gpus_per_node": int(machines.gpus.max(initial=0)),
        "gpus_by_type": types,
        "clusters": list(machines.clusters),
        "changes": len(machines.changes),
    }


def _settings_record(settings: LabSettings, plan: ComparisonPlan) -> dict[str, Any]:
    record = _fields(settings)
    del record["seed"]
    return {
        **record,
        "quota": None if settings.quota is None else dict(settings.quota),
        "type_speed": dict(settings.type_speed),
        "policy_options": dict(settings.policy_options),
        "locality_slowdown": list(settings.locality_slowdown),
        "seeds": list(plan.seeds),
        "windows": plan.windows,
    }


def _difference_record(each: Difference) -> dict[str, Any]:
    return {
        "difference": each.by,
        "interval": [each.low, each.high],
        "relative": each.relative,
        "relative_interval": [each.relative_low, each.relative_high],
        "p": each.p,
    }


def _fields(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any of our dataclasses
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _whole(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value

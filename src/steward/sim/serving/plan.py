"""How many instances of a type a trace needs: the simulator, asked with one count after another.

A count is judged on the trace as it was recorded and on resampled days of it. It suffices if each
class reaches the target as recorded, if the lower end of the interval around its mean over the
resampled days does, and if no backlog is left to grow on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from steward.errors import StewardError
from steward.model.serving.instance_type import InstanceType
from steward.model.serving.requests import RequestTrace
from steward.ports import Dispatcher, ServingEstimator
from steward.sim.serving.floors import Ceiling, ceilings, least_instances
from steward.sim.serving.resample import grown, of_model, resampled
from steward.sim.serving.result import ServingRun
from steward.sim.serving.simulate import Failure, Fleet, draw_failures, simulate

__all__ = ["Estimate", "PlanOptions", "PolicyChoice", "Requirement", "plan", "requirement"]

_UNSETTLED = 8  # counts in a row that are tried where a larger one does worse
_MOST_GROWTH = 4.0
_GROWTH_STEP = 0.05
_GROWTH_DAYS = 3
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice:
    """What decides in each simulation, made anew for it: an estimator starts without memory."""

    dispatcher: Callable[[], Dispatcher]
    estimator: Callable[[], ServingEstimator] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What is asked for, and how sure the answer has to be."""

    target: float = 0.99  # of each class
    days: int = 8  # resampled
    confidence: float = 0.95
    most: int = 256  # instances that are tried
    scale: float = 1.0  # arrivals so many times as fast
    block_s: float | None = None
    backlog_share: float = 0.05  # of the requests may wait when the last one arrives
    mtbf_s: float | None = None  # of an instance
    down_s: float = 0.0  # until it begins to start again
    seed: int = 0

    def check(self) -> None:
        """Raise one error for all that cannot be."""
        wrong = []
        if not 0 < self.target <= 1:
            wrong.append(f"the target is {self.target:g}, not above 0 and at most 1")
        if not 0 < self.confidence < 1:
            wrong.append(f"the confidence is {self.confidence:g}, not between 0 and 1")
        if self.days < 2:
            wrong.append(f"an interval needs at least 2 resampled days, not {self.days}")
        if self.most < 1:
            wrong.append(f"at most {self.most} instances would be tried")
        if not 0 < self.scale < float("inf"):
            wrong.append(f"arrivals {self.scale:g} times as fast are no arrivals")
        if wrong:
            raise StewardError("; ".join(wrong), where="plan", hint="change these options")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over resampled days with its interval, beside the figure of the recorded trace."""

    recorded: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What one type needs; `instances` is None if no count suffices, and `reasons` say why."""

    type: InstanceType
    requests: int
    span_s: float
    prompt_tokens: int
    output_tokens: int
    instances: int | None = None
    low: int | None = None  # of the counts that single days need
    high: int | None = None
    attainment: Mapping[str, Estimate] = field(default_factory=dict)
    ceiling: Mapping[str, float] = field(default_factory=dict)  # with unlimited instances
    in_flight: float | None = None  # requests on one instance, on average while they arrive
    goodput_per_s: float | None = None  # requests that got all they were promised
    good_tokens_per_s: float | None = None  # their output tokens
    growth: float | None = None  # of arrivals that this count still bears
    growth_capped: bool = False  # more was not tried
    monotone: bool = True  # no larger count was seen to do worse
    reasons: tuple[str, ...] = ()
    simulations: int = 0

    @property
    def load_share(self) -> float | None:
        """Return the load as a share of what this count bears; None if that is not known."""
        return 1.0 / self.growth if self.growth and not self.growth_capped else None

    @property
    def gpus(self) -> int | None:
        """Return the GPUs of all instances."""
        return None if self.instances is None else self.instances * self.type.gpus

    def usd_per_million(self, usd_per_hour: float) -> tuple[float, float]:
        """Return the cost of a million output tokens, and of a million tokens of both kinds."""
        per_hour = 3600.0 / self.span_s / 1e6
        output = self.output_tokens * per_hour
        return usd_per_hour / output, usd_per_hour / (output + self.prompt_tokens * per_hour)


def plan(
    trace: RequestTrace,
    kinds: tuple[InstanceType, ...],
    policies: PolicyChoice,
    options: PlanOptions | None = None,
    *,
    progress: Callable[[str], None] = lambda _text: None,
) -> tuple[Requirement, ...]:
    """Return what each type needs by itself, in the order given."""
    asked = options or PlanOptions()
    asked.check()
    faults = [f"{each.name}: {fault}" for each in kinds for fault in each.faults()]
    if faults:
        hint = "change the instance types"
        raise StewardError("; ".join(faults), where=trace.name, hint=hint)
    return tuple(requirement(trace, each, policies, asked, progress=progress) for each in kinds)


def requirement(
    trace: RequestTrace,
    kind: InstanceType,
    policies: PolicyChoice,
    asked: PlanOptions,
    *,
    progress: Callable[[str], None] = lambda _text: None,
) -> Requirement:
    """Return how many instances of one type the trace needs."""
    mine = grown(of_model(trace, kind.model), asked.scale)
    known = ceilings(mine, kind)
    found = Requirement(
        type=kind,
        requests=len(mine),
        span_s=max(float(mine.arrival_s[-1] - mine.arrival_s[0]), 1e-9),
        prompt_tokens=int(mine.prompt_tokens.sum()),
        output_tokens=int(mine.output_tokens.sum()),
        ceiling={each.deadline_class: each.attainment for each in known},
    )
    low = [each for each in known if each.attainment < asked.target]
    if low:
        return replace(found, reasons=tuple(_out_of_reach(each, asked) for each in low))
    search = _Search(mine, kind, policies, asked, progress)
    count = search.smallest(least_instances(mine, kind))
    if count is None:
        return replace(found, reasons=search.why_not(), simulations=search.simulations)
    return search.described(found, count)


def _out_of_reach(each: Ceiling, asked: PlanOptions) -> str:
    reasons = "; ".join(each.reasons)
    return (
        f"{each.deadline_class} cannot pass {each.attainment:.2%} with any number of instances, "
        f"{asked.target:.2%} is wanted: {reasons}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Day:
    """What one simulation showed."""

    attainment: Mapping[str, float]
    misses: Mapping[str, str]  # of each class, what was missed by how many, in words
    backlog_share: float
    in_flight: float
    met_per_s: float
    met_tokens_per_s: float

    def suffices(self, asked: PlanOptions) -> bool:
        reached = all(share >= asked.target for share in self.attainment.values())
        return reached and self.backlog_share <= asked.backlog_share


class _Search:
    """Simulates each count at most once per day, and finds the smallest that suffices."""

    def __init__(
        self,
        trace: RequestTrace,
        kind: InstanceType,
        policies: PolicyChoice,
        asked: PlanOptions,
        progress: Callable[[str], None],
    ) -> None:
        self._kind, self._policies, self._asked, self._progress = kind, policies, asked, progress
        seeds = range(asked.seed, asked.seed + asked.days)
        others = [resampled(trace, seed=each, block_s=asked.block_s) for each in seeds]
        self._traces = [trace, *others]  # the recorded one is day 0
        self._days: dict[tuple[int, int, float], _Day] = {}
        self._monotone = True
        self._tried: list[int] = []

    @property
    def simulations(self) -> int:
        return len(self._days)

    def smallest(self, begin: int) -> int | None:
        """Return the smallest count that suffices, with the next larger one checked too."""
        most = self._asked.most
        below, count = 0, min(begin, most)
        while not self._suffices(count):
            if count == most:
                return None
            below, count = count, min(2 * count, most)
        while below + 1 < count:
            middle = (below + count) // 2
            below, count = (below, middle) if self._suffices(middle) else (middle, count)
        return self._settled(count)

    def _settled(self, count: int) -> int | None:
        """Go on to the first count from here whose successor suffices as well."""
        for each in range(count, min(count + _UNSETTLED, self._asked.most)):
            if self._suffices(each + 1):
                if self._suffices(each):
                    return each
            else:
                self._monotone = False
        last = min(count + _UNSETTLED, self._asked.most)
        return last if self._suffices(last) else None

    def _suffices(self, count: int) -> bool:
        if count not in self._tried:
            self._tried.append(count)
        if not self._day(count, 0).suffices(self._asked):
            return False
        backlogs = [self._day(count, day).backlog_share for day in self._resampled]
        if float(np.mean(backlogs)) > self._asked.backlog_share:
            return False
        return all(each.low >= self._asked.target for each in self._attainment(count).values())

    @property
    def _resampled(self) -> range:
        return range(1, len(self._traces))

    def _attainment(self, count: int) -> dict[str, Estimate]:
        recorded = self._day(count, 0).attainment
        days = [self._day(count, day).attainment for day in self._resampled]
        return {
            name: _estimate(
                share, [each[name] for each in days if name in each], self._asked.confidence
            )
            for name, share in recorded.items()
        }

    def _day(self, count: int, day: int, growth: float = 1.0) -> _Day:
        key = (count, day, growth)
        if key not in self._days:
            self._progress(f"{self._kind.name}: {count} instances, day {day}")
            self._days[key] = self._simulated(count, day, growth)
        return self._days[key]

    def _simulated(self, count: int, day: int, growth: float) -> _Day:
        trace = grown(self._traces[day], growth)
        fleet = Fleet(
            types=(self._kind,),
            instances=(0,) * count,
            failures=tuple(self._failures(trace, count, day)),
        )
        chosen = self._policies
        estimator = chosen.estimator() if chosen.estimator else None
        run = simulate(trace, fleet, chosen.dispatcher(), estimator=estimator)
        return _judged(run, count)

    def _failures(self, trace: RequestTrace, count: int, day: int) -> list[Failure]:
        asked = self._asked
        if asked.mtbf_s is None:
            return []
        until_s = float(trace.arrival_s[-1])
        seed = asked.seed * 1009 + day
        drawn = draw_failures(seed=seed, mtbf_s=asked.mtbf_s, until_s=until_s, instances=count)
        return [replace(each, down_s=asked.down_s) for each in drawn]

    def why_not(self) -> tuple[str, ...]:
        """Return why no count up to the most that was tried suffices."""
        most = self._asked.most
        best, half = self._day(most, 0), max(1, most // 2)
        before = self._day(half, 0).attainment
        reasons = []
        for name, share in best.attainment.items():
            if share < self._asked.target:
                stuck = share <= before.get(name, 0.0) + 1e-9
                more = f"; it was as good with {half}, so more do not help" if stuck else ""
                what = best.misses[name]
                reasons.append(f"{name} reaches {share:.2%} with {most} instances{more}: {what}")
        if best.backlog_share > self._asked.backlog_share:
            reasons.append(f"{best.backlog_share:.1%} of the requests still wait at the end")
        if not reasons:
            spread = ", ".join(
                f"{name} {each.mean:.2%} (at least {each.low:.2%})"
                for name, each in self._attainment(most).items()
            )
            reasons.append(
                f"{most} instances do as recorded, but not surely on other days: {spread}"
            )
        return tuple(reasons)

    def described(self, found: Requirement, count: int) -> Requirement:
        """Return the answer with all that is known about this count."""
        attainment = self._attainment(count)
        needed = [self._needed(day, count) for day in self._resampled]
        days = [self._day(count, day) for day in self._resampled]
        growth, capped = self._growth(count)
        return replace(
            found,
            instances=count,
            low=min(needed),
            high=max(needed),
            attainment=attainment,
            in_flight=float(np.mean([each.in_flight for each in days])),
            goodput_per_s=float(np.mean([each.met_per_s for each in days])),
            good_tokens_per_s=float(np.mean([each.met_tokens_per_s for each in days])),
            growth=growth,
            growth_capped=capped,
            monotone=self._monotone,
            simulations=self.simulations,
        )

    def _needed(self, day: int, near: int) -> int:
        """Return the smallest count that suffices on one day, looked for from `near` on."""
        count = near
        if self._day(count, day).suffices(self._asked):
            while count > 1 and self._day(count - 1, day).suffices(self._asked):
                count -= 1
            return count
        while count < self._asked.most and not self._day(count, day).suffices(self._asked):
            count += 1
        return count

    def _growth(self, count: int) -> tuple[float, bool]:
        """Return how many times as fast requests may come, to 5 %, on the first few days."""
        below, above = 0, round((_MOST_GROWTH - 1.0) / _GROWTH_STEP)
        if self._bears(count, above):
            return _MOST_GROWTH, True
        while below + 1 < above:
            middle = (below + above) // 2
            below, above = (middle, above) if self._bears(count, middle) else (below, middle)
        return round(1.0 + below * _GROWTH_STEP, 2), False

    def _bears(self, count: int, steps: int) -> bool:
        factor = 1.0 + steps * _GROWTH_STEP
        recorded = self._day(count, 0, factor)
        if not recorded.suffices(self._asked):
            return False
        days = [self._day(count, day, factor) for day in self._resampled[:_GROWTH_DAYS]]
        if float(np.mean([each.backlog_share for each in days])) > self._asked.backlog_share:
            return False
        means = (
            np.mean([each.attainment.get(name, 1.0) for each in days])
            for name in recorded.attainment
        )
        return all(float(mean) >= self._asked.target for mean in means)


def _estimate(recorded: float, days: list[float], confidence: float) -> Estimate:
    """Return the mean with the interval of Student's t, within what shares can be."""
    if len(days) < 2:  # a class so rare that resampled days lack it
        return Estimate(recorded=recorded, mean=recorded, low=recorded, high=recorded)
    mean = float(np.mean(days))
    error = float(np.std(days, ddof=1)) / len(days) ** 0.5
    half = float(stats.t.ppf(0.5 + confidence / 2, len(days) - 1)) * error
    return Estimate(
        recorded=recorded, mean=mean, low=max(0.0, mean - half), high=min(1.0, mean + half)
    )


def _judged(run: ServingRun, count: int) -> _Day:
    last_s = float(run.trace.arrival_s[-1])
    span_s = max(last_s - float(run.trace.arrival_s[0]), 1e-9)
    met = run.met()
    waits = ~(run.sent_s <= last_s)  # never sent counts too
    return _Day(
        attainment=run.attainment(),
        misses=_misses(run),
        backlog_share=float(np.mean(waits)),
        in_flight=_held_s(run, last_s) / (count * span_s),
        met_per_s=float(met.sum()) / span_s,
        met_tokens_per_s=float(run.trace.output_tokens[met].sum()) / span_s,
    )


def _misses(run: ServingRun) -> dict[str, str]:
    """Return for each class how many requests missed which promise; one may miss several."""
    found = {}
    unfinished = ~np.isfinite(run.finish_s)
    for code, promised in enumerate(run.trace.classes):
        mine = run.trace.deadline_class == code
        parts = [(int((mine & unfinished).sum()), "were refused or never finished")]
        for what, took_s, limit_s in (
            ("first token", run.ttft_s, promised.ttft_s),
            ("time between tokens", run.itl_s, promised.itl_s),
            ("last token", run.e2e_s, promised.completion_s),
        ):
            late = mine & ~unfinished & (took_s > (np.inf if limit_s is None else limit_s))
            parts.append((int(late.sum()), f"missed the {what}"))
        found[promised.name] = ", ".join(f"{count:,} {text}" for count, text in parts if count)
    return found


def _held_s(run: ServingRun, until_s: float) -> float:
    """Return the seconds that requests were in flight, in all, until a time."""
    done = np.isfinite(run.sent_s) & (run.sent_s < until_s)
    end_s = np.minimum(np.nan_to_num(run.finish_s[done], nan=until_s), until_s)
    return float((end_s - run.sent_s[done]).sum())

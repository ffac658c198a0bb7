"""What a campaign does next: its candidates, what they may cost, and when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.learn.estimators.applications.features import Features
from steward.learn.estimators.applications.models import WorkLaw
from steward.learn.estimators.applications.next_run import Knowledge, NextRun, choose_next
from steward.model.campaign import Campaign, Configuration, MeasuredRun, Parameter, Value

__all__ = ["RunPlanner", "narrowed"]

Floats = NDArray[np.float64]
MOST_SMALL = 500  # candidates
MOST_FULL = 100
OVERHEAD_S = 1.0  # of any run: starting a job costs as well
FEWEST_BEFORE_FULL = 3  # finished downsized runs, so that its cost is known
MOST_REPEATS = 2
LEAST_GAIN_SHARE = 0.002


class RunPlanner:
    """Plans the runs of a campaign. Pure: the same runs, the same plan."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        small = campaign.configurations(full=False, most=MOST_SMALL)
        full = campaign.configurations(full=True, most=MOST_FULL)
        self.candidates: list[dict[str, Value]] = [*small, *full]
        self.full = np.array([False] * len(small) + [True] * len(full))
        self.targets = full
        self._features = Features.of_runs(campaign.parameters, campaign.work, self.candidates)
        self._rows = self._features.rows(self.candidates, self.full)
        self._places = self._features.places(self.candidates, self.full)
        self._keys = {_key(each): i for i, each in enumerate(self.candidates)}

    def expected_costs(self, ended: Sequence[MeasuredRun]) -> Floats:
        """Return what each candidate is expected to cost: by its work until runs tell more."""
        finished = [each for each in ended if each.finished and each.seconds > 0.0]
        if len(finished) < FEWEST_BEFORE_FULL:
            work = np.mean(self._rows.work, axis=1)
            seconds = work / np.median(work)
        else:
            flags = [each.full for each in finished]
            rows = self._features.rows([each.configuration for each in finished], flags)
            y = np.log([each.seconds for each in finished])
            law = WorkLaw().fit(rows, y, np.ones(len(y)))
            seconds = np.exp(np.clip(law.predict(self._rows), -14.0, 25.0))
        return np.array(
            [
                self.campaign.cost(run, float(each))
                for run, each in zip(self.candidates, seconds, strict=True)
            ]
        )

    def next_run(
        self,
        ended: Sequence[MeasuredRun],
        open_: Sequence[tuple[Configuration, bool]],
        *,
        noise: float = 0.1,
    ) -> tuple[Configuration, NextRun] | str:
        """Return the next run, or why there is none now.

        `open_` are runs that are under way, and whether each is at full scale: they count as known.
        """
        campaign = self.campaign
        if len(ended) + len(open_) >= campaign.most_runs:
            return f"all {campaign.most_runs} runs of the budget are used"
        costs = self.expected_costs(ended)
        spent = sum(campaign.cost(x.configuration, x.seconds) for x in ended)
        left = campaign.budget_s - spent - self._expected(open_, ended, costs)
        if left <= 0.0:
            return f"the budget of {campaign.budget_s:g} s is used"
        allowed = self._allowed(ended, open_, costs, left)
        runs = [*(x.configuration for x in ended), *(x[0] for x in open_)]
        flags = np.array([*(x.full for x in ended), *(x[1] for x in open_)], dtype=np.bool_)
        known = Knowledge(self._features.places(runs, flags), noise=noise)
        found = choose_next(
            known,
            self._places,
            self._places.of(self.full),
            cost=costs + OVERHEAD_S,
            allowed=allowed,
        )
        if found is None:
            return "no run that is left fits into the budget"
        if found.gain_share < LEAST_GAIN_SHARE:
            return "no further run would tell much"
        return self.candidates[found.index], found

    def _expected(
        self,
        open_: Sequence[tuple[Configuration, bool]],
        ended: Sequence[MeasuredRun],
        costs: Floats,
    ) -> float:
        """Return what runs under way are expected to cost; 0 while only their order is known."""
        if sum(each.finished for each in ended) < FEWEST_BEFORE_FULL:
            return 0.0
        places = [self._keys[key] for run, _ in open_ if (key := _key(run)) in self._keys]
        return float(costs[places].sum()) if places else 0.0

    def _allowed(
        self,
        ended: Sequence[MeasuredRun],
        open_: Sequence[tuple[Configuration, bool]],
        costs: Floats,
        left: float,
    ) -> NDArray[np.bool_]:
        """Return which candidates may run: within the budget, and with room for full scale."""
        finished = [each for each in ended if each.finished]
        full_runs = sum(x.full for x in ended) + sum(x[1] for x in open_)
        known_costs = len(finished) >= FEWEST_BEFORE_FULL
        may_full = known_costs or not (~self.full).any()
        may_full = may_full and full_runs < self.campaign.most_full_runs
        allowed = ~self.full | may_full
        if known_costs:
            allowed &= costs <= left
            cheapest = float(costs[self.full].min())
            if full_runs == 0 and may_full and cheapest <= left:
                allowed &= self.full | (costs + cheapest <= left)
        counts = np.zeros(len(self.candidates), dtype=np.int64)
        for each in ended:
            if not each.finished and _key(each.configuration) in self._keys:
                allowed[self._keys[_key(each.configuration)]] = False
        for run in (*(x.configuration for x in ended), *(x[0] for x in open_)):
            if _key(run) in self._keys:
                counts[self._keys[_key(run)]] += 1
        return np.asarray(allowed & (counts < MOST_REPEATS))


def narrowed(campaign: Campaign, run: Configuration, *, budget_s: float) -> Campaign:
    """Return a small campaign about one configuration, to be run where its estimate was wrong.

    At full scale it has that configuration alone; parameters that do not scale keep the value that
    they have in it. Raises where nothing of it can be scaled down.
    """
    missing = [each.name for each in campaign.parameters if each.name not in run]
    if missing:
        problem = f"the configuration has no {', '.join(missing)}"
        raise StewardError(problem, where=campaign.name, hint="give a value for each parameter")
    parameters = []
    for each in campaign.parameters:
        value = run[each.name]
        small = tuple(x for x in each.small if not isinstance(value, str) and float(x) < value)
        parameters.append(Parameter(name=each.name, full=(value,), small=small))
    made = replace(
        campaign,
        name=f"{campaign.name[:30].rstrip('-')}-again",
        parameters=tuple(parameters),
        budget_s=budget_s,
        most_runs=min(campaign.most_runs, 12),
        most_full_runs=1,
    )
    if not made.scales:
        hint = "run it once at full scale, or give its parameters smaller values"
        raise StewardError("nothing of it can be scaled down", where=campaign.name, hint=hint)
    return made


def _key(run: Configuration) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in run.items()))

"""What an application needs, learnt from its runs: a model of the pool, a level, and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from steward.errors import StewardError
from steward.learn.estimators.applications.features import Features
from steward.learn.estimators.applications.limits import conformal_limit
from steward.learn.estimators.applications.models import restored_model
from steward.learn.estimators.applications.next_run import Knowledge, Places
from steward.learn.estimators.applications.selection import Choice, Sample, choose
from steward.model.campaign import Configuration, MeasuredRun, Parameter
from steward.model.forecast import Forecast

__all__ = ["Application", "Predicted", "restored_application"]

Floats = NDArray[np.float64]
FEWEST = 3  # finished runs
MOST_KNOWN = 300  # runs, for how far a question is from them
MOST_WIDENED = 4.0  # limits, far away from the runs
LEAST_WIDTH = 0.01  # of a limit, in log time
SHARE = 0.9  # of cases in which a limit holds, on either side
QUANTITIES = {"seconds": "run.time_s", "memory_bytes": "run.memory_bytes",
              "gpu_memory_bytes": "run.gpu_memory_bytes"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predicted:
    """Times of several configurations: `low` and `high` each hold in nine of ten cases."""

    low: Floats
    mid: Floats
    high: Floats


class Application:
    """One application. `learn` from runs, then `predict`; the state is numbers and arrays."""

    state_version = 1

    def __init__(
        self, name: str, parameters: Sequence[Parameter], terms: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.parameters = tuple(parameters)
        self._terms = tuple(terms)
        self.choices: dict[str, Choice] = {}
        self.runs = self.full_runs = self.failed_runs = 0

    # -- learning ------------------------------------------------------------------------------

    def learn(
        self, runs: Sequence[MeasuredRun], *, validation: Sequence[MeasuredRun] | None = None
    ) -> None:
        """Learn anew from all runs.

        `validation` are runs that no model is fitted on: they choose it, set its level and limits.
        Without them, the full-scale runs are taken for that, or the largest of the others.
        """
        every = [*runs, *(validation or ())]
        finished = [each for each in every if each.finished]
        if len(finished) < FEWEST:
            raise _too_few(every, finished, where=self.name)
        self.runs, self.failed_runs = len(finished), len(every) - len(finished)
        self.full_runs = sum(each.full for each in finished)
        self.features = Features.of_runs(
            self.parameters, self._terms, [each.configuration for each in every]
        )
        self._learn_reach(finished)
        self.choices = {}
        with threadpool_limits(limits=1):  # so that sums do not depend on the number of cores
            for key in QUANTITIES:
                train = self._sample(runs, key)
                held = None if validation is None else self._sample(validation, key)
                known = train.finished.sum() + (0 if held is None else held.finished.sum())
                if key == "seconds" or known >= FEWEST:
                    self.choices[key] = choose(train, held)

    def _learn_reach(self, finished: Sequence[MeasuredRun]) -> None:
        """Note where the runs were: limits widen away from them."""
        kept = [each for each in finished if each.full][:MOST_KNOWN]
        rest = [each for each in finished if not each.full]
        room = min(len(rest), MOST_KNOWN - len(kept))
        kept += [rest[i] for i in np.linspace(0, len(rest) - 1, room).astype(np.int64)]
        configurations = [each.configuration for each in kept]
        self._reach = self.features.places(configurations, [each.full for each in kept])
        self._prepare()

    def _prepare(self) -> None:
        self._known = Knowledge(self._reach)
        full = self._reach.full
        there = self._known.deviation(self._reach.of(full if full.any() else ~full))
        self._usual = float(np.hypot(np.max(there), self._known.noise))

    def _sample(self, runs: Sequence[MeasuredRun], key: str) -> Sample:
        known = [each for each in runs if getattr(each, key) is not None and getattr(each, key) > 0]
        values = np.array([float(getattr(each, key)) for each in known])
        full = np.array([each.full for each in known], dtype=np.bool_)
        configurations = [each.configuration for each in known]
        return Sample(
            rows=self.features.rows(configurations, full),
            y=np.log(np.maximum(values, 1e-6)),
            full=full,
            finished=np.array([each.finished for each in known], dtype=np.bool_),
        )

    # -- answers -------------------------------------------------------------------------------

    def predict(
        self,
        runs: Sequence[Configuration],
        *,
        full: Sequence[bool] | None = None,
        key: str = "seconds",
        share: float = SHARE,
    ) -> Predicted:
        """Return the quantity for each configuration, at full scale unless `full` says other."""
        choice = self.choices[key]
        flags = np.ones(len(runs), dtype=np.bool_) if full is None else np.array(full)
        rows, places = self.features.rows(runs, flags), self.features.places(runs, flags)
        mid = choice.predict(rows, flags)
        far = np.hypot(self._known.deviation(places), self._known.noise)
        factor = np.clip(far / self._usual, 1.0, MOST_WIDENED)
        up, _ = conformal_limit(choice.scores, share)
        down, _ = conformal_limit(-choice.scores, share)
        high = mid + np.maximum(up, LEAST_WIDTH) * factor
        low = mid - np.maximum(down, LEAST_WIDTH) * factor
        return Predicted(low=_exp(low), mid=_exp(mid), high=_exp(high))

    def estimate(self, given: Configuration) -> tuple[Forecast, ...]:
        """Return what one configuration needs, with limits and what they rest on."""
        run = self.features.checked(given)
        full = not any(
            run[x.name] in x.small and run[x.name] not in x.full for x in self.parameters
        )
        beyond = self.features.beyond(run)
        found = []
        for key in self.choices:
            made = self.predict([run], full=[full], key=key)
            found.append(
                Forecast(
                    subject=self.name,
                    quantity=QUANTITIES[key],
                    low=float(made.low[0]),
                    mid=float(made.mid[0]),
                    high=float(made.high[0]),
                    basis="; ".join((self.basis(key), *beyond)),
                )
            )
        return tuple(found)

    def basis(self, key: str = "seconds") -> str:
        """Return in words what an answer rests on."""
        choice = self.choices[key]
        holds = conformal_limit(choice.scores, SHARE)[1]
        limits = f"limits from {len(choice.scores)} {choice.judged} that it had not seen"
        few = "" if holds else ": too few to hold nine times in ten, so enlarged"
        failed = f" and {self.failed_runs} that failed" if self.failed_runs else ""
        return (
            f"{choice.name} from {self.runs} runs, {self.full_runs} of them at full scale{failed}; "
            f"{limits}{few}"
        )

    # -- state ---------------------------------------------------------------------------------

    def save_state(self) -> dict[str, Any]:
        """Return the state as `LearnedStates` takes it."""
        return {
            "name": self.name,
            "parameters": [[x.name, list(x.full), list(x.small)] for x in self.parameters],
            "terms": list(self._terms),
            "runs": self.runs,
            "full_runs": self.full_runs,
            "failed_runs": self.failed_runs,
            "features": self.features.state(),
            "reach": {"x": self._reach.x, "cell": self._reach.cell, "full": self._reach.full},
            "choices": {
                key: {
                    "name": each.name, "model": each.model.state(), "level": each.level,
                    "scores": each.scores, "judged": each.judged, "losses": dict(each.losses),
                }
                for key, each in self.choices.items()
            },
        }  # fmt: skip

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state. May raise on one that does not fit."""
        self.runs, self.full_runs = int(state["runs"]), int(state["full_runs"])
        self.failed_runs = int(state["failed_runs"])
        self.features = Features(self.parameters, state["features"])
        self._reach = Places(**state["reach"])
        self._prepare()
        self.choices = {
            key: Choice(
                name=str(each["name"]),
                model=restored_model(str(each["name"]), each["model"]),
                level=float(each["level"]),
                scores=np.asarray(each["scores"], dtype=np.float64),
                judged=str(each["judged"]),
                losses={str(name): float(x) for name, x in each["losses"].items()},
            )
            for key, each in state["choices"].items()
        }


def restored_application(state: Mapping[str, Any]) -> Application:
    """Return an application as it was saved. May raise on a state that does not fit."""
    parameters = [
        Parameter(name=name, full=tuple(full), small=tuple(small))
        for name, full, small in state["parameters"]
    ]
    made = Application(str(state["name"]), parameters, tuple(state["terms"]))
    made.restore_state(state)
    return made


def _exp(y: Floats) -> Floats:
    found: Floats = np.exp(np.clip(y, -30.0, 50.0))
    return found


def _too_few(
    every: Sequence[MeasuredRun], finished: Sequence[MeasuredRun], *, where: str
) -> StewardError:
    problem = f"{len(finished)} of {len(every)} runs finished; {FEWEST} are needed at least"
    whys = [each.why for each in every if not each.finished and each.why]
    hint = f"the last failure: {whys[-1]}" if whys else "do more runs"
    return StewardError(problem, where=where, hint=hint)

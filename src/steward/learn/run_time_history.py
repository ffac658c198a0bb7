"""The history of run times: what open jobs were expected to take, and what ended ones took.

Knows nothing of views: `estimators/job_history.py` feeds it live, replays and benchmarks feed it
from traces.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.learn.job_contexts import LIMITED, SLOTS, JobFeatures, job_contexts
from steward.learn.limit_calibration import (
    LimitCalibration,
    blank_calibration,
    curve,
    learn_limits,
    learn_place,
    place_of,
)
from steward.learn.survival import (
    LEVELS,
    blank_survival,
    forget_context,
    lasting,
    level_at,
    likely_s,
    pass_levels,
    pass_part,
    prior_share,
    run_time_s,
    share_ended,
)

__all__ = ["JobForecast", "RunTimeHistory"]

Floats = NDArray[np.float64]
Key = tuple[Hashable, ...]

_FIRST_WEIGHT, _RATE = 0.3, 0.01
_PRIOR_S, _PRIOR_SPREAD = 1800.0, 2.5  # half an hour; 90 % from 30 s to 30 h
_LIMITED = np.array([LEVELS - 1 if slot in LIMITED else 0 for slot in SLOTS])
_SURE, _UNSURE = 20.0, 30.0  # jobs: before any has ended, limits are to miss a third less often
_LAST = 4000  # users and kinds of work whose last run time is kept
_SLOT_OF_KIND = SLOTS.index("user, stem and shape")
_TABLES = ("share", "seen", "logit", "bucket")


@dataclass(slots=True, eq=False)
class JobForecast:
    """What was expected of a job when it came, and how much was learned from it since."""

    last: tuple[int, int]  # levels in which the last of its user and of its kind ended
    keys: tuple[Key | None, ...]
    shifts: NDArray[np.int64]
    inputs: NDArray[np.float32]
    buckets: NDArray[np.int8]
    left: Floats  # chance of running longer than each level's lower edge
    low_s: float = 0.0  # what was promised: 5 %, 50 % and 95 %
    mid_s: float = 0.0
    high_s: float = np.inf
    passed: int = 0  # levels that were learned from
    place: float = -1.0  # in its distribution, up to which limits were learned from
    calibrates: bool = True


class RunTimeHistory:
    """Contexts, their shares and weights, and how well limits held. Bounded by `classes`."""

    def __init__(self, *, classes: int, memory: float, quick: float) -> None:
        if classes < len(SLOTS) or memory < 1 or quick < 1:
            raise StewardError(
                f"classes is {classes}, memory is {memory}, quick is {quick}",
                where="job-history",
                hint=f"classes is {len(SLOTS)} or more, memory and quick are 1 or more",
            )
        each = np.array([quick if slot.endswith("quick") else memory for slot in SLOTS])
        prior = prior_share(_PRIOR_S, _PRIOR_SPREAD)
        self._past = blank_survival(classes, each, rate=_RATE, first=_FIRST_WEIGHT, prior=prior)
        self._limits = blank_calibration()
        self._rows: OrderedDict[Key, int] = OrderedDict()  # least recently learned from first
        self._free = list(range(classes - 1, -1, -1))
        self._last: OrderedDict[Hashable, int] = OrderedDict()  # level of the last that ended
        self.lessons = 0  # how often anything was learned: the age of a forecast
        self.ended = 0
        self._curve: Floats | None = None
        self._curve_at = 0  # as of so many that had ended

    # -- forecasts -----------------------------------------------------------------------------

    def forecast(self, job: JobFeatures, last: tuple[int, int] | None = None) -> JobForecast:
        """Return what is expected of a job that comes now, or came when these were the `last`."""
        if last is None:
            last = (self._last.get(job.who, -1), self._last.get(job.kind, -1))
        keys = job_contexts(job, *last)
        shifts = np.zeros(len(SLOTS), np.int64)
        if job.time_limit_s is not None:
            shifts[_LIMITED > 0] = LEVELS - 1 - level_at(max(job.time_limit_s, 0.0))
        shape = (LEVELS, len(SLOTS))
        made = JobForecast(
            last=last,
            keys=keys,
            shifts=shifts,
            inputs=np.zeros(shape, np.float32),
            buckets=np.zeros(shape, np.int8),
            left=np.empty(LEVELS),
        )
        lasting(self._past, self._known(keys), shifts, made.inputs, made.buckets, made.left)
        made.low_s, made.mid_s, made.high_s = (
            self.quantile_s(made.left, share) for share in (0.05, 0.5, 0.95)
        )
        return made

    def renewed(self, job: JobForecast) -> Floats:
        """Return the chances of lasting by what is known now, and leave what was promised."""
        return self._lasting(job.keys, job.shifts)

    def _lasting(self, keys: Iterable[Key | None], shifts: NDArray[np.int64]) -> Floats:
        shape, left = (LEVELS, len(SLOTS)), np.empty(LEVELS)
        inputs, buckets = np.zeros(shape, np.float32), np.zeros(shape, np.int8)
        lasting(self._past, self._known(keys), shifts, inputs, buckets, left)
        return left

    def quantile_s(self, left: Floats, share: float) -> float:
        """Return the run time within which a share of such jobs ends, by calibrated chances."""
        known = (self.ended + _SURE) / (self.ended + _UNSURE)  # few jobs tell little of the rarest
        if share != 0.5:
            share = share * known if share < 0.5 else 1.0 - (1.0 - share) * known
        return float(run_time_s(left, place_of(self._limits, self.curve, share)))

    def of_all(self) -> Floats:
        """Return the chances of lasting of a job of which nothing is known."""
        alone: tuple[Key | None, ...] = ((0,), *((None,) * (len(SLOTS) - 1)))
        return self._lasting(alone, np.zeros(len(SLOTS), np.int64))

    @property
    def curve(self) -> Floats:
        """Return what share of jobs really ended below each place of their distribution."""
        if self._curve is None or self.ended >= self._curve_at + min(self.ended // 20, 16):
            self._curve, self._curve_at = curve(self._limits), self.ended
        return self._curve

    def likely_s(self, left: Floats, ran_s: float = 0.0) -> float:
        """Return the run time that is most likely within a factor of two of the true one."""
        return float(likely_s(left, ran_s))

    def similar(self, job: JobForecast) -> float:
        """Return how many jobs of the same user, name and shape it rests on; older ones fade."""
        row = self._rows.get(job.keys[_SLOT_OF_KIND] or ())
        return 0.0 if row is None else float(self._past.seen[row, 0])

    def narrowest(self, job: JobForecast) -> tuple[str, float]:
        """Return the narrowest context with a job in it, and how many it has seen."""
        for slot in (_SLOT_OF_KIND, *_BY_WIDTH):
            row = self._rows.get(job.keys[slot] or ())
            if row is not None and self._past.seen[row, 0] > 0:
                return SLOTS[slot], float(self._past.seen[row, 0])
        return "", 0.0

    # -- learning ------------------------------------------------------------------------------

    def runs(self, job: JobForecast, ran_s: float) -> None:
        """Learn that a job has run so long and goes on."""
        level = int(level_at(ran_s))
        if level <= job.passed:
            return
        self._pass(job, level, ends=False)
        if job.calibrates:
            place = float(share_ended(job.left, ran_s))
            learn_place(self._limits, job.place, place, ends=False)
            job.place = place
        job.passed = level

    def ends(self, job: JobForecast, work: JobFeatures, ran_s: float, *, cut_off: bool) -> None:
        """Learn how long a job ran; one that was cut off would have run longer."""
        level = int(level_at(ran_s))
        rows = self._pass(job, level, ends=not cut_off)
        if cut_off:
            pass_part(self._past, rows, job.shifts, ran_s)
        if job.calibrates:
            place = float(share_ended(job.left, ran_s))
            learn_place(self._limits, job.place, place, ends=not cut_off)
            if not cut_off:
                learn_limits(self._limits, below=ran_s < job.low_s, above=ran_s > job.high_s)
        if not cut_off:
            for key in (work.who, work.kind):
                self._last[key] = level
                self._last.move_to_end(key)
            while len(self._last) > _LAST:
                self._last.popitem(last=False)
        self.ended += 1

    def _pass(self, job: JobForecast, level: int, *, ends: bool) -> NDArray[np.int64]:
        rows = self._made(job.keys)
        first = min(job.passed, level)
        pass_levels(self._past, rows, job.shifts, job.inputs, job.buckets, first, level, ends)
        self.lessons += 1
        return rows

    def _known(self, keys: Iterable[Key | None]) -> NDArray[np.int64]:
        """Return the rows of contexts; -1 where nothing is known of one."""
        rows = self._rows
        found = [-1 if key is None else rows.get(key, -1) for key in keys]
        found[0] = max(found[0], 0)  # the first context is that of all jobs: row 0, if any
        return np.array(found, np.int64)

    def _made(self, keys: Sequence[Key | None]) -> NDArray[np.int64]:
        """Return the rows of contexts, made where there are none. Widest last, so they stay."""
        rows, found, new = self._rows, np.full(len(keys), -1, np.int64), list[tuple[int, Key]]()
        for slot in range(len(keys) - 1, -1, -1):
            key = keys[slot]
            if key is None:
                continue
            if key in rows:
                rows.move_to_end(key)
                found[slot] = rows[key]
            else:
                new.append((slot, key))
        for slot, key in new:
            found[slot] = rows[key] = self._new_row()
        everyone = keys[0]
        if new and everyone is not None:
            rows.move_to_end(everyone)
        return found

    def _new_row(self) -> int:
        if self._free:
            return self._free.pop()
        _, row = self._rows.popitem(last=False)
        forget_context(self._past, row)
        return row

    # -- state ---------------------------------------------------------------------------------

    def save_state(self) -> dict[str, Any]:
        """Return the state as JSON values and arrays; rows that are not used are left out."""
        used = list(self._rows.values())
        return {
            "contexts": [list(key) for key in self._rows],
            **{name: getattr(self._past, name)[used] for name in _TABLES},
            "weight": self._past.weight,
            "trained": self._past.trained,
            **{f"limits_{name}": array for name, array in self._limits._asdict().items()},
            "last": [[key if isinstance(key, str) else list(key), level]  # type: ignore[call-overload]
                     for key, level in self._last.items()],
            "lessons": self.lessons,
            "ended": self.ended,
        }  # fmt: skip

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; raise where it does not fit, and change nothing then."""
        keys = [_tuples(key) for key in state["contexts"]]
        tables = {name: np.asarray(state[name]) for name in _TABLES}
        shape = (len(keys), self._past.share.shape[1])
        weight, limits = np.asarray(state["weight"]), {}
        if any(each.shape != shape for each in tables.values()) or (
            len(keys) > len(self._past.share) or weight.shape != self._past.weight.shape
        ):
            raise ValueError("it was learned with other options")
        for name, array in self._limits._asdict().items():
            limits[name] = np.asarray(state[f"limits_{name}"])
            if limits[name].shape != array.shape:
                raise ValueError("it was learned with other options")
        last = [(_tuples(key), int(level)) for key, level in state["last"]]
        lessons, ended, trained = int(state["lessons"]), int(state["ended"]), state["trained"]
        for name, table in tables.items():
            getattr(self._past, name)[...] = 0
            getattr(self._past, name)[: len(keys)] = table
        self._past.weight[...] = weight
        self._past.trained[...] = np.asarray(trained)
        self._limits = LimitCalibration(**{name: each.copy() for name, each in limits.items()})
        self._rows = OrderedDict((key, row) for row, key in enumerate(keys))
        self._free = list(range(len(self._past.share) - 1, len(keys) - 1, -1))
        self._last = OrderedDict(last)
        self.lessons, self.ended, self._curve = lessons, ended, None


def _tuples(value: Any) -> Any:  # noqa: ANN401 - JSON
    return tuple(_tuples(each) for each in value) if isinstance(value, list | tuple) else value


_BY_WIDTH = tuple(
    SLOTS.index(name)
    for name in (
        *("user and name", "user and shape", "user", "stem and size", "stem", "tenant and size"),
        *("tenant", "shape", "size", "all"),
    )
)

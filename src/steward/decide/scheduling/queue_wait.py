"""When would a job start? The queue ahead is played through with many draws of run times.

Pure: the draws come with the question. Jobs that may come later are not in it; under policies that
let them pass, a wait can be longer than is forecast here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.errors import StewardError

__all__ = ["QueueAhead", "StartForecast", "start_forecast"]

Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_SHARES = (0.05, 0.5, 0.95)
_PROBE = 64  # jobs behind the first that are tried in its shadow at one moment


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueueAhead:
    """What runs and waits, in the order in which it goes. The last that waits is the question.

    Draws have a row for each draw and a column for each job: of what is left of those that run, and
    of whole run times of those that wait. `limit_s` is when its engine ends a waiting job;
    infinity where it does not. `backfill`: jobs behind the first that waits may pass it, if by
    their limits they do not move it.
    """

    capacity: int  # GPUs, of which none is left out
    held: Ints  # by running job
    left_s: Floats  # draws by running jobs
    running_limit_s: Floats  # when each running job ends at the latest, from now
    asked: Ints  # by waiting job
    run_s: Floats  # draws by waiting jobs
    limit_s: Floats
    backfill: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be one moment."""
        draws = {len(self.left_s), len(self.run_s)}
        shapes = (
            (self.left_s.shape[1], len(self.running_limit_s)),
            (
                self.run_s.shape[1],
                len(self.limit_s),
            ),
        )
        if (
            len(draws) != 1
            or set(shapes[0]) != {len(self.held)}
            or (set(shapes[1]) != {len(self.asked)})
        ):
            raise StewardError(
                f"{len(self.held)} running and {len(self.asked)} waiting jobs, "
                f"draws of {self.left_s.shape} and {self.run_s.shape}",
                where="queue ahead",
                hint="one row for each draw, one column for each job",
            )
        if not len(self.asked):
            raise StewardError("no job waits", where="queue ahead", hint="the last is the question")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartForecast:
    """Seconds from now until the job starts. `never`: it asks for more than there is."""

    low_s: float
    mid_s: float
    high_s: float
    now_share: float  # of the draws in which it starts at once
    draws: int
    never: bool = False


def start_forecast(queue: QueueAhead) -> tuple[StartForecast, Floats]:
    """Return when the last waiting job starts, and the wait in each draw."""
    if queue.asked[-1] > queue.capacity:
        never = StartForecast(
            low_s=np.inf, mid_s=np.inf, high_s=np.inf, now_share=0.0, draws=0, never=True
        )
        return never, np.empty(0)
    waits_s = np.empty(len(queue.run_s))
    fits = queue.asked <= queue.capacity  # others never start, and hold nobody up
    _play(
        queue.capacity,
        queue.held,
        np.ascontiguousarray(queue.left_s),
        queue.running_limit_s,
        queue.asked[fits],
        np.ascontiguousarray(queue.run_s[:, fits]),
        queue.limit_s[fits],
        queue.backfill,
        waits_s,
    )
    low, mid, high = np.quantile(waits_s, _SHARES).tolist()
    found = StartForecast(
        low_s=low,
        mid_s=mid,
        high_s=high,
        now_share=float((waits_s <= 0.0).mean()),
        draws=len(waits_s),
    )
    return found, waits_s


@njit
def _play(  # noqa: PLR0913, PLR0917 - compiled: one argument for each array
    capacity: int,
    held: Array,
    left_s: Array,
    running_limit_s: Array,
    asked: Array,
    run_s: Array,
    limit_s: Array,
    backfill: bool,  # noqa: FBT001 - compiled
    waits_s: Array,
) -> None:
    running, waiting = len(held), len(asked)
    for draw in range(len(waits_s)):
        # those that run: when they end, when at the latest, and what they hold
        end_s = np.full(running + waiting, np.inf)
        last_s = np.full(running + waiting, np.inf)
        gpus = np.zeros(running + waiting, np.int64)
        end_s[:running], last_s[:running] = left_s[draw], running_limit_s
        gpus[:running] = held
        n, free = running, capacity - held.sum()
        line = np.arange(waiting)
        length, now_s = waiting, 0.0
        while True:
            started = 0
            while started < length and asked[line[started]] <= free:
                job = line[started]
                free -= asked[job]
                end_s[n], last_s[n] = now_s + run_s[draw, job], now_s + limit_s[job]
                gpus[n] = asked[job]
                n += 1
                started += 1
            line, length = line[started:], length - started
            if backfill and length > 1 and free > 0:
                length, n, free = _pass_first(
                    line, length, asked, run_s[draw], limit_s, now_s, end_s, last_s, gpus, n, free
                )
            if length == 0 or line[length - 1] != waiting - 1:
                waits_s[draw] = now_s
                break
            # the next end, and all at that moment
            now_s = max(end_s[:n].min(), now_s)
            kept = 0
            for i in range(n):
                if end_s[i] <= now_s:
                    free += gpus[i]
                else:
                    end_s[kept], last_s[kept], gpus[kept] = end_s[i], last_s[i], gpus[i]
                    kept += 1
            n = kept


@njit
def _pass_first(  # noqa: PLR0913, PLR0917 - as above
    line: Array,
    length: int,
    asked: Array,
    run_s: Array,
    limit_s: Array,
    now_s: float,
    end_s: Array,
    last_s: Array,
    gpus: Array,
    n: int,
    free: int,
) -> tuple[int, int, int]:
    """Start jobs behind the first that do not move it; return how many wait, run, are free."""
    need, date_s, room = asked[line[0]], np.inf, free
    order = np.argsort(last_s[:n], kind="mergesort")
    for i in order:
        room += gpus[i]
        if room >= need:
            date_s = max(last_s[i], now_s + 1.0)
            break
    spare, kept = room - need if date_s < np.inf else 0, 1
    for i in range(1, length):
        job = line[i]
        late = now_s + limit_s[job] > date_s
        passes = i <= _PROBE or i == length - 1
        if passes and asked[job] <= free and (not late or asked[job] <= spare):
            free -= asked[job]
            spare -= asked[job] if late else 0
            end_s[n], last_s[n] = now_s + run_s[job], now_s + limit_s[job]
            gpus[n] = asked[job]
            n += 1
        else:
            line[kept] = job
            kept += 1
    return kept, n, free

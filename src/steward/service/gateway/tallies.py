"""What the gateway counts: requests by class and by outcome, times, and what happened."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from steward.model.serving.requests import DeadlineClass
from steward.service.gateway.status import GatewayEvent

__all__ = ["BUCKETS_S", "ClassTally", "Histogram", "Tallies"]

BUCKETS_S = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
_EVENTS = 200


class Histogram:
    """Counts by upper bound, as Prometheus wants them; the last is everything beyond."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0

    def add(self, value_s: float) -> None:
        """Count a value."""
        self.counts[bisect_left(BUCKETS_S, value_s)] += 1
        self.sum_s += value_s


@dataclass(slots=True, kw_only=True, eq=False)
class ClassTally:
    """Requests of one class since the gateway started."""

    queued: int = 0
    in_flight: int = 0
    done: int = 0
    met: int = 0
    missed: int = 0
    wait: Histogram = field(default_factory=Histogram)  # in the queue
    first_token: Histogram = field(default_factory=Histogram)  # of streams

    def judge(
        self,
        promised: DeadlineClass,
        *,
        first_s: float,
        whole_s: float,
        token_s: float | None,
    ) -> None:
        """Count an answer as met or missed: by its class's promises, all of them."""
        self.done += 1
        kept = (
            (promised.ttft_s is None or first_s <= promised.ttft_s)
            and (promised.completion_s is None or whole_s <= promised.completion_s)
            and (promised.itl_s is None or token_s is None or token_s <= promised.itl_s)
        )
        self.met += kept
        self.missed += not kept


class Tallies:
    """All of it. Nothing is counted by what clients can make up: paths, names of models."""

    def __init__(self, wall_s: Callable[[], float]) -> None:
        self.wall_s = wall_s
        self.classes: dict[str, ClassTally] = {}
        self.answers: Counter[int] = Counter()  # by status
        self.faults: Counter[str] = Counter()  # by code of the error
        self.retries = 0
        self.evictions = 0
        self.declined: Counter[str] = Counter()  # what dispatchers wanted and cannot be done
        self.disconnects = 0
        self.reloads: Counter[str] = Counter()
        self.events: deque[GatewayEvent] = deque(maxlen=_EVENTS)

    def of_class(self, name: str) -> ClassTally:
        """Return the counts of a class."""
        found = self.classes.get(name)
        if found is None:
            found = self.classes[name] = ClassTally()
        return found

    def event(self, what: str, *, instance: str = "", why: str = "") -> None:
        """Write down what happened."""
        self.events.append(GatewayEvent(t_s=self.wall_s(), what=what, instance=instance, why=why))

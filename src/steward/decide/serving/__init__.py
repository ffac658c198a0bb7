"""Which waiting requests go to which model server. One file each."""

from steward.decide.serving.edf import Edf
from steward.decide.serving.fcfs import Fcfs
from steward.decide.serving.least_loaded import LeastLoaded
from steward.decide.serving.priority import Priority
from steward.decide.serving.round_robin import RoundRobin
from steward.ports import Dispatcher

__all__ = ["DISPATCHERS"]

DISPATCHERS: dict[str, type[Dispatcher]] = {
    "fcfs": Fcfs,
    "edf": Edf,
    "priority": Priority,
    "round-robin": RoundRobin,
    "least-loaded": LeastLoaded,
}

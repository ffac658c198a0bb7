"""Which waiting requests go to which model server, and how many there are. One file each."""

from steward.decide.serving.chiron import Chiron
from steward.decide.serving.edf import Edf
from steward.decide.serving.fcfs import Fcfs
from steward.decide.serving.least_loaded import LeastLoaded
from steward.decide.serving.priority import Priority
from steward.decide.serving.qlm import Qlm
from steward.decide.serving.qlm_paper import QlmPaper
from steward.decide.serving.round_robin import RoundRobin
from steward.decide.serving.scaling.chiron import ChironScaler
from steward.decide.serving.scaling.fixed import Fixed
from steward.decide.serving.scaling.kpa import Kpa
from steward.decide.serving.scaling.qps import Qps
from steward.decide.serving.scaling.slack import Slack
from steward.decide.serving.scaling.wva import Wva
from steward.ports import Dispatcher, Scaler

__all__ = ["DISPATCHERS", "SCALERS"]

DISPATCHERS: dict[str, type[Dispatcher]] = {
    "fcfs": Fcfs,
    "edf": Edf,
    "priority": Priority,
    "round-robin": RoundRobin,
    "least-loaded": LeastLoaded,
    "qlm": Qlm,
    "qlm-paper": QlmPaper,
    "chiron": Chiron,
}
SCALERS: dict[str, type[Scaler]] = {
    "fixed": Fixed,
    "slack": Slack,
    "chiron": ChironScaler,
    "wva": Wva,
    "kpa": Kpa,
    "qps": Qps,
}

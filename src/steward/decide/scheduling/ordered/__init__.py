"""One order over all jobs, whoever they belong to. One file each."""

from steward.decide.scheduling.ordered.conservative_backfill import ConservativeBackfill
from steward.decide.scheduling.ordered.easy_backfill import EasyBackfill
from steward.decide.scheduling.ordered.fifo import Fifo
from steward.decide.scheduling.ordered.fit_first import FitFirst
from steward.decide.scheduling.ordered.gittins import Gittins
from steward.decide.scheduling.ordered.las import Las
from steward.decide.scheduling.ordered.qssf import Qssf
from steward.decide.scheduling.ordered.sjf import Sjf
from steward.decide.scheduling.ordered.srsf import Srsf
from steward.decide.scheduling.ordered.srtf import Srtf
from steward.decide.scheduling.ordered.tiresias import Tiresias
from steward.model.view import ClusterView
from steward.ports import Policy

__all__ = ["ORDERED"]

ORDERED: dict[str, type[Policy[ClusterView]]] = {
    "fifo": Fifo,
    "fit-first": FitFirst,
    "easy-backfill": EasyBackfill,
    "conservative-backfill": ConservativeBackfill,
    "sjf": Sjf,
    "srtf": Srtf,
    "srsf": Srsf,
    "las": Las,
    "tiresias": Tiresias,
    "gittins": Gittins,
    "qssf": Qssf,
}

"""Changes of series: recorded ones (PELT), on-line (ADWIN, Page-Hinkley, BOCPD), and periods."""

from steward.learn.patterns.changes.detection import (
    METHODS,
    Change,
    MetricChange,
    MetricPeriod,
    find_changes,
    find_periods,
)
from steward.learn.patterns.changes.online import (
    DETECTORS,
    Adwin,
    Bocpd,
    OnlineChange,
    PageHinkley,
    online,
)
from steward.learn.patterns.changes.periodicity import Periodicity, PeriodLoss, periodicity
from steward.learn.patterns.changes.segmentation import Segmentation, change_points

__all__ = [
    "DETECTORS",
    "METHODS",
    "Adwin",
    "Bocpd",
    "Change",
    "MetricChange",
    "MetricPeriod",
    "OnlineChange",
    "PageHinkley",
    "PeriodLoss",
    "Periodicity",
    "Segmentation",
    "change_points",
    "find_changes",
    "find_periods",
    "online",
    "periodicity",
]

"""What is known of a job before it runs: run times of jobs like it, and plans over known sites."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from steward.config.assemble import learned_estimators
from steward.config.catalog import catalog_paths, read_catalog
from steward.config.settings import Settings
from steward.decide.planning.planner import plan
from steward.errors import StewardError
from steward.model.forecast import Forecast
from steward.model.job import JobRequest
from steward.model.planning.catalog import Catalog
from steward.model.planning.plan import Plan
from steward.planning.question import PlanQuestion, outlook_of, request_of, ways_by_hand
from steward.store.catalog import catalog_files

__all__ = ["JobOutlook"]

KEPT_S = 60.0  # what was learned is read anew so often, as it is saved every ten minutes


class JobOutlook:
    """Answers from what a steward here has learned and from its catalogues. For any thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._estimators = learned_estimators(settings)[0]
        self._learned_s = time.monotonic()
        self._catalog: tuple[tuple[tuple[Path, int], ...], Catalog] | None = None

    def run_times(self, request: JobRequest) -> tuple[Forecast, ...]:
        """Return forecasts of how long such a job runs; none where nothing like it has ended."""
        with self._lock:
            if time.monotonic() - self._learned_s > KEPT_S:
                self._estimators = learned_estimators(self._settings)[0]
                self._learned_s = time.monotonic()
            return tuple(
                each for estimator in self._estimators for each in estimator.estimate(request)
            )

    def plan(self, question: PlanQuestion, now_s: float) -> Plan:
        """Return the plan of a question, or raise what is wrong with it."""
        catalog = self.catalog()
        ways = ways_by_hand(question, catalog)
        if not ways:
            raise StewardError(
                "how long it runs is not said",
                where="run time",
                hint="write 4xA100=2h..5h, one for each number of GPUs, or cpu=9h",
            )
        return plan(request_of(question, ways, now_s), catalog, outlook_of(question, catalog))

    def catalog(self) -> Catalog:
        """Return all sites that are known, read anew where a file has changed."""
        paths = catalog_paths(self._settings)
        stamp = tuple((file, _changed_ns(file)) for path in paths for file in catalog_files(path))
        with self._lock:
            if self._catalog is None or self._catalog[0] != stamp:
                self._catalog = (stamp, read_catalog(self._settings).catalog)
            found = self._catalog[1]
        if not found.sites:
            raise StewardError(
                "no site is known",
                where="planning.catalog",
                hint="name files or folders there; docs/catalog.md shows how one is written",
            )
        return found


def _changed_ns(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0

"""What is known of a job before it runs: run times of jobs like it, and plans over known sites."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from steward.config.assemble import learned_estimators
from steward.config.catalog import catalog_paths, read_catalog
from steward.config.settings import Settings
from steward.decide.planning.candidates import sites_of
from steward.decide.planning.planner import plan
from steward.errors import StewardError
from steward.model.forecast import Forecast
from steward.model.job import JobRequest
from steward.model.planning.catalog import Catalog, CatalogSite
from steward.model.planning.outlook import Outlook
from steward.model.planning.plan import Plan, PlanRequest, Range
from steward.planning.carbon_hours import carbon_ahead
from steward.planning.question import PlanQuestion, outlook_of, request_of, ways_by_hand
from steward.store.catalog import catalog_files

__all__ = ["JobOutlook", "Waits"]

QueueWaits = tuple[Mapping[str, Range], tuple[str, ...]]  # by site, and what is missing
Waits = Callable[[Sequence[CatalogSite], frozenset[int]], QueueWaits]
WAITS_KEPT_S = 30.0
MOST_KEPT = 100  # answers of sites, by what was asked
KEPT_S = 60.0  # what was learned is read anew so often, as it is saved every ten minutes


class JobOutlook:
    """Answers from what a steward here has learned and from its catalogues. For any thread."""

    def __init__(self, settings: Settings, *, waits: Waits | None = None) -> None:
        self._settings = settings
        self._waits = waits
        self._asked: dict[tuple[str, frozenset[int]], tuple[float, QueueWaits]] = {}
        self._hours: tuple[tuple[int, int], Outlook] | None = None
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
        return self.planned(question, now_s)[0]

    def planned(self, question: PlanQuestion, now_s: float) -> tuple[Plan, tuple[str, ...]]:
        """Return the plan of a question, and what is not known of queues.

        Waits are those that the stewards of sites see, carbon that of the hours in which it runs
        where `planning.carbon` has it, else the catalogue's mean of the year.
        """
        catalog = self.catalog()
        ways = ways_by_hand(question, catalog)
        if not ways:
            raise StewardError(
                "how long it runs is not said",
                where="run time",
                hint="write 4xA100=2h..5h, one for each number of GPUs, or cpu=9h",
            )
        request = request_of(question, ways, now_s)
        waits, missing = self._live_waits(sites_of(request, catalog), request)
        ahead = replace(self._hours_ahead(now_s), waits=waits)
        return plan(request, catalog, outlook_of(question, catalog, known=ahead)), missing

    def _live_waits(self, sites: Sequence[CatalogSite], request: PlanRequest) -> QueueWaits:
        """Return the waits at sites; asked for anew every half minute, as people type."""
        if self._waits is None:
            return {}, ()
        counts = frozenset(way.gpus for way in request.ways)
        key = ",".join(sorted(site.name for site in sites)), counts
        asked_s, found = self._asked.get(key, (float("-inf"), ({}, ())))
        if time.monotonic() - asked_s > WAITS_KEPT_S:
            found = self._waits(sites, counts)
            self._asked[key] = time.monotonic(), found
            if len(self._asked) > MOST_KEPT:
                self._asked.pop(next(iter(self._asked)))
        return found

    def _hours_ahead(self, now_s: float) -> Outlook:
        """Return the carbon of the hours ahead, forecast anew each hour or with a new file."""
        if not self._settings.planning.carbon:
            return Outlook()
        file = Path(self._settings.planning.carbon).expanduser()
        stamp = int(now_s // 3600), _changed_ns(file)
        with self._lock:
            if self._hours is None or self._hours[0] != stamp:
                self._hours = stamp, carbon_ahead(file, now_s)
            return self._hours[1]

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

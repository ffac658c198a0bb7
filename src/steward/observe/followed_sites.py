"""Looks at one site where followed jobs are: each has a collector, and none waits for others."""

from __future__ import annotations

from steward.clients.site_jobs.site import Site
from steward.errors import StewardError
from steward.model.event import Availability, Observation
from steward.store.followed_jobs import FollowedJobs

__all__ = ["FollowedSite"]


class FollowedSite:
    """The runs at one site, by its engine; by their own files where that does not answer."""

    vocabulary = "canonical"

    def __init__(self, site: Site, store: FollowedJobs) -> None:
        self._site, self._store = site, store
        self.name = f"site {site.name}" if site.name else "main site"
        self._answered = False

    def available(self) -> Availability:
        """Say whether its engine answers."""
        try:
            self._site.engine.ping()
        except StewardError as fault:
            return Availability(status="missing", reason=str(fault), hint=fault.hint)
        return Availability(status="ok", reason="its engine answers")

    def collect(self, t_s: float) -> Observation:
        """Return what the site shows."""
        report = self._site.report(self._store.jobs(), t_s)
        self._answered = True
        return Observation(site_reports=(report,))

    def has_listed(self) -> bool:
        """Return whether it was looked at."""
        return self._answered

    def close(self) -> None:
        """Close nothing: each look is a connection of its own."""

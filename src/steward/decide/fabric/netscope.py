"""Cap those that lose little by it, and nobody else.

In a region that stays congested, each application over its links is asked for the cap at which the
links no longer fill. Those that would lose no more than `tolerated` with a probability of nine in
ten get it, or the tightest cap that they bear; those that might lose more are left alone. It is
done only where the others gain more than is lost. Caps are raised by steps once the links would
bear it, so nobody is released into the congestion that its cap ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.fabric.caps import CapChange, Moment, decisions
from steward.model.decision import Decision, Expectation
from steward.model.fabric.traits import Traits, cap_loss, traits_of
from steward.model.fabric.view import CAP_SENSITIVITY, DELAY_SENSITIVITY, FabricView
from steward.model.forecast import About, ForecastColumn

__all__ = ["Netscope"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_TRIED = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Netscope:
    """`tolerated` is the log of a slowdown; `floor` the least share of its line rate anybody keeps.

    A slope's upper value is the one that nine in ten stay below (`ForecastColumn.high`).
    """

    least_stalled: float = 0.05
    hold_s: float = 3.0
    target: float = 0.85  # of a link's capacity that may be filled at peaks
    tolerated: float = 0.03
    floor: float = 0.2
    least_part: float = 0.05  # of a region's traffic: those who send less are not its cause
    raise_by: float = 1.25
    calm_s: float = 10.0
    check_after_s: float = 60.0
    name: str = "netscope"

    def decide(self, view: FabricView) -> tuple[Decision, ...]:
        """Return caps for the tolerant in congestion, and steps back for those out of it."""
        delay = view.forecast(About.APPLICATIONS, DELAY_SENSITIVITY)
        cap = view.forecast(About.APPLICATIONS, CAP_SENSITIVITY)
        if view.unknown or delay is None or cap is None or not len(view.applications):
            return ()
        moment = Moment.of(view)
        bears = self._bears(moment, cap)
        changes = self._caps(moment, bears, delay)
        changes += self._raises(moment, bears, {each.row for each in changes})
        return decisions(self.name, moment, changes, self.check_after_s)

    def _bears(self, moment: Moment, cap: ForecastColumn) -> Floats:
        """Return the tightest cap at which each application loses little with high probability."""
        traits = traits_of(moment.view.applications)
        tried = [
            np.where(self._loss(traits, cap.high, share) <= self.tolerated, share, 1.0)
            for share in _TRIED
            if share >= self.floor
        ]
        least: Floats = np.min(tried, axis=0)
        return least

    def _loss(self, traits: Traits, slope: Floats, share: float) -> Floats:
        loss: Floats = np.nan_to_num(slope, nan=np.inf) * cap_loss(
            traits, np.full(len(slope), share)
        )
        return np.nan_to_num(loss, nan=0.0)

    def _caps(self, moment: Moment, bears: Floats, delay: ForecastColumn) -> list[CapChange]:
        hot = moment.hot(self.least_stalled, self.hold_s)
        if not len(hot):
            return []
        sent = moment.load[:, hot]
        causes = (sent >= self.least_part * sent.sum(axis=0)) & (sent > 0)
        may = (bears < 1.0) & moment.free & causes.any(axis=1)
        wanted = np.where(may, np.maximum(self._fitting(moment, hot, may), bears), 1.0)
        lower = np.flatnonzero(wanted < moment.share * 0.95)
        suffers = self._suffering(moment, hot, delay)
        gain = float(np.delete(suffers, lower).sum()) if len(lower) else 0.0
        weight = np.nan_to_num(moment.view.applications.gpus)
        loss = float(weight[lower].sum()) * self.tolerated / 3  # most lose nothing at all
        if gain <= loss:
            return []
        part = self.check_after_s / len(lower)
        return [
            CapChange(
                row=int(row),
                share=float(wanted[row]),
                because=self._reason(moment, int(row), float(wanted[row]), hot),
                expects=Expectation(low=0.0, mid=(gain - loss) * part, high=gain * part),
            )
            for row in lower
        ]

    def _fitting(self, moment: Moment, links: NDArray[np.int64], may: Bools) -> Floats:
        """Return the shares at which the peaks of those who may be capped fit on links.

        What an application puts on a link grows with what each of its endpoints sends.
        """
        capacity = moment.view.topology.links.bytes_per_s[links]
        sent = moment.load[:, links]
        others = sent[~may].sum(axis=0)
        room = np.maximum(self.target * capacity - others, 0.0)
        mine = np.where(may[:, None], sent, 0.0)
        part = room * mine / np.maximum(mine.sum(axis=0), 1e-9)
        ends = [len(moment.view.endpoints.get(job, ())) for job in moment.view.applications.jobs]
        mean = np.nan_to_num(moment.view.applications.bytes_per_s) / np.maximum(ends, 1)
        spread = mine / np.maximum(mean, 1e-9)[:, None]  # flows of one endpoint's rate on a link
        fits = np.where(mine > 0, part / np.maximum(spread, 1e-9), np.inf).min(axis=1)
        share: Floats = np.clip(fits / np.nan_to_num(moment.line, nan=1.0), self.floor, 1.0)
        return share

    def _suffering(self, moment: Moment, links: NDArray[np.int64], delay: ForecastColumn) -> Floats:
        """Return the GPUs' worth that each application over links loses to its delay now."""
        applications = moment.view.applications
        added_ms = np.nan_to_num((applications.delay_s - applications.best_delay_s) * 1e3)
        inside = moment.load[:, links].sum(axis=1) > 0
        lost = 1.0 - np.exp(-np.nan_to_num(delay.mid) * np.maximum(added_ms, 0.0))
        return np.where(inside, np.nan_to_num(applications.gpus) * lost, 0.0)

    def _raises(self, moment: Moment, bears: Floats, taken: set[int]) -> list[CapChange]:
        """Return steps back: for who loses too much after all, and where links would bear it."""
        view = moment.view
        fits = self._fitting_alone(moment)
        calm = view.t_s - view.applications.capped_since_s >= self.calm_s
        changes = []
        for row in np.flatnonzero(moment.share < 1.0):
            higher = min(float(moment.share[row]) * self.raise_by, 1.0)
            hurts = bears[row] > moment.share[row] * self.raise_by
            if int(row) in taken or not (hurts or (calm[row] and higher <= fits[row])):
                continue
            why = "it may lose more than is tolerated" if hurts else "its links would bear it"
            changes.append(CapChange(row=int(row), share=higher, because=why))
        return changes

    def _fitting_alone(self, moment: Moment) -> Floats:
        """Return the share up to which each application's peaks fit beside what others send."""
        found = np.ones(len(moment.share))
        for row in np.flatnonzero(moment.share < 1.0):
            links = np.flatnonzero(moment.load[row])
            only = np.zeros(len(found), np.bool_)
            only[row] = True
            if len(links):
                found[row] = self._fitting(moment, links, only)[row]
        return found

    def _reason(self, moment: Moment, row: int, share: float, links: NDArray[np.int64]) -> str:
        sent = moment.load[:, links].sum(axis=0)
        worst = int(np.argmax(np.where(sent > 0, moment.load[row, links] / np.maximum(sent, 1), 0)))
        link = int(links[worst])
        part = moment.load[row, link] / sent[worst]
        stalled = moment.view.links.stalled_share[link]
        return (
            f"{moment.view.topology.names_of_links[link]} stalls {stalled:.0%} of the time, and "
            f"{part:.0%} of its traffic is from here; {share:.0%} of the line rate slow it by more "
            f"than {np.expm1(self.tolerated):.0%} with a probability below 10 %"
        )

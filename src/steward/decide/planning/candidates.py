"""Every way in every queue that takes it: when it would end, what it costs and draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from steward.decide.planning.charges import Occupied, charge
from steward.decide.planning.durations import MOST_RESTARTS, Attempts, Spans, spans_of
from steward.decide.planning.energy import co2_of, energy_of, host_watts
from steward.decide.planning.formatting import duration
from steward.decide.planning.hourly_rates import HourlyRate, best_start
from steward.decide.planning.limits import OLD_S, Asked, Fit, age_notes, validate
from steward.model.planning.catalog import Accelerator, Catalog, CatalogSite, Engine, Queue, Source
from steward.model.planning.outlook import Outlook
from steward.model.planning.plan import Choice, PlanRequest, Range, Rejected, Way

__all__ = ["Candidate", "Candidates", "sites_of"]

DAY_S = 86400.0
_UNKNOWN_WAITS = {
    Engine.LOCAL: Range(low=0.0, mid=0.0, high=0.0),
    Engine.CLOUD: Range(low=0.0, mid=60.0, high=900.0),
    Engine.KUBERNETES: Range(low=0.0, mid=1800.0, high=DAY_S),
    Engine.SLURM: Range(low=0.0, mid=3600.0, high=2 * DAY_S),
}
_INTERRUPTED_EVERY_S = 8 * 3600.0  # where nobody knows; clouds publish 5 to 20 % a month and more
_OFTEN_TEXT = "how often jobs are stopped there is not known: every"
_OFTEN = (f"{_OFTEN_TEXT} {duration(_INTERRUPTED_EVERY_S)} is assumed",)
_PRICE_DRIFT = 0.1  # of a price, for each year since somebody looked it up
_MOST_DRIFT = 0.5
_FRESH_S = 30 * DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A choice, with the distribution behind it."""

    choice: Choice
    spans: Spans


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A way in a queue that takes it."""

    site: CatalogSite
    queue: Queue
    way: Way
    fit: Fit
    spans: Spans
    notes: tuple[str, ...]
    kwh: Range
    grams: HourlyRate | float | None
    prices: HourlyRate | None


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """All that is feasible by the rules of the sites; `rejected` is what is not."""

    request: PlanRequest
    catalog: Catalog
    outlook: Outlook
    rejected: list[Rejected] = field(default_factory=list)
    _spans: dict[tuple[object, ...], Spans | None] = field(default_factory=dict)
    _energies: dict[tuple[object, ...], Range] = field(default_factory=dict)
    _rates: dict[tuple[object, ...], HourlyRate] = field(default_factory=dict)
    _starts: dict[tuple[object, ...], float | None] = field(default_factory=dict)
    _ways_of: dict[tuple[str, bool], tuple[Way, ...]] = field(default_factory=dict)
    _asked: dict[tuple[int, float], Asked] = field(default_factory=dict)
    _grams_of: dict[tuple[object, ...], tuple[float, float, float]] = field(default_factory=dict)
    _factors: dict[tuple[object, ...], float] = field(default_factory=dict)
    _fresh: dict[str, bool] = field(default_factory=dict)
    _drifts: dict[str, float] = field(default_factory=dict)
    _models: dict[str, Accelerator | None] = field(default_factory=dict)

    @cached_property
    def found(self) -> tuple[Candidate, ...]:
        """Return each place where it may run, starting now, and later where that is better."""
        return tuple(
            Candidate(choice=self._choice(place, start_s), spans=place.spans)
            for site in sites_of(self.request, self.catalog)
            for queue in site.queues
            for way in self._ways(site, queue)
            if (place := self._place(site, queue, way)) is not None
            for start_s in self._starts_of(place)
        )

    def _ways(self, site: CatalogSite, queue: Queue) -> tuple[Way, ...]:
        """Return the ways whose GPUs the queue has; without GPUs where those are not all taken."""
        key = (queue.gpu_model, queue.shared_nodes or not queue.gpus_per_node)
        if key not in self._ways_of:
            self._ways_of[key] = tuple(
                way
                for way in self.request.ways
                if self._runs(way, queue.gpu_model, takes_parts=key[1])
            )
        ways = self._ways_of[key]
        if not ways:
            gpus = f"{queue.gpu_model or 'unknown'} GPUs" if queue.gpus_per_node else "no GPUs"
            why = f"it has {gpus}, and the run time is known for {self._known}"
            self._reject(site, queue, None, why)
        return ways

    @cached_property
    def _known(self) -> str:
        return ", ".join(sorted({way.gpu_model or "no GPUs" for way in self.request.ways}))

    def _runs(self, way: Way, gpu_model: str, *, takes_parts: bool) -> bool:
        if not way.gpu_model or not gpu_model:
            return not way.gpu_model and takes_parts
        known = self._model(gpu_model)
        if known is not None and known.is_called(way.gpu_model):
            return True
        return gpu_model.casefold() == way.gpu_model.casefold()

    def _model(self, name: str) -> Accelerator | None:
        if name not in self._models:
            self._models[name] = self.catalog.accelerator(name)
        return self._models[name]

    def _place(self, site: CatalogSite, queue: Queue, way: Way) -> _Place | None:
        """Return a way in a queue, or note why it cannot run there."""
        request = self.request
        fit = validate(self._asks(way, queue.start_s), queue, self._model(queue.gpu_model))
        if not fit.fits:
            self._reject(site, queue, way, "; ".join(each.text for each in fit.violations))
            return None
        if way.most_nodes is not None and fit.nodes > way.most_nodes:
            why = (
                f"its {way.gpus} GPUs would be spread over {fit.nodes} nodes, and the run time "
                f"holds for {way.most_nodes} at most"
            )
            self._reject(site, queue, way, why)
            return None
        if queue.interruptible and not request.saves:
            why = "jobs are stopped there for others, and this one saves no checkpoints to go on"
            self._reject(site, queue, way, why)
            return None
        wait, notes = self._wait(site, queue)
        every_s, more = self._interrupted_every(site, queue, fit.nodes)
        spans = self._spans_of(way, wait, queue, every_s)
        if spans is None:
            why = f"it would begin anew more than {MOST_RESTARTS} times there"
            self._reject(site, queue, way, why)
            return None
        return _Place(
            site=site,
            queue=queue,
            way=way,
            fit=fit,
            spans=spans,
            notes=(*notes, *more, *fit.notes, *self._age_notes(site, queue)),
            kwh=self._energy(site, queue, way, fit.occupied, spans),
            grams=self._grams(site),
            prices=self._prices(site, queue),
        )

    def _asks(self, way: Way, start_s: float) -> Asked:
        key = (id(way), start_s)
        if key not in self._asked:
            self._asked[key] = Asked(
                gpus=way.gpus,
                gpu_memory_bytes=way.gpu_memory_bytes,
                cores=self.request.cores,
                memory_bytes=self.request.memory_bytes,
                run_s=way.run_s.high + start_s,
                saves=self.request.saves,
                save_s=self.request.save_s,
            )
        return self._asked[key]

    def _reject(self, site: CatalogSite, queue: Queue, way: Way | None, why: str) -> None:
        """Note why a way, or any way at all, cannot run in a queue."""
        gpu_model, gpus = (way.gpu_model, way.gpus) if way else (queue.gpu_model, 0)
        self.rejected.append(
            Rejected(site=site.name, queue=queue.name, gpu_model=gpu_model, gpus=gpus, why=why)
        )

    def _wait(self, site: CatalogSite, queue: Queue) -> tuple[Range, tuple[str, ...]]:
        known = self.outlook.wait_at(site, queue)
        if known is not None:
            return known, ()
        wait = _UNKNOWN_WAITS[site.engine]
        if wait.high < DAY_S:
            return wait, ()
        text = f"nobody knows how long jobs wait there: up to {duration(wait.high)} is assumed"
        return wait, (text,)

    def _interrupted_every(
        self, site: CatalogSite, queue: Queue, nodes: int
    ) -> tuple[float | None, tuple[str, ...]]:
        """Return the mean time until one of the nodes is lost, which stops all."""
        if not queue.interruptible:
            return None, ()
        known_s = self.outlook.interrupted_every(site, queue)
        if known_s is not None:
            return known_s / nodes, ()
        return _INTERRUPTED_EVERY_S / nodes, _OFTEN

    def _spans_of(self, way: Way, wait: Range, queue: Queue, every_s: float | None) -> Spans | None:
        key = (id(way), id(wait), queue.max_s, every_s, queue.start_s)
        if key not in self._spans:
            attempts = Attempts(
                limit_s=queue.max_s,
                interrupted_every_s=every_s,
                start_s=queue.start_s,
                save_s=self.request.save_s,
                save_every_s=self.request.save_every_s,
            )
            self._spans[key] = spans_of(way.run_s, wait, way.watts, attempts)
        return self._spans[key]

    def _age_notes(self, site: CatalogSite, queue: Queue) -> tuple[str, ...]:
        """Return what is said of old facts; most are of one day, so that is looked up once."""
        as_of = queue.source.as_of or site.source.as_of
        if as_of not in self._fresh:
            age_s = Source(text="", as_of=as_of).age_s(self.request.now_s)
            self._fresh[as_of] = age_s is not None and age_s <= OLD_S
        return () if self._fresh[as_of] else age_notes(site, queue, self.request.now_s)

    def _energy(
        self, site: CatalogSite, queue: Queue, way: Way, held: Occupied, spans: Spans
    ) -> Range:
        host_w = host_watts(queue, held, self.request.memory_bytes)
        pue = site.power_usage_effectiveness
        key = (id(spans), way.gpus, held.gpus, host_w, pue)
        if key not in self._energies:
            self._energies[key] = energy_of(
                spans, gpus=way.gpus, held_gpus=held.gpus, host_w=host_w, pue=pue
            )
        return self._energies[key]

    def _grams(self, site: CatalogSite) -> HourlyRate | float | None:
        values = self.outlook.grams_at(site)
        if values is None:
            return site.grams_per_kwh
        key = (id(values), site.grams_per_kwh)
        if key not in self._rates:
            self._rates[key] = HourlyRate.of(
                values, self.outlook.hours_from_s, beyond=site.grams_per_kwh
            )
        return self._rates[key]

    def _prices(self, site: CatalogSite, queue: Queue) -> HourlyRate | None:
        values = self.outlook.prices_at(site, queue)
        if values is None:
            return None
        key = (id(values), "price")
        if key not in self._rates:
            self._rates[key] = HourlyRate.of(values, self.outlook.hours_from_s, beyond=1.0)
        return self._rates[key]

    def _starts_of(self, place: _Place) -> list[float]:
        """Return now, and the greenest and the cheapest later start that is in time."""
        request = self.request
        starts = {request.now_s: None}
        if not request.may_start_later:
            return [*starts]
        for rate in (place.grams, place.prices):
            if isinstance(rate, HourlyRate):
                better = self._better_start(rate, place.spans)
                starts |= {} if better is None else {better: None}
        return [*starts]

    def _better_start(self, rate: HourlyRate, spans: Spans) -> float | None:
        key = (id(rate), id(spans))
        if key not in self._starts:
            request = self.request
            latest_s = request.now_s + DAY_S
            if request.deadline_s is not None:
                latest_s = request.deadline_s - spans.within(request.deadline_chance)
            self._starts[key] = best_start(
                rate,
                now_s=request.now_s,
                latest_s=latest_s,
                wait_s=spans.summary.wait_s.mid,
                length_s=spans.summary.elapsed_s.mid,
            )
        return self._starts[key]

    def _choice(self, place: _Place, start_s: float) -> Choice:
        request, spans, queue = self.request, place.spans, place.queue
        summary = spans.summary
        units, usd = self._cost(place, start_s)
        notes = place.notes
        if usd is None and units > 0:
            unit = queue.charging.unit
            notes = (*notes, f"{unit} have no price in money: no budget in USD holds for them")
        co2 = None
        if place.grams is not None:
            co2 = co2_of(place.kwh, self._mean_grams(place.grams, spans, start_s))
        chance = None
        if request.deadline_s is not None:
            chance = spans.chance_within(request.deadline_s - start_s)
        return Choice(
            site=place.site.name,
            queue=queue.name,
            way=place.way,
            nodes=place.fit.nodes,
            start_s=start_s,
            wait_s=summary.wait_s,
            run_s=summary.elapsed_s,
            end_s=summary.total_s.after(start_s),
            links=spans.links,
            interruptible=queue.interruptible,
            usd=usd,
            units={queue.charging.unit: units},
            kwh=place.kwh,
            co2_kg=co2,
            deadline_chance=chance,
            notes=notes,
        )

    def _mean_grams(
        self, rate: HourlyRate | float, spans: Spans, start_s: float
    ) -> tuple[float, float, float]:
        """Return the carbon of a kWh in the hours of a short, a usual and a long run."""
        if not isinstance(rate, HourlyRate):
            return rate, rate, rate
        key = (id(rate), id(spans), start_s)
        if key not in self._grams_of:
            summary = spans.summary
            begin_s, run_s = start_s + summary.wait_s.mid, summary.elapsed_s
            low, mid, high = rate.mean(begin_s, np.array([run_s.low, run_s.mid, run_s.high]))
            self._grams_of[key] = (float(low), float(mid), float(high))
        return self._grams_of[key]

    def _factor(self, rate: HourlyRate | None, spans: Spans, start_s: float) -> float:
        """Return what the hours of a run cost against the rule's price."""
        if rate is None:
            return 1.0
        key = (id(rate), id(spans), start_s)
        if key not in self._factors:
            begin_s = start_s + spans.summary.wait_s.mid
            self._factors[key] = float(rate.mean(begin_s, spans.summary.elapsed_s.mid))
        return self._factors[key]

    def _cost(self, place: _Place, start_s: float) -> tuple[float, Range | None]:
        """Return units at the middle, and money; old prices are less certain."""
        queue, links, busy = place.queue, place.spans.links, place.spans.summary.busy_s
        rule = queue.charging
        factor = links * self._factor(place.prices, place.spans, start_s)
        units = self._units(place, busy.mid / links)
        mid = factor * units
        if rule.usd_per_unit is None:
            return mid, None
        drift = self._drift(queue.source.as_of or place.site.source.as_of)
        if rule.minimum_s or rule.minimum_units:
            low, high = self._units(place, busy.low / links), self._units(place, busy.high / links)
        else:
            low, high = units * (busy.low / busy.mid), units * (busy.high / busy.mid)
        factor *= rule.usd_per_unit
        low, high = factor * low * (1 - drift), factor * high * (1 + drift)
        return mid, Range(low=low, mid=factor * units, high=high)

    def _units(self, place: _Place, run_s: float) -> float:
        """Return what one link costs in the site's unit."""
        request = self.request
        return charge(
            place.queue,
            nodes=place.fit.nodes,
            cores=request.cores,
            gpus=place.way.gpus,
            memory_bytes=request.memory_bytes,
            run_s=run_s,
        ).units

    def _drift(self, as_of: str) -> float:
        """Return by which share prices may have changed since a day."""
        if as_of not in self._drifts:
            age_s = Source(text="", as_of=as_of).age_s(self.request.now_s) or 0.0
            years = max(0.0, age_s - _FRESH_S) / (365 * DAY_S)
            self._drifts[as_of] = min(_MOST_DRIFT, _PRICE_DRIFT * years)
        return self._drifts[as_of]


def sites_of(request: PlanRequest, catalog: Catalog) -> tuple[CatalogSite, ...]:
    """Return the sites that may be used; an unknown name is an error."""
    if not request.sites:
        return catalog.sites
    return tuple(catalog.site(name) for name in request.sites)

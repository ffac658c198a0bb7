"""Estimator of the work and the waiting time of requests to model servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.learn.estimators.serving.calibration import (
    FIRST_SDS,
    SHORT_S,
    TINY_S,
    Calibration,
    WaitCalibration,
)
from steward.learn.estimators.serving.composition import Composition
from steward.learn.estimators.serving.in_flight import (
    COLUMNS,
    COUNT,
    HELD,
    IN_ALL_S,
    LEFT_S,
    LEFT_VARIANCE,
    SENT_S,
    SENT_VARIANCE,
    KnownRequests,
    Seen,
    TypeTable,
    add_rows,
    count_open,
    look,
    new_rows,
)
from steward.learn.estimators.serving.output_lengths import OutputLengths
from steward.learn.estimators.serving.stretches import Stretch, Stretches
from steward.learn.estimators.serving.throughput import CLASSES, TypeThroughput
from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.instance_type import InstanceType
from steward.model.serving.view import (
    DRAINING,
    OFF,
    STARTING,
    SWAPPING,
    InstanceColumns,
    ServingView,
)
from steward.model.serving.waits import ExpectedWaits, expected_waits

__all__ = ["LearnedWaits"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_KV_SHARE = 0.95  # of the KV cache that a full batch holds on average, before it was measured
_COMPARED = 4096  # waits that are compared at one call
_OFTEN, _SELDOM = 8, 64  # answers that end between two versions of what is expected


class LearnedWaits:
    """Learn how long answers are and how fast instances work, from what passes through them.

    Works from the first request on: step times are those of the type's profile until measured,
    lengths those of the wider group until a tenant's own are known. Every request's wait is
    predicted as it arrives, in the order of arrival, and compared when its first token comes; the
    bound of all forecasts follows from that.
    """

    def __init__(self, *, groups: int = 2048, memory: float = 800.0) -> None:
        self.name = "learned-waits"
        self._lengths = OutputLengths(groups=groups, memory=memory)
        self._calibration = WaitCalibration()
        self._composition = Composition()
        self._throughput: dict[str, TypeThroughput] = {}
        self._types: tuple[InstanceType, ...] = ()
        self._table = _table(())
        self._known = _known(0, 0)
        self._stretches = Stretches(0)
        self._changed_s: dict[int, tuple[int, float]] = {}  # instance: its state, since when
        self._version_at = 0  # answers that had ended then

    @property
    def calibration(self) -> Calibration:
        """Return how far predictions were off lately, as values that a metric can show."""
        return self._calibration.figures()

    def quantile_tokens(self, view: ServingView, request: int, share: float) -> float:
        """Return what this share of such requests' answers are not longer than."""
        return self._lengths.quantile(self._group(view, request), share)

    def learn(self, view: ServingView, ended: Ints) -> None:
        rows = ended[ended < len(self._known.arrival_s)]
        rows = rows[self._known.arrival_s[rows] == view.requests.arrival_s[rows]]
        tokens = view.requests.generated_tokens[rows].tolist()
        groups, counted = self._known.group[rows].tolist(), self._known.counted[rows].tolist()
        for group, made, before in zip(groups, tokens, counted, strict=True):
            self._lengths.add(group, made, before)

    def predict(self, view: ServingView) -> ServingForecasts:
        self._fit(view)
        seen = _seen(view)
        self._renew(seen)
        totals = np.zeros((len(view.instances), COLUMNS))
        look(seen, self._known, self._lengths.tables, self._table, totals)
        self._compare(view.t_s)
        self._measure(view, totals)
        new = self._take_in(view, seen)
        forecasts = self._forecasts(view, totals)
        if len(new):
            self._note(view, forecasts, new)
        return forecasts

    @property
    def state_version(self) -> int:
        return 3

    def save_state(self) -> dict[str, Any]:
        return {
            "lengths": self._lengths.save(),
            "calibration": self._calibration.save(),
            "throughput": {name: each.save() for name, each in self._throughput.items()},
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        throughput = {}
        for name, saved in state["throughput"].items():
            throughput[str(name)] = TypeThroughput()
            throughput[str(name)].restore(saved)
        calibration = WaitCalibration()
        calibration.restore(state["calibration"])
        self._lengths.restore(state["lengths"])
        self._calibration, self._throughput = calibration, throughput
        self._types, self._table = (), _table(())
        self._known = _known(0, 0)

    # -- what the view holds ---------------------------------------------------------------------

    def _fit(self, view: ServingView) -> None:
        """Make room for the view's rows, instances and types."""
        rows, places = len(view.requests.arrival_s), len(view.instances)
        if view.types is not self._types and view.types != self._types:
            self._types = view.types
            self._throughput = {
                each.name: self._throughput.get(each.name) or TypeThroughput()
                for each in view.types
            }
            self._table = _table(view.types)
            self._known = _known(0, len(view.types))
            for kind in range(len(view.types)):
                self._set_throughput(kind)
        if rows > len(self._known.arrival_s):
            grown = _known(
                rows + rows // 2 if len(self._known.arrival_s) else rows, len(self._types)
            )
            _copy(self._known, grown)
            self._known = grown
        if places != self._stretches.instances:
            self._stretches = Stretches(places)

    def _take_in(self, view: ServingView, seen: Seen) -> Ints:
        """Open the rows that are new in the queue; return them by arrival."""
        found = np.zeros(len(view.queue), np.int64)
        count = new_rows(view.queue, seen.arrival_s, self._known.arrival_s, found)
        new = found[:count][::-1]
        for r in new.tolist():
            self._known.group[r] = self._group(view, r)
            if self._composition.has_changed(_kind(view, r)):
                self._calibration.begin_anew(view.t_s)
        if count:
            # Waits of tenants that are known tell nothing of how wrong one is about a new tenant.
            self._table.widened[0] = max(1.0, FIRST_SDS / self._calibration.sds)
            add_rows(seen, self._known, self._lengths.tables, self._table, new)
        return new

    def _group(self, view: ServingView, r: int) -> int:
        requests = view.requests
        tenant = int(requests.tenant[r])
        return self._lengths.group(
            view.models[int(requests.model[r])],
            view.classes[int(requests.deadline_class[r])].name,
            view.tenants[tenant] if tenant >= 0 else "",
            int(requests.prompt_tokens[r]),
        )

    # -- learning --------------------------------------------------------------------------------

    def _renew(self, seen: Seen) -> None:
        """Begin a new version of what is expected once enough answers have ended."""
        ended = self._lengths.finished
        if ended - self._version_at >= min(_SELDOM, max(_OFTEN, ended // 32)):
            self._version_at = ended
            count_open(seen, self._known, self._lengths.tables)
            self._lengths.begin_version()

    def _compare(self, t_s: float) -> None:
        known = self._known
        for compared in known.compared[: known.counts[1]].tolist():
            if self._calibration.is_due:
                self._calibration.expect(*self._open_bounds(t_s))
            self._calibration.observe(*compared)

    def _open_bounds(self, t_s: float) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the bounds of what waits, in standard deviations, and which are over."""
        predicted = self._known.predicted[self._known.open[: self._known.counts[0]]]
        when_s, mean_s, sd_s, upper_s = predicted[predicted[:, 1] >= SHORT_S].T
        waits = (when_s >= self._calibration.since_s) & np.isfinite(mean_s)
        sds = (upper_s - mean_s)[waits] / (sd_s[waits] + TINY_S)
        overdue: NDArray[np.bool_] = (when_s + upper_s < t_s)[waits]
        return sds, overdue

    def _measure(self, view: ServingView, totals: Floats) -> None:
        """Learn from stretches of instances' time that are over."""
        crowded = len(view.queue) > int(view.instances.room.sum())
        for i, stretch in self._stretches.look(view.t_s, totals, crowded=crowded):
            kind = int(view.instances.type[i])
            self._learn_stretch(kind, stretch)
            self._set_throughput(kind)

    def _learn_stretch(self, kind: int, stretch: Stretch) -> None:
        times = self._types[kind].step_times
        learnt = self._throughput[self._types[kind].name]
        fixed_s = times.fixed_s
        if stretch.sequences > times.bend_tokens:
            fixed_s -= times.token_beyond_s * times.bend_tokens
        parts = np.array([fixed_s * stretch.steps, stretch.prefill_s, stretch.decode_s])
        learnt.add_steps(parts, stretch.took_s)
        if not stretch.is_full:
            return
        learnt.add_full(
            np.array([stretch.sequences, stretch.held_tokens]),
            left_share=stretch.left_share,
            step_s=stretch.took_s / stretch.steps,
        )
        if stretch.work_s > 0:
            length = min(int(np.log2(max(stretch.prompt_tokens, 1.0))), CLASSES - 1)
            learnt.add_work(length, stretch.work_s, stretch.took_s)

    def _set_throughput(self, kind: int) -> None:
        learnt, table = self._throughput[self._types[kind].name], self._table
        table.factor[kind] = learnt.factors
        table.ratio[kind] = learnt.ratio()
        table.doubt[kind] = learnt.doubt
        table.step_s[kind] = learnt.step_s

    # -- forecasts -------------------------------------------------------------------------------

    def _forecasts(self, view: ServingView, totals: Floats) -> ServingForecasts:
        out = self._known.columns[:, :, : len(view.requests.arrival_s)]
        backlog_s, backlog_sd_s = self._backlogs(view, totals)
        return ServingForecasts(
            output_tokens=out[0, 0],
            output_sd=out[1, 0],
            work_s=out[2],
            work_sd_s=out[3],
            first_token_s=out[4],
            run_s=out[5],
            work_doubt_s=out[6],
            bound_share=0.0,
            bound_sds=self._calibration.sds,
            backlog_s=backlog_s,
            backlog_sd_s=backlog_sd_s,
        )

    def _backlogs(self, view: ServingView, totals: Floats) -> tuple[Floats, Floats]:
        """Return how much more work each instance has than a full batch has left on average."""
        instances = view.instances
        full = np.array([self._full_batch(kind) for kind in range(len(view.types))])
        sequences, held, left_share, full_doubt = full[instances.type].T
        used = np.maximum(totals[:, COUNT] / sequences, totals[:, HELD] / held)
        full_s = left_share * totals[:, IN_ALL_S] / np.clip(used, 1e-3, 1.0)
        left_s = totals[:, LEFT_S] + totals[:, SENT_S]
        backlog_s = left_s - full_s
        sd_s = np.sqrt(
            2.0 * totals[:, LEFT_VARIANCE]
            + totals[:, SENT_VARIANCE]
            + (full_doubt * full_s) ** 2
            + (self._table.doubt[instances.type] * left_s) ** 2
        )
        backlog_s += self._until_ready_s(view)
        backlog_s[(instances.state == OFF) | (instances.state == DRAINING)] = np.inf
        return backlog_s, sd_s

    def _full_batch(self, kind: int) -> tuple[float, float, float, float]:
        """Return sequences and tokens of a full batch, which share of its work is left, its doubt.

        The doubt is how far that work may be off, as a share.
        """
        learnt = self._throughput[self._types[kind].name]
        most = self._table.capacity[kind, :2]
        batch = learnt.batch if learnt.full else most
        return float(batch[0]), float(batch[1]), learnt.left_share, learnt.full_doubt

    def _until_ready_s(self, view: ServingView) -> Floats:
        """Return how long instances still need to start or to load a model."""
        instances = view.instances
        found = np.zeros(len(instances))
        for i, state in enumerate(instances.state.tolist()):
            known, since_s = self._changed_s.get(i, (-1, 0.0))
            if known != state:
                since_s = view.t_s
                self._changed_s[i] = (state, since_s)
            if state in (STARTING, SWAPPING):
                kind = view.types[_becomes(view, instances, i)]
                whole_s = kind.start_s if state == STARTING else kind.swap_s
                found[i] = max(whole_s - (view.t_s - since_s), 0.0)
        return found

    def _note(self, view: ServingView, forecasts: ServingForecasts, new: Ints) -> None:
        """Keep what was predicted of requests that arrived, to compare it later."""
        waits = self._waits(view, forecasts)
        last = slice(len(view.queue) - len(new), None)
        predicted = self._known.predicted
        predicted[new, 0] = view.t_s
        predicted[new, 1], predicted[new, 2] = waits.mean_s[last], waits.sd_s[last]
        predicted[new, 3] = waits.upper_s[last]

    def _waits(self, view: ServingView, forecasts: ServingForecasts) -> ExpectedWaits:
        return expected_waits(replace(view, forecasts=forecasts))


def _kind(view: ServingView, r: int) -> tuple[int, int, int]:
    """Return what tells sources of requests apart, without who they are."""
    requests = view.requests
    length = int(requests.prompt_tokens[r]).bit_length()
    return int(requests.model[r]), int(requests.deadline_class[r]), length


def _becomes(view: ServingView, instances: InstanceColumns, i: int) -> int:
    """Return the type that an instance will be of: a swapping one has its new model already."""
    gpus = view.types[int(instances.type[i])].gpus
    model = view.models[int(instances.model[i])]
    for kind, each in enumerate(view.types):
        if each.model == model and each.gpus == gpus:
            return kind
    return int(instances.type[i])


def _seen(view: ServingView) -> Seen:
    requests = view.requests
    return Seen(
        arrival_s=requests.arrival_s,
        prompt=requests.prompt_tokens,
        state=requests.state,
        generated=requests.generated_tokens,
        instance=requests.instance,
        first_token_s=requests.first_token_s,
        kind=view.instances.type,
    )


def _table(types: tuple[InstanceType, ...]) -> TypeTable:
    count = len(types)
    capacity = [
        (each.max_sequences, _KV_SHARE * each.kv_tokens, each.max_waiting, each.max_batched_tokens)
        for each in types
    ]
    return TypeTable(
        coefficient=np.array(
            [each.step_times.coefficients() for each in types], np.float64
        ).reshape(count, 8),
        capacity=np.array(capacity, np.float64).reshape(count, 4),
        factor=np.ones((count, 3)),
        ratio=np.ones((count, CLASSES)),
        doubt=np.zeros(count),
        widened=np.ones(1),
        step_s=np.zeros(count),
        recent=np.zeros((count, 6)),
    )


def _known(rows: int, types: int) -> KnownRequests:
    return KnownRequests(
        arrival_s=np.full(rows, np.nan),
        group=np.zeros(rows, np.int64),
        counted=np.zeros(rows, np.int64),
        price=np.zeros((rows, types, 6)),
        place=np.full(rows, -1, np.int64),
        predicted=np.full((rows, 4), np.nan),
        is_open=np.zeros(rows, np.int64),
        open=np.zeros(rows, np.int64),
        counts=np.zeros(3, np.int64),
        compared=np.zeros((_COMPARED, 5)),
        columns=np.zeros((7, types, rows)),
    )


def _copy(old: KnownRequests, new: KnownRequests) -> None:
    rows = len(old.arrival_s)
    for name in ("arrival_s", "group", "counted", "price", "place", "predicted", "is_open", "open"):
        getattr(new, name)[:rows] = getattr(old, name)
    new.counts[:] = old.counts
    new.columns[:, :, :rows] = old.columns

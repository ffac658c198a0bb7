"""Compiled passes over requests: the work of those that wait, what is left of those that run.

Work has three parts with a learnt factor each: the fixed cost of steps, prompts, decoding. How
many steps a request costs is what it takes of whatever limits a full batch of such requests:
sequences, tokens in the KV cache, admissions per step, or prompt tokens per step.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.learn.estimators.serving.output_lengths import (
    LengthTables,
    count_running,
    doubt,
    remaining,
)
from steward.learn.estimators.serving.throughput import CLASSES
from steward.model.serving.view import DONE, QUEUED, REFUSED, RUNNING

__all__ = [
    "COLUMNS",
    "KnownRequests",
    "Seen",
    "TypeTable",
    "add_rows",
    "count_open",
    "look",
    "new_rows",
]

Array = NDArray[Any]

# Columns of `look`'s totals, by instance. Of what is in flight:
LEFT_S, LEFT_VARIANCE, SENT_S, SENT_VARIANCE, IN_ALL_S, COUNT, HELD, PROMPTS, LOST = range(9)
# Of what was done so far: by what is in flight, and by what ended since the last call.
PREFILL_S, DECODE_S, TOKENS, WORK_S = range(9, 13)
ENDED_PREFILL_S, ENDED_DECODE_S, ENDED_TOKENS, ENDED_WORK_S = range(13, 17)
COLUMNS = 17
_SHARPNESS = 16.0  # how clearly the tightest limit of a batch outweighs the others
_RECENT = 32.0  # arrivals at least that a batch is composed of, as far as its limit goes


class Seen(NamedTuple):
    """The columns of a view that compiled code reads."""

    arrival_s: Array
    prompt: Array
    state: Array
    generated: Array
    instance: Array
    first_token_s: Array
    kind: Array  # [instance] type


class TypeTable(NamedTuple):
    """What work costs, by type."""

    coefficient: Array  # [type, 8] as StepTimes.coefficients
    capacity: Array  # [type, 4] of a step: sequences, tokens held, admissions, prompt tokens
    factor: Array  # [type, part] learnt
    ratio: Array  # [type, class of prompts] learnt: time per work
    doubt: Array  # [type] how far these may be off, as a share
    widened: Array  # [1] by which factor doubt of new tenants is
    step_s: Array  # [type] a step of a full batch, prompts among it; 0: not measured yet
    recent: Array  # [type, 6] means over arrivals: of a batch's four limits, tokens; how many


class KnownRequests(NamedTuple):
    """One row per request of the view, and which are open."""

    arrival_s: Array  # whose row it is: NaN for nobody's yet
    group: Array  # of output lengths
    counted: Array  # the bin of tokens up to which its answer was counted
    price: Array  # [row, type, 6] shares of the four limits, sequences in its batch, class
    place: Array  # instance where it was last; -1 in the queue
    predicted: Array  # [row, 4]: when, mean, sd, bound; NaN once it was compared
    is_open: Array  # 1: in `open`
    open: Array  # rows that have not ended, in no order
    counts: Array  # how many are open; were compared; and the version rows were filled with
    compared: Array  # [place, 5] mean, sd, bound, wait, when, of those that got a first token
    columns: Array  # [7, type, row] as in ServingForecasts


@njit
def new_rows(queue: Array, arrival_s: Array, known_s: Array, found: Array) -> int:
    """Find the rows at the end of the queue that were never seen; return how many."""
    count = 0
    for place in range(len(queue) - 1, -1, -1):
        r = queue[place]
        if known_s[r] == arrival_s[r]:
            break
        found[count] = r
        count += 1
    return count


@njit
def add_rows(
    seen: Seen, known: KnownRequests, tables: LengthTables, table: TypeTable, rows: Array
) -> None:
    """Open new rows, whose groups are set, and fill in what is expected of them."""
    for r in rows:
        known.arrival_s[r] = seen.arrival_s[r]
        known.counted[r] = 0
        known.place[r] = -1
        known.predicted[r, 0] = np.nan
        if not known.is_open[r]:
            known.is_open[r] = 1
            known.open[known.counts[0]] = r
            known.counts[0] += 1
        _set_price(seen, known, tables, table, r)
        _fill(seen, known, tables, table, r)


@njit
def look(
    seen: Seen, known: KnownRequests, tables: LengthTables, table: TypeTable, totals: Array
) -> None:
    """Sum up, for each instance, what is in flight there; drop what has ended."""
    kept = 0
    renew = known.counts[2] != tables.version[0]
    known.counts[2] = tables.version[0]
    known.counts[1] = 0
    for at in range(known.counts[0]):
        r = known.open[at]
        if not math.isnan(known.predicted[r, 0]):
            _compare(seen, known, r)
        i, before = seen.instance[r], known.place[r]
        if seen.state[r] == DONE or seen.state[r] == REFUSED:
            known.is_open[r] = 0
            if before >= 0:
                _add_ended(seen, known, table, totals, r)
            continue
        known.open[kept] = r
        kept += 1
        if before >= 0 and i != before:
            totals[before, LOST] = 1.0
        known.place[r] = i
        if seen.state[r] != QUEUED and i >= 0:
            _add_in_flight(seen, known, tables, table, totals, r)
        elif renew or before >= 0:
            _fill(seen, known, tables, table, r)
    known.counts[0] = kept


@njit
def count_open(seen: Seen, known: KnownRequests, tables: LengthTables) -> None:
    """Count how far running answers have come, in all their groups."""
    for at in range(known.counts[0]):
        r = known.open[at]
        if seen.state[r] == RUNNING and seen.generated[r] > 0:
            known.counted[r] = count_running(
                tables, known.group[r], seen.generated[r], known.counted[r]
            )


@njit
def _set_price(
    seen: Seen, known: KnownRequests, tables: LengthTables, table: TypeTable, r: int
) -> None:
    """Note what limits a batch of such requests as arrived lately, this one among them."""
    mean, square = remaining(tables, known.group[r], 0.0)
    prompt = float(seen.prompt[r])
    for kind in range(len(table.capacity)):
        most, recent, price = table.capacity[kind], table.recent[kind], known.price[r, kind]
        weight = max(1.0 / max(most[0], _RECENT), 1.0 / (recent[5] + 1.0))
        recent[5] += 1.0
        demand = (mean, mean * prompt + 0.5 * square, 1.0, prompt)
        steps = 0.0
        for which in range(4):
            recent[which] += weight * (demand[which] / most[which] - recent[which])
            steps = max(steps, recent[which])
        recent[4] += weight * (mean - recent[4])
        total = 0.0
        for which in range(4):
            price[which] = (recent[which] / steps) ** _SHARPNESS
            total += price[which]
        price[:4] /= total
        price[4] = recent[4] / steps
        price[5] = min(int(math.log2(max(recent[3] * most[3], 1.0))), CLASSES - 1)


@njit
def _parts(
    table: TypeTable, kind: int, price: Array, tokens: tuple[float, float, float, float]
) -> tuple[float, float, float]:
    """Return the seconds of the fixed costs, the prompt and the decoding of a request.

    Its tokens: those of the prompt that have to be computed, those in the cache before decoding,
    mean and mean square of those that it still gets.
    """
    prompt, before, mean, square = tokens
    c, most = table.coefficient[kind], table.capacity[kind]
    context = mean * before + 0.5 * square
    beyond = c[4] if price[4] > c[3] else 0.0
    steps = price[0] * mean / most[0] + price[1] * context / most[1] + price[3] * prompt / most[3]
    prefill = (c[2] + c[4]) * prompt + c[7] * 0.5 * prompt * prompt
    if prompt > 0:
        steps += price[2] / most[2]
        prefill += c[1]
    decode = (c[2] + c[5] + beyond) * mean + c[6] * context
    return (c[0] - beyond * c[3]) * steps, prefill, decode


@njit
def _work_s(table: TypeTable, kind: int, parts: tuple[float, float, float]) -> float:
    """Return the seconds of work by the step times alone."""
    f = table.factor[kind]
    return float(f[0] * parts[0] + f[1] * parts[1] + f[2] * parts[2])


@njit
def _token_work_s(table: TypeTable, kind: int, price: Array, before: float) -> float:
    """Return by how much one more token of an answer adds to its work."""
    parts = _parts(table, kind, price, (0.0, before, 1.0, 1.0))
    return float(table.ratio[kind, int(price[5])] * _work_s(table, kind, parts))


@njit
def _step_s(table: TypeTable, kind: int, batch: float) -> float:
    """Return the seconds of a decoding step of a full batch."""
    if table.step_s[kind] > 0:
        return float(table.step_s[kind])
    c, f = table.coefficient[kind], table.factor[kind]
    tokens_s = (c[2] + c[5]) * batch + c[4] * max(batch - c[3], 0.0)
    return float(f[0] * c[0] + f[2] * (tokens_s + c[6] * 0.5 * table.capacity[kind, 1]))


@njit
def _fill(seen: Seen, known: KnownRequests, tables: LengthTables, table: TypeTable, r: int) -> None:
    """Set what is expected of a waiting request."""
    had = float(seen.generated[r])
    mean, square = remaining(tables, known.group[r], had)
    sd = max(square - mean * mean, 0.0) ** 0.5
    off = doubt(tables, known.group[r], mean, sd, table.widened[0])
    prompt = seen.prompt[r] + had
    out = known.columns
    for kind in range(out.shape[1]):
        price = known.price[r, kind]
        ratio = table.ratio[kind, int(price[5])]
        parts = _parts(table, kind, price, (prompt, prompt, mean, square))
        prefill_s = ratio * table.factor[kind, 1] * parts[1]
        work_s = ratio * _work_s(table, kind, parts)
        step_s = _step_s(table, kind, price[4])
        out[0, kind, r], out[1, kind, r] = had + mean, sd
        out[2, kind, r] = work_s
        out[3, kind, r] = sd * _token_work_s(table, kind, price, prompt + mean)
        out[4, kind, r] = prefill_s + step_s
        out[5, kind, r] = prefill_s + mean * step_s
        out[6, kind, r] = math.hypot(off * (work_s - prefill_s), table.doubt[kind] * work_s)


@njit
def _compare(seen: Seen, known: KnownRequests, r: int) -> None:
    """Note how long a request waited, once it has its first token."""
    first_s = seen.first_token_s[r]
    if not math.isnan(first_s):
        place = known.counts[1]
        if place < len(known.compared):
            known.compared[place, :3] = known.predicted[r, 1:]
            known.compared[place, 3] = first_s - known.predicted[r, 0]
            known.compared[place, 4] = known.predicted[r, 0]
            known.counts[1] = place + 1
        known.predicted[r, 0] = np.nan


@njit
def _add_ended(seen: Seen, known: KnownRequests, table: TypeTable, totals: Array, r: int) -> None:
    """Count the work of a request that ended among what its instance has done."""
    i = known.place[r]
    kind = seen.kind[i]
    made, prompt = float(seen.generated[r]), float(seen.prompt[r])
    parts = _parts(table, kind, known.price[r, kind], (prompt, prompt, made, made * made))
    totals[i, ENDED_PREFILL_S] += parts[1]
    totals[i, ENDED_DECODE_S] += parts[2]
    totals[i, ENDED_TOKENS] += made
    totals[i, ENDED_WORK_S] += _work_s(table, kind, parts)


@njit
def _add_in_flight(
    seen: Seen,
    known: KnownRequests,
    tables: LengthTables,
    table: TypeTable,
    totals: Array,
    r: int,
) -> None:
    """Count what is left of a request in flight, and what is done of it."""
    i = seen.instance[r]
    kind = seen.kind[i]
    price = known.price[r, kind]
    ratio = table.ratio[kind, int(price[5])]
    had, prompt = float(seen.generated[r]), float(seen.prompt[r])
    mean, square = remaining(tables, known.group[r], had)
    variance = max(square - mean * mean, 0.0)
    known.columns[0, :, r], known.columns[1, :, r] = had + mean, variance**0.5
    todo = 0.0
    if seen.state[r] != RUNNING:
        todo = prompt + had
    elif had == 0:
        todo = 0.5 * prompt
    left = _parts(table, kind, price, (todo, prompt + had, mean, square))
    left_s = ratio * _work_s(table, kind, left)
    variance *= _token_work_s(table, kind, price, prompt + had + mean) ** 2
    known.columns[2, kind, r] = left_s
    known.columns[3, kind, r] = variance**0.5
    if seen.state[r] != RUNNING:
        totals[i, SENT_S] += left_s
        totals[i, SENT_VARIANCE] += variance
        return
    done = _parts(table, kind, price, (prompt - todo, prompt, had, had * had))
    done_s = _work_s(table, kind, done)
    totals[i, LEFT_S] += left_s
    totals[i, LEFT_VARIANCE] += variance
    totals[i, IN_ALL_S] += left_s + ratio * done_s
    totals[i, COUNT] += 1.0
    totals[i, HELD] += prompt + had
    totals[i, PROMPTS] += prompt
    totals[i, PREFILL_S] += done[1]
    totals[i, DECODE_S] += done[2]
    totals[i, TOKENS] += had
    totals[i, WORK_S] += done_s

"""A season under three strategies: never retrain, label and retrain on everything, or what pays.

`run_season` is the loop: each day the boards answer and send, then the strategy may buy labels and
ask for a retraining; the next day begins with the deployed model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ecology.animals import BLANK
from ecology.captures import Captures
from ecology.drift import AccuracyAlert, PageHinkley
from ecology.edge import EdgeBoard
from ecology.facts import Facts
from ecology.labelling import Allowance, choose, doubt
from ecology.network import Model
from ecology.results import SeasonResult, WeekResult
from ecology.retraining import Retrainer, Wish
from ecology.scores import macro_f1
from ecology.stream import DAYS

__all__ = ["Always", "Field", "Never", "Selective", "Start", "Strategy", "run_season", "start_of"]

CERTAINLY_BLANK = 0.9  # a crop that is blank with this share is not sent
START_LABELS = 240
HELD_OUT = 0.25  # of labels: never trained on
HOUR_S = 3600.0
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Start:
    """Labels of the week before the season: to train on, and to compare models on."""

    taught: Rows
    held_out: Rows


def start_of(captures: Captures, random: np.random.Generator) -> Start:
    """Return labels for a few crops of the week before the season."""
    there = np.flatnonzero((captures.week == 0) & captures.kept)
    rows = random.choice(there, min(START_LABELS, len(there)), replace=False)
    cut = int(len(rows) * HELD_OUT)
    return Start(rows[cut:], rows[:cut])


@dataclass(slots=True)
class Field:
    """The cameras, the deployed model, and what is labelled. Strategies see this."""

    captures: Captures
    model: Model
    taught: list[int]
    held_out: list[int]
    random: np.random.Generator
    said: NDArray[np.str_]  # the answer at the edge, by frame
    today: Rows = field(default_factory=lambda: np.zeros(0, np.int64))  # kept crops done today

    @classmethod
    def begun(
        cls, captures: Captures, start: Start, model: Model, random: np.random.Generator
    ) -> Field:
        """Return the field before the first day."""
        said = np.full(len(captures), BLANK, dtype=captures.truth.dtype)
        return cls(captures, model, start.taught.tolist(), start.held_out.tolist(), random, said)

    def truth(self, rows: list[int]) -> NDArray[np.str_]:
        """Return what the expert says to crops."""
        return self.captures.truth[rows]

    def labels(self, rows: list[int]) -> tuple[NDArray[np.uint8], NDArray[np.str_]]:
        """Return crops with what the expert has said."""
        return self.captures.crops[rows], self.truth(rows)


class Strategy(Protocol):
    """Looks at each day's end, buys labels, and may wish for a retraining."""

    @property
    def name(self) -> str: ...

    def after_day(self, day: int, field: Field) -> tuple[list[int], Wish | None]:
        """Return the crops that the expert was asked about, and a wish for a retraining."""
        ...

    def deployed(self) -> None:
        """Take note that another model answers from now on."""
        ...


@dataclass(slots=True)
class Never:
    """The model of the start answers for ever."""

    name: str = "never retrain"

    def after_day(self, day: int, field: Field) -> tuple[list[int], Wish | None]:
        del day, field
        return [], None

    def deployed(self) -> None: ...


@dataclass(slots=True)
class Always:
    """An expert labels every crop that a detector keeps; each week all are trained on."""

    name: str = "label everything"
    held_out_share: float = 0.05

    def after_day(self, day: int, field: Field) -> tuple[list[int], Wish | None]:
        asked = field.today.tolist()
        apart = field.random.random(len(asked)) < self.held_out_share
        field.held_out += [row for row, out in zip(asked, apart, strict=True) if out]
        field.taught += [row for row, out in zip(asked, apart, strict=True) if not out]
        due = day % DAYS == DAYS - 1
        return asked, Wish(why="a week is over", deadline_s=24 * HOUR_S) if due else None

    def deployed(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class Selective:
    """Few labels while nothing changes; many, and a retraining, when the model is not enough."""

    name: str = "steward"
    allowance: Allowance = field(default_factory=lambda: Allowance(0.072))
    quiet_labels, busy_labels = 6, 45  # a day
    busy_days = 12  # after an alarm
    audit_share = 0.2  # of a day's labels are of any crop: to judge by
    fewest_new = 60  # labels before another training
    fewest_days = 3
    routine_days = 7
    drift: PageHinkley = field(default_factory=lambda: PageHinkley(allowed=0.05, threshold=10.0))
    accuracy: AccuracyAlert = field(default_factory=lambda: AccuracyAlert(least=0.85))
    alarms: list[tuple[int, str]] = field(default_factory=list)
    _busy_until: int = -1
    _urgent: bool = False  # an alarm after quiet days, and no training since
    _trained: int = 0  # day of the last training
    _new: int = 0  # labels since then
    _pool: list[int] = field(default_factory=list)  # crops of the last days, not labelled

    def after_day(self, day: int, field: Field) -> tuple[list[int], Wish | None]:
        self.allowance.arrive(len(field.today))
        self._pool = [row for row in self._pool if field.captures.day[row] > day - 3]
        self._pool += field.today.tolist()
        drifts = self._drifts(field)
        wanted = self.busy_labels if day <= self._busy_until else self.quiet_labels
        audited, picked = self._ask(field, wanted)
        wrong = self._judge(field, audited)
        reason = "the model doubts more" if drifts else "too many mistakes" if wrong else ""
        if reason:
            if day > self._busy_until:
                self.alarms.append((day, reason))
                self._urgent = True
            self._busy_until = day + self.busy_days
        return [*audited, *picked], self._wish(day, reason)

    def deployed(self) -> None:
        self.drift.restart()
        self.accuracy.restart()

    def _drifts(self, field: Field) -> bool:
        answers = field.model.ask(field.captures.crops[field.today])
        risen = [self.drift.update(each) for each in doubt(answers.shares).tolist()]
        return any(risen)

    def _ask(self, field: Field, wanted: int) -> tuple[list[int], list[int]]:
        """Have crops labelled: most of them chosen, and some of any kind to judge the model by."""
        count = min(self.allowance.take(wanted), len(self._pool))
        audit = field.random.permutation(field.today)[: round(count * self.audit_share)].tolist()
        rest = [row for row in self._pool if row not in set(audit)]
        answers = field.model.ask(field.captures.crops[rest])
        known = field.model.ask(field.captures.crops[field.taught]).features
        chosen = choose(answers.shares, answers.features, known, count - len(audit))
        picked = [rest[each] for each in chosen]
        field.held_out += audit
        field.taught += picked
        self._new += len(picked)
        self._pool = [row for row in rest if row not in set(picked)]
        return audit, picked

    def _judge(self, field: Field, audited: list[int]) -> bool:
        right = (field.said[audited] == field.truth(audited)).tolist()
        few = [self.accuracy.update(right=each) for each in right]
        return any(few)

    def _wish(self, day: int, reason: str) -> Wish | None:
        since = day - self._trained
        alarmed = bool(reason) and since >= self.fewest_days
        if not (alarmed or since >= self.routine_days) or self._new < self.fewest_new:
            return None
        deadline_s = (2 if self._urgent and alarmed else 24) * HOUR_S
        self._trained, self._new, self._urgent = day, 0, False
        return Wish(why=reason if alarmed else "a week and new labels", deadline_s=deadline_s)


def run_season(
    field: Field,
    facts: Facts,
    strategy: Strategy,
    retrainer: Retrainer,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> SeasonResult:
    """Run all days of a season and return what came of it."""
    captures, start_labels = field.captures, len(field.taught) + len(field.held_out)
    books = Books(captures, facts)
    for day, rows in captures.days():
        joules_left = books.run_day(day, rows, field)
        asked, wish = strategy.after_day(day, field)
        books.ask(day, asked)
        if wish is None or day == captures.day[-1]:  # nothing is left to answer
            continue
        before = field.model
        field.model = retrainer.retrain(
            before, wish, day=day, taught=field.labels(field.taught),
            held_out=field.labels(field.held_out), edge_joules_left=joules_left,
        )  # fmt: skip
        if field.model is not before:
            strategy.deployed()
        say(f"{strategy.name}: day {day}, {wish.why}: {_told(retrainer)}")
    return SeasonResult(
        strategy=strategy.name,
        weeks=books.weeks(field.said),
        retrainings=tuple(retrainer.done),
        start_labels=start_labels,
        crops=int((captures.kept & (captures.week > 0)).sum()),
        alarms=tuple(getattr(strategy, "alarms", ())),
    )


def _told(retrainer: Retrainer) -> str:
    if not retrainer.done:
        return "no place can do it in time"
    last = retrainer.done[-1]
    become = "deployed" if last.deployed else "not deployed"
    return f"{last.crops} crops, F1 {last.f1_before:.3f} -> {last.f1_after:.3f}, {become}"


class Books:
    """The boards, and accounts by week of what they sent and used."""

    def __init__(self, captures: Captures, facts: Facts) -> None:
        self._captures = captures
        self._joules_per_day = facts.device.joules_per_day
        self._boards = {site: EdgeBoard(facts.device) for site in np.unique(captures.site).tolist()}
        self._sent = np.zeros(len(captures), bool)
        self._fetched = np.zeros(len(captures), bool)
        count = int(captures.week.max()) + 1
        self._bytes, self._labels, self._waited = (np.zeros(count, np.int64) for _ in range(3))
        self._joules = np.zeros(count)

    def run_day(self, day: int, rows: Rows, field: Field) -> float:
        """Run all boards; return the least energy that one of them has left."""
        captures, week = self._captures, day // DAYS + 1
        done: list[Rows] = []
        left = self._joules_per_day
        for site, board in self._boards.items():
            mine = rows[captures.site[rows] == site]
            wanted = np.zeros(len(captures), bool)
            waiting_and_new = np.concatenate([board.waiting, mine])
            crops = waiting_and_new[captures.kept[waiting_and_new]]
            if len(crops):
                answers = field.model.ask(captures.crops[crops])
                field.said[crops] = answers.names
                wanted[crops] = answers.share_of(BLANK) < CERTAINLY_BLANK
            ran = board.run_day(mine, kept=captures.kept, wanted=wanted, sizes=captures.crop_bytes)
            self._sent[ran.sent] = True
            self._bytes[week] += ran.sent_bytes
            self._joules[week] += ran.joules
            self._waited[week] += ran.waiting
            left = min(left, self._joules_per_day - ran.joules)
            done.append(ran.done[captures.kept[ran.done]])
        field.today = np.concatenate(done)
        return left

    def ask(self, day: int, rows: list[int]) -> None:
        """Count labels; a crop that was not sent yet is fetched for its expert."""
        week = day // DAYS + 1
        self._labels[week] += len(rows)
        fetched = [row for row in rows if not self._sent[row] and not self._fetched[row]]
        self._fetched[fetched] = True
        self._bytes[week] += int(self._captures.crop_bytes[fetched].sum())

    def weeks(self, said: NDArray[np.str_]) -> tuple[WeekResult, ...]:
        """Return the accounts of all weeks of the season."""
        captures = self._captures
        found = []
        for week in range(1, len(self._bytes)):
            rows = captures.week == week
            truth, animal = captures.truth[rows], captures.truth[rows] != BLANK
            found.append(
                WeekResult(
                    week=week, f1=macro_f1(truth, said[rows]),
                    accuracy=float((truth == said[rows]).mean()),
                    recall=float(self._sent[rows][animal].mean()),
                    frames=int(rows.sum()), labels=int(self._labels[week]),
                    sent_bytes=int(self._bytes[week]),
                    frame_bytes=int(captures.frame_bytes[rows].sum()),
                    joules=float(self._joules[week]), waited=int(self._waited[week]),
                )
            )  # fmt: skip
        return tuple(found)

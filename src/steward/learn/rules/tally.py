"""Tally of rules: reads each value of the journal once, in bounded memory."""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, Self, TypeVar

from scipy.special import betaincinv

from steward.model.actions import Tell
from steward.model.decision import EFFECT_CHECK, Choice, Decision
from steward.model.finding import Finding, Opinion, Recurrence
from steward.model.outcome import Outcome
from steward.model.rules import RuleStats
from steward.model.yardstick import PUT_TO_WORK, RUN

__all__ = ["KEPT_SHARE", "KINDS", "RuleTally", "rule_stats"]

KINDS = ("finding", "recurrence", "opinion", "decision", "choice", "outcome")  # of the journal
HALF_LIFE_S = 90 * 86400.0  # half-life of judgements
BUCKET_S = 600.0
MOST_BUCKETS = 1008  # a week of ten minutes
MOST_JUDGED = 500  # per rule; older ones have decayed
REMEMBERED = 100_000  # findings and decisions whose rule is known
SAVED = 10_000  # the newest of these: what is older is seldom decided or judged any more
RETIRE_AFTER = 8  # judged findings before a rule can be retired
KEPT_SHARE = 0.25  # share of a promise that counts as met, as for the breaker

V = TypeVar("V")


def rule_stats(values: Iterable[object], *, now_s: float | None = None) -> tuple[RuleStats, ...]:
    """Return the statistics of each rule from journal values, oldest first, by id."""
    book = RuleTally()
    for value in values:
        book.add(value)
    return book.stats(now_s)


class RuleTally:
    """Running statistics of all rules. Its state is kept over restarts, as a `Learner`'s."""

    name = "rule-tally"
    state_version = 1

    def __init__(self) -> None:
        self.seq = 0  # entries of the journal up to this one were added
        self._accounts: dict[str, _Account] = {}
        self._rule_of: _Remembered[str] = _Remembered()  # by finding
        self._decided: _Remembered[_Decided] = _Remembered()
        self._newest_s = 0.0

    def add(self, value: object) -> bool:
        """Add one value; return whether it concerns a rule."""
        match value:
            case Finding():
                known = self._rule_of.add(value.id, value.rule)
                self._account(value.rule).fire(value.hits, value.t_s, new=not known)
            case Recurrence():
                self._account(value.rule).fire(value.hits, value.t_s)
            case Opinion():
                good = value.opinion == "confirm"
                self._account(value.rule).judge(f"o {value.finding}", value.t_s, good=good)
            case Decision():
                self._decide(value)
            case Choice() | Outcome():
                decided = self._decided.get(value.decision) or _Decided()
                for rule in decided.rules:
                    self._account(rule).add_outcome(value, decided)
            case _:
                return False
        self._newest_s = max(self._newest_s, value.t_s)
        return True

    def stats(self, now_s: float | None = None) -> tuple[RuleStats, ...]:
        """Return the statistics of all rules by id, decayed to `now_s`."""
        at_s = self._newest_s if now_s is None else now_s
        return tuple(self._accounts[rule].stats(at_s) for rule in sorted(self._accounts))

    def weights(self, now_s: float) -> dict[str, float]:
        """Return the weight of each rule."""
        return {rule: self._accounts[rule].weight(now_s) for rule in sorted(self._accounts)}

    def save_state(self) -> dict[str, Any]:
        """Return the state, most of it as one JSON text: that is written in a few milliseconds."""
        content = {
            "accounts": [each.save_state() for each in self._accounts.values()],
            "rule_of": self._rule_of.newest(SAVED),
            "decided": {
                id_: [each.rules, each.advises, each.in_gpu_time]
                for id_, each in self._decided.newest(SAVED).items()
            },
        }
        return {"seq": self.seq, "newest_s": self._newest_s, "content": json.dumps(content)}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state. Raise on one that does not fit; nothing is changed then."""
        content = json.loads(state["content"])
        accounts = [_Account.restored(each) for each in content["accounts"]]
        decided = {
            id_: _Decided(rules=tuple(rules), advises=advises, in_gpu_time=in_gpu_time)
            for id_, (rules, advises, in_gpu_time) in content["decided"].items()
        }
        seq, newest_s, rule_of = int(state["seq"]), float(state["newest_s"]), content["rule_of"]
        self._accounts = {each.rule: each for each in accounts}
        self._rule_of, self._decided = _Remembered(rule_of), _Remembered(decided)
        self.seq, self._newest_s = seq, newest_s

    def _account(self, rule: str) -> _Account:
        return self._accounts.setdefault(rule, _Account(rule=rule))

    def _decide(self, decision: Decision) -> None:
        named = dict.fromkeys(self._rule_of.get(each) for each in decision.findings)
        rules = tuple(rule for rule in named if rule is not None)
        decided = _Decided(
            rules=rules,
            advises=isinstance(decision.action, Tell),
            in_gpu_time=decision.action.yardstick in (PUT_TO_WORK, RUN),
        )
        if not self._decided.add(decision.id, decided):
            for rule in rules:
                self._account(rule).decisions += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """The part of a decision that its outcome needs."""

    rules: tuple[str, ...] = ()
    advises: bool = False  # advice without effect
    in_gpu_time: bool = False  # judged by GPU time, whatever its rule promised


class _Remembered(Generic[V]):
    """Table of the newest entries."""

    def __init__(self, known: Mapping[str, V] | None = None) -> None:
        self._known: OrderedDict[str, V] = OrderedDict(known or {})

    def add(self, key: str, value: V) -> bool:
        """Add an entry; return whether it existed."""
        known = key in self._known
        self._known[key] = value
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return known

    def get(self, key: str) -> V | None:
        return self._known.get(key)

    def newest(self, count: int) -> dict[str, V]:
        """Return the newest entries, oldest first."""
        return dict(islice(self._known.items(), max(0, len(self._known) - count), None))


@dataclass(slots=True, kw_only=True)
class _Account:
    """Counts of one rule. Judgements are kept by subject: a person may change an opinion."""

    rule: str
    fired: int = 0
    findings: int = 0
    decisions: int = 0
    unheeded: int = 0  # advice without a change: whether it was followed is unknown
    last_s: float | None = None
    buckets: deque[list[float]] = field(default_factory=lambda: deque(maxlen=MOST_BUCKETS))
    judged: OrderedDict[str, tuple[float, bool]] = field(default_factory=OrderedDict)

    def fire(self, hits: int, t_s: float, *, new: bool = False) -> None:
        self.fired += hits
        self.findings += new
        self.last_s = max(t_s, self.last_s if self.last_s is not None else t_s)
        begin_s = t_s // BUCKET_S * BUCKET_S
        if self.buckets and self.buckets[-1][0] >= begin_s:
            self.buckets[-1][1] += hits
        else:
            self.buckets.append([begin_s, hits])

    def add_outcome(self, value: Choice | Outcome, decided: _Decided) -> None:
        """Add the outcome of a decision of this rule."""
        if isinstance(value, Outcome):
            share = value.kept_share
            if share is None or (decided.in_gpu_time and value.effect is not None):
                return
            if decided.advises and share < KEPT_SHARE:
                self.unheeded += 1
            else:
                self.judge(f"e {value.decision}", value.t_s, good=share >= KEPT_SHARE)
        elif value.user != EFFECT_CHECK and value.choice in ("reject", "undo"):
            self.judge(f"{value.choice[0]} {value.decision}", value.t_s, good=False)

    def judge(self, key: str, t_s: float, *, good: bool) -> None:
        self.judged.pop(key, None)
        self.judged[key] = (t_s, good)
        while len(self.judged) > MOST_JUDGED:
            self.judged.popitem(last=False)

    def weight(self, now_s: float) -> float:
        good, bad = self._judged_as(now_s)
        return good / (good + bad)

    def _judged_as(self, now_s: float) -> tuple[float, float]:
        """Return how often it was right and wrong, older judgements faded."""
        good, bad = 1.0, 1.0  # uniform prior over weights
        for t_s, was_good in self.judged.values():
            part = 0.5 ** (max(0.0, now_s - t_s) / HALF_LIFE_S)
            good, bad = (good + part, bad) if was_good else (good, bad + part)
        return good, bad

    def stats(self, now_s: float) -> RuleStats:
        good, bad = self._judged_as(now_s)
        low, high = (float(betaincinv(good, bad, share)) for share in (0.1, 0.9))
        return RuleStats(
            rule=self.rule,
            fired=self.fired,
            findings=self.findings,
            confirmed=self._count("o", good=True),
            dismissed=self._count("o", good=False),
            decisions=self.decisions,
            refused=self._count("r", good=False),
            undone=self._count("u", good=False),
            met=self._count("e", good=True),
            missed=self._count("e", good=False) + self.unheeded,
            weight=good / (good + bad),
            low=low,
            high=high,
            judged=len(self.judged),
            retire=len(self.judged) >= RETIRE_AFTER and high < 0.5,
            last_s=self.last_s,
            history=tuple((begin_s, int(hits)) for begin_s, hits in self.buckets),
        )

    def save_state(self) -> dict[str, Any]:
        counts = [self.fired, self.findings, self.decisions, self.unheeded]
        return {
            "rule": self.rule,
            "counts": counts,
            "last_s": self.last_s,
            "buckets": list(self.buckets),
            "judged": self.judged,
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        fired, findings, decisions, unheeded = state["counts"]
        judged = ((key, (t_s, good)) for key, (t_s, good) in state["judged"].items())
        return cls(
            rule=state["rule"],
            fired=fired,
            findings=findings,
            decisions=decisions,
            unheeded=unheeded,
            last_s=state["last_s"],
            buckets=deque(state["buckets"], maxlen=MOST_BUCKETS),
            judged=OrderedDict(judged),
        )

    def _count(self, kind: str, *, good: bool) -> int:
        return sum(
            key.startswith(f"{kind} ") and was_good == good
            for key, (_, was_good) in self.judged.items()
        )

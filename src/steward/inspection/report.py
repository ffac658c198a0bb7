"""Report of a run: hits grouped by rule and entity, with their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from steward.errors import StewardError
from steward.model.frame import steps_of
from steward.model.rules import Hit, Item, Rule, RuleSeverity, syslog_host

__all__ = [
    "Diagnosis",
    "EvidenceItem",
    "HitCollector",
    "RunReport",
    "StreamReport",
    "evidence_item",
    "node_of",
]

NS_PER_S = 1e9
_PROOFS = 5  # hits whose items are kept: the first ones
_ITEMS = 20  # of one hit
_NO_NODE = ("job:", "pod:", "container:", "(")  # entities that are not below a node
_TEXT = 2000  # characters of an entry that are quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceItem:
    """One entry or series behind a finding. Times are seconds since 1970."""

    t: float
    text: str
    stream: str = ""
    line: int = 0
    entity: str = ""
    metric: str = ""
    since: float | None = None
    value: float | None = None
    extracted: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All hits of one rule on one entity."""

    rule: Rule
    entity: str
    first_t: float
    last_t: float
    hits: int
    evidence: tuple[EvidenceItem, ...]

    @property
    def node(self) -> str:
        """The node of its entity, or the one that its evidence names."""
        return node_of(self.entity, (each.text for each in self.evidence))

    @property
    def severity(self) -> RuleSeverity:
        """How bad it is."""
        return self.rule.severity


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReport:
    """How one stream was read."""

    stream: str
    source: str
    format: str
    lines: int
    bytes: int
    unparsed: int
    late: int = 0  # arrived after later ones had been emitted
    backwards: int = 0  # older than one before them
    undecodable: int = 0  # not UTF-8
    cut: int = 0  # too long
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Result of one run of rules. `counts` are dropped items by reason.

    `unreadable` has an error for each input that was not read at all.
    """

    rules: int
    lines: int
    bytes: int
    samples: int
    unparsed: int
    seconds: float
    findings: tuple[Diagnosis, ...]
    streams: tuple[StreamReport, ...] = ()
    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    notes: tuple[str, ...] = ()
    unreadable: tuple[StewardError, ...] = ()

    def at_least(self, severity: RuleSeverity) -> tuple[Diagnosis, ...]:
        """Return the findings of this severity or worse."""
        return tuple(each for each in self.findings if each.severity <= severity)


@dataclass(slots=True, kw_only=True)
class _Case:
    rule: Rule
    entity: str
    first_ns: int
    last_ns: int
    hits: int = 0
    proofs: list[EvidenceItem] = field(default_factory=list)


class HitCollector:
    """Group hits in bounded memory: counts are of all, evidence is of the first.

    Beyond `at_most` entities of one rule, further ones are counted together.
    """

    def __init__(self, rules: Iterable[Rule], *, at_most: int = 1000) -> None:
        self._rules = {rule.id: rule for rule in rules}
        self._cases: dict[tuple[str, str], _Case] = {}
        self._entities: dict[str, int] = {}
        self._at_most = at_most

    def add(self, hits: Iterable[Hit]) -> None:
        """Add hits in any order."""
        for hit in hits:
            first_ns, last_ns = _span(hit)
            case = self._case(hit, first_ns)
            case.hits += 1
            case.first_ns = min(case.first_ns, first_ns)
            case.last_ns = max(case.last_ns, last_ns)
            if case.hits <= _PROOFS:
                case.proofs += [evidence_item(item) for item in hit.items[:_ITEMS]]

    def findings(self) -> tuple[Diagnosis, ...]:
        """Return the findings, worst first, then by time."""
        found = [_diagnosis(case) for case in self._cases.values()]
        return tuple(sorted(found, key=lambda each: (each.severity, each.first_t, each.rule.id)))

    def _case(self, hit: Hit, first_ns: int) -> _Case:
        key = (hit.rule, hit.entity)
        case = self._cases.get(key)
        if case is not None:
            return case
        if self._entities.get(hit.rule, 0) >= self._at_most:
            key = (hit.rule, "(others)")
        else:
            self._entities[hit.rule] = self._entities.get(hit.rule, 0) + 1
        new = _Case(rule=self._rules[hit.rule], entity=key[1], first_ns=first_ns, last_ns=first_ns)
        return self._cases.setdefault(key, new)


def node_of(entity: str, texts: Iterable[str]) -> str:
    """Return the node of an entity; for a job, the one that the first line of syslog names."""
    if entity and not entity.startswith(_NO_NODE):
        return steps_of(entity)[0]
    hosts = (syslog_host(text.encode("utf-8", "replace")) for text in texts)
    return next((host for host in hosts if host), "")


def _span(hit: Hit) -> tuple[int, int]:
    times = [item.t_ns for item in hit.items] or [hit.t_ns]
    begins = [item.since_ns or item.t_ns for item in hit.items] or [hit.t_ns]
    return min(begins), max(times)


def evidence_item(item: Item) -> EvidenceItem:
    """Return an item as evidence, with its text cut."""
    return EvidenceItem(
        t=item.t_ns / NS_PER_S,
        text=item.text[:_TEXT],
        stream=item.stream,
        line=item.line,
        entity=item.entity,
        metric=item.metric,
        since=item.since_ns / NS_PER_S if item.since_ns else None,
        value=item.value if item.metric else None,
        extracted=item.extracted,
    )


def _diagnosis(case: _Case) -> Diagnosis:
    return Diagnosis(
        rule=case.rule,
        entity=case.entity,
        first_t=case.first_ns / NS_PER_S,
        last_t=case.last_ns / NS_PER_S,
        hits=case.hits,
        evidence=tuple(case.proofs),
    )

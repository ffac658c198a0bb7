"""Tests of rules on their own examples, and on those of all other rules.

A rule has to fire on its own logs and series and to stay silent on its near misses. On the
examples of other rules it should stay silent, too: those that fire there are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from steward.decide.rules.engine import RuleEngine
from steward.errors import StewardError
from steward.inspection.feeds import feed
from steward.inspection.folders import Collection, Example, RuleFolder
from steward.model.rules import Mode

__all__ = ["Failure", "TestReport", "run_examples"]

Run = Callable[[Example], Counter[str] | str]  # all rules over an example


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A rule that fails its examples."""

    rule: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TestReport:
    """Result of all example tests. `hits` are those of each rule on its own firing examples."""

    __test__ = False  # for pytest: this is no test

    rules: int
    fired: int
    silent_ok: int
    failed: tuple[Failure, ...]
    cross_rule_false_hits: int
    cross_rule: tuple[tuple[str, str, int], ...]  # rule, the example's rule, hits
    hits: dict[str, int]

    @property
    def passed(self) -> bool:
        """Whether every rule passed its examples."""
        return not self.failed


@dataclass(slots=True)
class _Tested:
    fired: bool
    silent: bool
    failures: list[Failure]
    hits: int
    others: Counter[str]


def run_examples(
    found: Collection,
    *,
    mode: Mode,
    proof_needed: bool,
    all_sources: bool = False,
    progress: Callable[[str], None] = lambda _what: None,
) -> TestReport:
    """Run all rules over the examples of each.

    In `strict` a log has the source that its rule names, so that rules of other sources do not look
    at it; with `all_sources`, and in `preq`, every rule looks at every line, as over `/var/log` or
    a pipe. With `proof_needed` a rule without a silent example fails.
    """
    named = mode is Mode.STRICT and not all_sources
    hits_on = partial(_hits, mode=mode, sources=named)
    engine = RuleEngine([each.rule for each in found.folders], mode=mode)
    tested: dict[str, _Tested] = {}
    for each in found.folders:
        progress(each.rule.id)
        run = partial(hits_on, folder=each, engine=engine)
        tested[each.rule.id] = _test(each, run, proof_needed=proof_needed)
    cross = [
        (other, rule, hits)
        for rule, result in tested.items()
        for other, hits in sorted(result.others.items())
    ]
    broken = [_failure(name, why) for name, why in found.broken]
    return TestReport(
        rules=len(found.folders) + len(broken),
        fired=sum(each.fired for each in tested.values()),
        silent_ok=sum(each.silent for each in tested.values()),
        failed=(*broken, *(failure for each in tested.values() for failure in each.failures)),
        cross_rule_false_hits=len(cross),
        cross_rule=tuple(cross),
        hits={rule: each.hits for rule, each in tested.items()},
    )


def _test(folder: RuleFolder, run: Run, *, proof_needed: bool) -> _Tested:
    rule = folder.rule.id
    result = _Tested(fired=False, silent=False, failures=[], hits=0, others=Counter())
    results = [(example, run(example)) for example in folder.firing]
    result.failures += [_failure(rule, each) for _, each in results if isinstance(each, str)]
    for example, hits in results:
        if isinstance(hits, str):
            continue
        result.hits += hits.pop(rule, 0) or _note(
            result.failures, rule, f"it does not fire on {example.name}"
        )
        result.others += hits
    if not folder.firing:
        _note(result.failures, rule, "there is no test.log or test.csv on which it must fire")
    result.fired = not result.failures
    unexpected = list(_unexpected_hits(folder, run))
    result.failures += [_failure(rule, why) for why in unexpected]
    result.silent = bool(folder.silent) and not unexpected
    if proof_needed and not folder.silent:
        _note(result.failures, rule, "it has no example on which it must stay silent (test-fp.log)")
    return result


def _unexpected_hits(folder: RuleFolder, run: Run) -> Iterator[str]:
    for example in folder.silent:
        hits = run(example)
        if isinstance(hits, str):
            yield hits
        elif hits[folder.rule.id]:
            yield f"it fires on {example.name}, where it must stay silent"


def _hits(
    example: Example, folder: RuleFolder, engine: RuleEngine, *, mode: Mode, sources: bool
) -> Counter[str] | str:
    """Return the hits of each rule, or what is wrong with the example."""
    try:
        feeds = example.feeds(folder.rule, sources=sources)
        hits = list(feed(engine.fresh(), feeds, mode=mode))
    except StewardError as fault:
        return f"{example.name} cannot be read: {fault}"
    return Counter(hit.rule for hit in hits)


def _failure(rule: str, why: str) -> Failure:
    return Failure(rule=rule, why=why)


def _note(failures: list[Failure], rule: str, why: str) -> int:
    failures.append(Failure(rule=rule, why=why))
    return 0

"""One case for fuzzers: bytes choose rules and streams; the engine agrees with slow matchers."""

from __future__ import annotations

import itertools
import random

from decide.rules.reference import FAR, Fired, Forbidden, Line, Preq, Wanted, strict
from decide.rules.tiny_rules import block_of, node_of, rule_of
from steward.decide.rules.engine import RuleEngine
from steward.model.rules import Mode

SUFFIXES = ()
_dice = random.Random(5)  # noqa: S311 - nothing here is secret
SEEDS = tuple(_dice.randbytes(size) for size in (20, 40, 60, 80, 120, 160) for _ in range(20))
PIECES = tuple(bytes([each]) for each in range(0, 256, 5))


class Choices:
    """Turns bytes into choices, one byte each; after their end it is always the first."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def below(self, count: int) -> int:
        return next(self._data, 0) % count


def one_case(data: bytes) -> None:
    """Run random rules over a random stream in random blocks."""
    choose = Choices(data)
    mode = Mode.STRICT if choose.below(2) else Mode.PREQ
    wanted = [_rule(choose) for _ in range(1 + choose.below(4))]
    cuts = [1 + choose.below(24) for _ in range(choose.below(4))]
    lines = _stream(choose, mode)
    found = _by_engine(wanted, lines, mode, cuts)
    for one, mine in zip(wanted, found, strict=True):
        expected = strict(one, lines) if mode is Mode.STRICT else Preq(one).run(lines)
        if mine != expected:
            raise AssertionError(f"{mode.value} {one} over {lines}: {mine} is not {expected}")


def _rule(choose: Choices) -> Wanted:
    ordered = bool(choose.below(2))
    terms = tuple("ABC"[choose.below(3)] for _ in range(1 + ordered + choose.below(3)))
    forbidden = tuple(
        Forbidden(
            term="NA"[choose.below(2)],
            window=choose.below(11) - 2,
            slide=choose.below(11) - 5,
            anchor=choose.below(len(terms)),
            absolute=bool(choose.below(2)),
        )
        for _ in range(choose.below(3))
    )
    window = choose.below(9) if len(terms) > 1 else 0
    return Wanted(ordered=ordered, terms=terms, window=window, forbidden=forbidden)


def _stream(choose: Choices, mode: Mode) -> list[Line]:
    late = 3 if mode is Mode.PREQ else 0  # the slow matcher of `strict` knows no late lines
    t, lines = 10, []
    for number in range(choose.below(24 if late else 12)):
        t += choose.below(5 + late) - late
        says = frozenset("ABCNxx"[choose.below(6)] for _ in range(2)) - {"x"}
        lines.append(Line(number, t, says))
    return lines


def _by_engine(
    wanted: list[Wanted], lines: list[Line], mode: Mode, cuts: list[int]
) -> list[list[Fired]]:
    found: dict[str, list[Fired]] = {f"R-{number}": [] for number in range(len(wanted))}
    rules = [rule_of(node_of(one), name) for one, name in zip(wanted, found, strict=True)]
    engine = RuleEngine(rules, mode=mode)
    edges = sorted({0, len(lines), *(cut for cut in cuts if cut < len(lines))})
    for first, end in itertools.pairwise(edges):
        for hit in engine.read(block_of(lines[first:end], first=first)):
            found[hit.rule].append((tuple(item.line for item in hit.items), hit.fired_ns))
    for hit in engine.finish():
        found[hit.rule].append((tuple(item.line for item in hit.items), FAR))
    return list(found.values())

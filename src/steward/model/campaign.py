"""A campaign: runs of one application, most of them scaled down, to learn what it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, product
from math import gcd, isfinite, prod

from steward.errors import StewardError, did_you_mean

__all__ = ["Campaign", "Configuration", "MeasuredRun", "Parameter", "Value", "filled"]

Value = int | float | str
Configuration = Mapping[str, Value]  # a value for each parameter

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter with its values at full scale, and with smaller ones if it scales the work."""

    name: str
    full: tuple[Value, ...]
    small: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        where = f"parameters.{self.name}"
        if not _PARAMETER.fullmatch(self.name):
            hint = "letters, digits and _, not beginning with a digit"
            raise StewardError(f"{self.name!r} cannot name a parameter", where=where, hint=hint)
        values = (*self.full, *self.small)
        if not self.full:
            raise StewardError("it has no values", where=where, hint="write full: [value, …]")
        texts = [each for each in values if isinstance(each, str)]
        if texts and len(texts) < len(values):
            problem = f"text and numbers are mixed: {', '.join(map(repr, values))}"
            raise StewardError(
                problem, where=where, hint="write numbers without quotes, or only text"
            )
        numbers = [each for each in values if not isinstance(each, str)]
        if not all(isfinite(each) for each in numbers):
            raise StewardError("a value is not finite", where=where, hint="write finite numbers")
        self._check_scales(where)

    def _check_scales(self, where: str) -> None:
        numbers = [each for each in self.full if not isinstance(each, str)]
        small = [each for each in self.small if not isinstance(each, str)]
        if self.small and not small:
            hint = "only numbers scale: move its values to full:, and leave small: out"
            raise StewardError("text has no smaller values", where=where, hint=hint)
        if small and max(small) > max(numbers):
            problem = f"small goes up to {max(small)}, full only to {max(numbers)}"
            hint = "small values are those of downsized runs: exchange the two"
            raise StewardError(problem, where=where, hint=hint)

    @property
    def scales(self) -> bool:
        """Whether downsized runs have other values of it."""
        return bool(set(self.small) - set(self.full))

    @property
    def is_text(self) -> bool:
        return isinstance(self.full[0], str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What may be run, how, and how much of it.

    `options` are those of `steward jobs submit`; they and `command` hold `{parameter}`. A run costs
    its seconds times its GPUs, or slots. `width` is the half width of the limits at full scale, as
    a share of the time, at which a campaign is over before its budget is.
    """

    name: str
    command: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    work: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    budget_s: float = 3600.0
    most_runs: int = 60
    most_full_runs: int = 5
    concurrency: int = 1
    width: float = 0.1

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            hint = "up to 40 lower-case letters, digits and -"
            raise StewardError(f"{self.name!r} cannot name a campaign", where="name", hint=hint)
        if not self.command:
            hint = "write command: ./program --size {size}"
            raise StewardError("there is nothing to run", where="command", hint=hint)
        self._check_amounts()
        names = [each.name for each in self.parameters]
        if not names:
            hint = "write parameters: with values for each"
            raise StewardError("there is no parameter", where="parameters", hint=hint)
        twice = sorted({each for each in names if names.count(each) > 1})
        if twice:
            raise StewardError(
                f"twice: {', '.join(twice)}", where="parameters", hint="name it once"
            )
        self._check_places(names)

    def _check_amounts(self) -> None:
        amounts = {
            "budget.cost_s": (self.budget_s, self.budget_s > 0.0 and isfinite(self.budget_s)),
            "budget.runs": (self.most_runs, self.most_runs >= 1),
            "budget.full_runs": (self.most_full_runs, self.most_full_runs >= 0),
            "concurrency": (self.concurrency, 1 <= self.concurrency <= 1000),
            "width": (self.width, 0.0 < self.width <= 1.0),
        }
        for where, (value, possible) in amounts.items():
            if not possible:
                raise StewardError(f"{value} is not possible", where=where, hint=_AMOUNTS[where])

    def _check_places(self, names: list[str]) -> None:
        texts = (*self.command, *self.options.values())
        used = {
            found[1] for text in texts for found in _PLACE.finditer(text) if found[1] is not None
        }
        unknown = sorted(used - {*names})
        if unknown:
            near = did_you_mean(unknown[0], names)
            hint = near or f"known: {', '.join(names)}; write {{{{ for a brace"
            raise StewardError(f"no parameter is called {unknown[0]!r}", where="command", hint=hint)
        idle = [each for each in names if each not in used]
        if idle:
            problem = f"the command does not use {', '.join(idle)}"
            hint = f"write {{{idle[0]}}} in the command or in resources"
            raise StewardError(problem, where="command", hint=hint)

    def argv(self, run: Configuration) -> tuple[str, ...]:
        return tuple(filled(each, run) for each in self.command)

    def options_of(self, run: Configuration) -> dict[str, str]:
        """Return the options of the submission of a run."""
        return {key: filled(each, run) for key, each in self.options.items()}

    def configurations(self, *, full: bool, most: int) -> list[dict[str, Value]]:
        """Return the configurations of one scale; of more than `most`, some, spread over all.

        Downsized is whatever has a smaller value of one parameter at least: cheap runs that are
        large in one way only teach how the work grows in it.
        """
        choices = [
            each.full
            if full or not each.scales
            else tuple(dict.fromkeys((*each.small, *each.full)))
            for each in self.parameters
        ]
        names = [each.name for each in self.parameters]
        total = prod(len(each) for each in choices)
        every = _spread(choices, total, most) if total > most else product(*choices)
        found = [dict(zip(names, each, strict=True)) for each in every]
        return [each for each in found if self.is_full(each) is full]

    def is_full(self, run: Configuration) -> bool:
        """Return whether a configuration is at full scale: no scaling value is a smaller one."""
        return all(run[each.name] in each.full for each in self.parameters if each.scales)

    @property
    def scales(self) -> bool:
        """Whether there is anything to scale down."""
        return any(each.scales for each in self.parameters)

    def cost(self, run: Configuration, seconds: float) -> float:
        """Return what a run of so many seconds costs: GPUs, or slots, times seconds."""
        options = self.options_of(run)
        counts = [options[key] for key in ("gpus", "slots", "cpus-per-task") if key in options]
        return seconds * max(1.0, _number(counts[0]) if counts else 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A run that is over. One that did not finish is censored: it needs `seconds` at least."""

    configuration: Configuration
    full: bool
    seconds: float
    finished: bool = True
    memory_bytes: float | None = None
    gpu_memory_bytes: float | None = None
    why: str = ""  # it did not finish

    def __post_init__(self) -> None:
        if not (isfinite(self.seconds) and self.seconds >= 0.0):
            problem = f"a run took {self.seconds} s"
            raise StewardError(problem, where=str(dict(self.configuration)), hint="0 or more")


def filled(text: str, run: Configuration) -> str:
    """Return a text with the values of a configuration in its places.

    >>> filled("--size={n} {{x}}", {"n": 64})
    '--size=64 {x}'
    """

    def put(found: re.Match[str]) -> str:
        return found[0][0] if found[1] is None else str(run[found[1]])

    return _PLACE.sub(put, text)


def _spread(choices: list[tuple[Value, ...]], total: int, most: int) -> Iterator[tuple[Value, ...]]:
    """Return some of a product, spread evenly: steps of a golden ratio that meet every value."""
    step = max(1, round(total * 0.6180339887))
    while gcd(step, total) > 1:
        step += 1
    for number in islice((i * step % total for i in range(total)), most):
        rest, row = number, []
        for each in choices:
            rest, at = divmod(rest, len(each))
            row.append(each[at])
        yield tuple(row)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


_AMOUNTS = {
    "budget.cost_s": "seconds of GPUs or slots, more than 0",
    "budget.runs": "1 or more",
    "budget.full_runs": "0 or more",
    "concurrency": "1 to 1000",
    "width": "a share of the time, more than 0 and at most 1, as 0.1",
}

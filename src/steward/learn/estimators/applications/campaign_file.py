"""Reads a campaign that a person wrote: one YAML file, checked whole."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from steward.errors import StewardError, did_you_mean
from steward.learn.estimators.applications.work import WorkTerm
from steward.model.campaign import Campaign, Parameter, Value

__all__ = ["OPTIONS", "campaign_of", "read_campaign"]

KEYS = ("name", "command", "parameters", "work", "resources", "budget", "concurrency", "width")
OPTIONS = (
    "gpus", "slots", "cpus-per-task", "mem", "gpu-memory", "time", "partition", "account", "qos",
    "nodes", "ntasks", "image", "priority", "nice", "chdir", "export",
)  # fmt: skip
_BUDGET = ("cost_s", "runs", "full_runs")
_RANGE = ("from", "to", "count", "log")
_EXPONENT = re.compile(r"[+-]?\d+e[+-]?\d+", re.IGNORECASE)  # YAML 1.1 takes 1e-3 for text
MOST_VALUES = 1000
MOST_BYTES = 1 << 20


def read_campaign(file: Path) -> Campaign:
    """Return the campaign of a file, or raise all that is wrong with it."""
    import yaml  # noqa: PLC0415 - heavy

    hint = "docs/estimate_campaigns.md has an example"
    try:
        if file.stat().st_size > MOST_BYTES:
            raise StewardError("it is larger than 1 MiB", where=str(file), hint=hint)
        said = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as fault:
        problem = f"it cannot be read: {fault.strerror or fault}"
        raise StewardError(problem, where=str(file), hint="name a campaign file") from fault
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as fault:
        problem = f"it is no YAML: {' '.join(str(fault).split())[:200]}"
        raise StewardError(problem, where=str(file), hint=hint) from fault
    if not isinstance(said, dict):
        raise StewardError("it is no mapping", where=str(file), hint=hint)
    return campaign_of(said, where=str(file))


def campaign_of(said: Mapping[str, Any], *, where: str) -> Campaign:
    """Return the campaign of a mapping, or raise all that is wrong with it."""
    faults: list[StewardError] = [*_unknown(said, KEYS, "")]
    given: dict[str, Any] = {}
    parts: dict[str, Callable[[], Any]] = {
        "name": lambda: _text(said.get("name"), "name"),
        "command": lambda: _command(said.get("command")),
        "parameters": lambda: _parameters(said.get("parameters")),
        "work": lambda: _work(said.get("work", [])),
        "options": lambda: _options(said.get("resources", {})),
        "budget": lambda: _budget(said.get("budget", {})),
        "concurrency": lambda: _whole(said.get("concurrency", 1), "concurrency"),
        "width": lambda: _number(said.get("width", 0.1), "width"),
    }
    for key, read in parts.items():
        try:
            given[key] = read()
        except StewardError as fault:
            faults.append(fault)
    if not faults:
        try:
            made = Campaign(**{k: x for k, x in given.items() if k != "budget"}, **given["budget"])
            numeric = [each.name for each in made.parameters if not each.is_text]
            for term in made.work:
                WorkTerm(term, numeric)
        except StewardError as fault:
            faults.append(fault)
        else:
            return made
    problem = "; ".join(str(each) for each in faults)
    raise StewardError(problem, where=where, hint=faults[0].hint)


def _unknown(said: Mapping[str, Any], known: tuple[str, ...], where: str) -> Iterator[StewardError]:
    for key in said:
        if key not in known:
            hint = did_you_mean(str(key), known) or f"known: {', '.join(known)}"
            yield StewardError(f"there is no key {key!r}", where=where, hint=hint)


def _refuse_unknown(said: object, known: tuple[str, ...], where: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        hint = f"write {known[0]}: … below it"
        raise StewardError(f"{said!r} is no mapping", where=where, hint=hint)
    for fault in _unknown(said, known, where):
        raise fault
    return said


def _text(said: object, where: str) -> str:
    if not isinstance(said, str) or not said:
        raise StewardError("a text is needed", where=where, hint=f"write {where}: my-application")
    return said


def _number(said: object, where: str) -> float:
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise StewardError(f"{said!r} is no number", where=where, hint=f"write {where}: 10")
    return float(said)


def _whole(said: object, where: str) -> int:
    number = _number(said, where)
    if not number.is_integer():
        raise StewardError(f"{said!r} is no whole number", where=where, hint=f"write {where}: 4")
    return int(number)


def _command(said: object) -> tuple[str, ...]:
    hint = "write command: ./program --size {size}"
    if isinstance(said, list) and all(isinstance(each, str | int | float) for each in said):
        return tuple(str(each) for each in said)
    if not isinstance(said, str):
        raise StewardError("a command is needed", where="command", hint=hint)
    try:
        return tuple(shlex.split(said))
    except ValueError as fault:
        raise StewardError(f"it cannot be read: {fault}", where="command", hint=hint) from fault


def _work(said: object) -> tuple[str, ...]:
    terms = [said] if isinstance(said, str) else said
    if not isinstance(terms, list) or not all(isinstance(each, str) for each in terms):
        hint = "write work: ['size**2 * steps', 'steps']"
        raise StewardError(f"{said!r} is no list of terms", where="work", hint=hint)
    return tuple(terms)


def _options(said: object) -> dict[str, str]:
    options = _refuse_unknown(said, OPTIONS, "resources")
    for key, value in options.items():
        if not isinstance(value, str | int | float):
            hint = f"write {key}: and a number or a text"
            raise StewardError(f"{value!r} is no value", where=f"resources.{key}", hint=hint)
    return {key: str(value) for key, value in options.items()}


def _budget(said: object) -> dict[str, Any]:
    budget = _refuse_unknown(said, _BUDGET, "budget")
    found: dict[str, Any] = {}
    if "cost_s" in budget:
        found["budget_s"] = _number(budget["cost_s"], "budget.cost_s")
    if "runs" in budget:
        found["most_runs"] = _whole(budget["runs"], "budget.runs")
    if "full_runs" in budget:
        found["most_full_runs"] = _whole(budget["full_runs"], "budget.full_runs")
    return found


def _parameters(said: object) -> tuple[Parameter, ...]:
    if not isinstance(said, dict) or not said:
        hint = "write parameters: {size: {full: 512, small: [32, 64, 128]}}"
        raise StewardError("parameters are needed", where="parameters", hint=hint)
    found, faults = [], []
    for name, values in said.items():
        try:
            found.append(_parameter(str(name), values))
        except StewardError as fault:
            faults.append(fault)
    if faults:
        raise StewardError("; ".join(map(str, faults)), hint=faults[0].hint)
    return tuple(found)


def _parameter(name: str, said: object) -> Parameter:
    where = f"parameters.{name}"
    if isinstance(said, dict) and not {*said} & {*_RANGE}:
        parts = _refuse_unknown(said, ("full", "small"), where)
        full = _values(parts.get("full", []), f"{where}.full")
        small = _values(parts.get("small", []), f"{where}.small")
        return Parameter(name=name, full=full, small=small)
    return Parameter(name=name, full=_values(said, where))


def _values(said: object, where: str) -> tuple[Value, ...]:
    if isinstance(said, dict):
        return _range(said, where)
    every = said if isinstance(said, list) else [said]
    if len(every) > MOST_VALUES:
        raise StewardError(f"{len(every)} values are too many", where=where, hint="1000 at most")
    return tuple(dict.fromkeys(_value(each, where) for each in every))


def _value(said: object, where: str) -> Value:
    if isinstance(said, bool):
        return str(said).lower()
    if isinstance(said, str) and _EXPONENT.fullmatch(said):
        return float(said)
    if isinstance(said, str | int | float):
        return said
    raise StewardError(f"{said!r} is no value", where=where, hint="write numbers or texts")


def _range(said: dict[str, Any], where: str) -> tuple[Value, ...]:
    parts = _refuse_unknown(said, _RANGE, where)
    missing = [key for key in ("from", "to") if key not in parts]
    if missing:
        raise StewardError(f"{missing[0]} is missing", where=where, hint="{from: 16, to: 128}")
    low, high = (_value(parts[key], f"{where}.{key}") for key in ("from", "to"))
    if isinstance(low, str) or isinstance(high, str):
        raise StewardError(
            "text is no range", where=where, hint="write numbers, or a list of texts"
        )
    count, log = _whole(parts.get("count", 5), f"{where}.count"), bool(parts.get("log", low > 0))
    if low > high:
        problem = f"it goes from {low} to {high}, which is less"
        raise StewardError(problem, where=where, hint="exchange from and to")
    if not 1 <= count <= MOST_VALUES or (log and low <= 0):
        problem = "count is 1 to 1000, and a logarithmic range is above 0"
        raise StewardError(problem, where=where, hint="write log: false for ranges from 0")
    whole = isinstance(low, int) and isinstance(high, int)
    space = np.geomspace if log else np.linspace
    found = [float(each) for each in space(low, high, count)]
    return tuple(dict.fromkeys(round(each) if whole else float(f"{each:.6g}") for each in found))

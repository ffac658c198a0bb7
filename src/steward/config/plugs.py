"""Which plugs there are, what options they take, and what is wrong with those that were chosen."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from steward.act.actuators import ACTUATORS
from steward.config.locate import KeyPath
from steward.config.mistakes import Mistake, Wrong, dotted, shown
from steward.config.read import Draft
from steward.config.settings import Settings
from steward.decide.energy import POLICIES as ENERGY
from steward.decide.health import POLICIES as HEALTH
from steward.decide.rules import DETECTORS
from steward.decide.scheduling import POLICIES as SCHEDULING
from steward.decide.treating import TREATING
from steward.errors import StewardError, did_you_mean
from steward.learn.estimators import ESTIMATORS
from steward.learn.patterns import MINERS
from steward.model.view import ClusterView
from steward.observe.collectors import COLLECTORS
from steward.ports import Policy
from steward.registry import known, resolve

__all__ = [
    "KINDS",
    "POLICIES",
    "Option",
    "PlugKind",
    "chosen",
    "options_of",
    "own_options",
    "plug_mistakes",
    "schedulers",
    "wrong_plugs",
]

POLICIES: Mapping[str, type[Policy[ClusterView]]] = {
    **SCHEDULING,
    **TREATING,
    **HEALTH,
    **ENERGY,
}
_START_NOTHING = (
    "ask-for-what-is-used",
    "give-back",
    "grow-into-idle",
    "lend-idle",
    "pack-light",
    "raise-late",
    "release-unused",
    "save-before-limit",
    "separate-slowed",
)
_OURS = ("name", "vocabulary")  # every plug has them; they are not for a site to set
_TYPE_NAMES = {
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "str": "text in quotes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlugKind:
    """One kind of plug: its port in lower case, the key that chooses it, and its table."""

    kind: str
    key: KeyPath
    table: Mapping[str, Callable[..., Any]]

    def names(self) -> tuple[str, ...]:
        """Return all plugs of this kind, built in or installed."""
        return known(self.kind, self.table)

    def make(self, name: str) -> Callable[..., Any]:
        """Return what makes a plug of this kind."""
        return resolve(self.kind, name, self.table)


KINDS: tuple[PlugKind, ...] = (
    PlugKind(kind="collector", key=("observe", "collectors"), table=COLLECTORS),
    PlugKind(kind="miner", key=("learn", "miners"), table=MINERS),
    PlugKind(kind="estimator", key=("learn", "estimators"), table=ESTIMATORS),
    PlugKind(kind="detector", key=("decide", "detectors"), table=DETECTORS),
    PlugKind(kind="policy", key=("decide", "policies"), table=POLICIES),
    PlugKind(kind="actuator", key=("act", "actuator"), table=ACTUATORS),
)


def schedulers() -> tuple[str, ...]:
    """Return the policies that decide which jobs start and stop; installed ones count as such."""
    installed = (name for name in known("policy", POLICIES) if name not in POLICIES)
    return (*(name for name in SCHEDULING if name not in _START_NOTHING), *installed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One keyword of a plug that `[plugs.NAME]` can set."""

    name: str
    type: str
    default: object
    check: TypeAdapter[Any]


def options_of(make: Callable[..., Any]) -> dict[str, Option]:
    """Return the options of a plug: those keywords whose type can be written in TOML."""
    found = {}
    for parameter in _parameters(make):
        adapter = _adapter(parameter)
        if adapter is not None:
            kind = inspect.formatannotation(parameter.annotation)
            found[parameter.name] = Option(
                name=parameter.name,
                type=_TYPE_NAMES.get(kind, kind),
                default=parameter.default,
                check=adapter,
            )
    return found


def chosen(settings: Settings) -> Iterator[tuple[PlugKind, KeyPath, str]]:
    """Return each plug that the settings name, with the place of its name."""
    for kind in KINDS:
        section, key = kind.key
        value = getattr(getattr(settings, str(section)), str(key))
        if isinstance(value, str):
            yield kind, kind.key, value
        else:
            yield from ((kind, (*kind.key, i), name) for i, name in enumerate(value))


def wrong_plugs(settings: Settings) -> tuple[Wrong, ...]:
    """Yield plugs that do not exist, and options that they do not have or do not accept."""
    names = [_wrong_name(kind, path, name) for kind, path, name in chosen(settings)]
    options = [
        wrong for name, given in settings.plugs.items() for wrong in _wrong_options(name, given)
    ]
    return (*(wrong for wrong in names if wrong), *options)


def plug_mistakes(draft: Draft) -> tuple[Mistake, ...]:
    """Return the mistakes of plugs of a file and of its sites; what they inherit comes once."""
    drafts = (draft, *(draft.of_site(name) for name in draft.settings.sites))
    found = [each.mistake(wrong) for each in drafts for wrong in wrong_plugs(each.settings)]
    return tuple(dict.fromkeys(found))


def _wrong_name(kind: PlugKind, path: KeyPath, name: str) -> Wrong | None:
    names = kind.names()
    if name in names:
        return None
    problem = f"there is no {kind.kind} called '{name}'; known: {', '.join(names) or 'none'}"
    return Wrong(path=path, problem=problem, hint=did_you_mean(name, names) or _elsewhere(name))


def _elsewhere(name: str) -> str:
    other = next((kind for kind in KINDS if name in kind.names()), None)
    return f"'{name}' is a plug of {dotted(other.key)}" if other else ""


def own_options(kind: str, name: str, given: Mapping[str, object]) -> dict[str, object]:
    """Return the given options without those of a plug of the same name and another kind.

    A collector and an actuator of one name, such as `slurm`, share `[plugs.NAME]`.
    """
    if not given:
        return {}
    makes = {each.kind: each.make(name) for each in KINDS if name in each.names()}
    own = options_of(makes.pop(kind)) if kind in makes else {}
    others = {key for make in makes.values() for key in options_of(make)}
    return {key: value for key, value in given.items() if key in own or key not in others}


def _wrong_options(name: str, given: Mapping[str, object]) -> Iterator[Wrong]:
    path: KeyPath = ("plugs", name)
    homes = [kind for kind in KINDS if name in kind.names()]
    if not homes:
        every = sorted({each for kind in KINDS for each in kind.names()})
        problem = f"there is no plug called '{name}'; known: {', '.join(every)}"
        yield Wrong(path=path, problem=problem, hint=did_you_mean(name, every), at_key=True)
        return
    try:
        makes = {home.kind: home.make(name) for home in homes}
    except StewardError as fault:
        yield Wrong(path=path, problem=str(fault), hint=fault.hint)
        return
    options = {key: each for make in makes.values() for key, each in options_of(make).items()}
    wrong = [each for key in given for each in _wrong_option(options, (*path, key), given[key])]
    yield from wrong or (
        each
        for kind, make in makes.items()
        for each in _wrong_together(make, path, own_options(kind, name, given))
    )


def _wrong_option(options: Mapping[str, Option], path: KeyPath, value: object) -> Iterator[Wrong]:
    key = str(path[-1])
    if key not in options:
        possible = f"possible: {', '.join(options)}" if options else "it has none"
        problem = f"'{path[-2]}' has no option '{key}'; {possible}"
        yield Wrong(path=path, problem=problem, hint=did_you_mean(key, options), at_key=True)
        return
    try:
        # Strict JSON is as strict as TOML: a list may become a tuple, text never a number.
        options[key].check.validate_json(json.dumps(value, default=str), strict=True)
    except ValidationError:
        problem = f"{dotted(path)} is {shown(path, value)}, not {options[key].type}"
        yield Wrong(path=path, problem=problem)


def _wrong_together(
    make: Callable[..., Any], path: KeyPath, given: Mapping[str, object]
) -> Iterator[Wrong]:
    """Make the plug once: it may check its options beyond their types."""
    try:
        make(**given)
    except StewardError as fault:
        yield Wrong(path=path, problem=f"{dotted(path)}: {fault}", hint=fault.hint)
    except (TypeError, ValueError) as fault:
        yield Wrong(path=path, problem=f"{dotted(path)} is refused: {fault}")


def _parameters(make: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    try:
        return inspect.signature(make, eval_str=True).parameters.values()
    except NameError:  # a plug from outside whose types exist for its type checker alone
        return inspect.signature(make).parameters.values()


def _adapter(parameter: inspect.Parameter) -> TypeAdapter[Any] | None:
    variable = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    if parameter.name in _OURS or variable:
        return None
    annotation = parameter.annotation
    kind: Any = Any if isinstance(annotation, str) or annotation is parameter.empty else annotation
    try:
        return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))
    except PydanticSchemaGenerationError:
        return None  # a client or a clock: given by tests, not by files

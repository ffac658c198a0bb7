"""Finds the configuration file, reads it with the environment, and reports all its mistakes.

A later source wins: defaults, then the file, then the environment.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from steward.config.environment import Override, misspelt, overrides_in
from steward.config.locate import KeyPath, Place, nearest, places_of
from steward.config.mistakes import Mistake, SettingsError, Wrong, dotted, path_of, wrong_of
from steward.config.settings import Settings
from steward.config.shown_gateways import wrong_gateways
from steward.config.sites import SITES, own_paths, site_raw, wrong_sites
from steward.errors import StewardError, unknown_name

__all__ = ["Draft", "draft_settings", "find_file", "read_settings"]

FILE_NAME = "steward.toml"
_NAMED = (
    "tenants",
    "forward",
    "messages",
    "upstreams",
    "deadline_classes",
    "instances",
    SITES,
)  # sections with a table for each name
_SYNTAX = re.compile(r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|.*)\)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What could be read, and what is wrong with the rest (where defaults stand in)."""

    settings: Settings
    file: Path | None
    mistakes: tuple[Mistake, ...] = ()
    places: Mapping[KeyPath, Place] = field(default_factory=dict)
    variables: Mapping[KeyPath, str] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)  # file and environment, as they came

    def of_site(self, name: str) -> Draft:
        """Return the draft of one of the sites, as if it had a file of its own."""
        known = self.settings.sites
        if not known:
            hint = "give it one: [sites.NAME.SECTION], as [sites.a.plugs.slurm]"
            raise StewardError("the configuration has no sites", where="--site", hint=hint)
        if name not in known:
            raise unknown_name("site", name, known, where="--site")
        settings, _ = _validated(site_raw(self.raw, name, folder=self.settings.store.path))
        own = (SITES, name)
        return replace(
            self,
            settings=settings,
            places=_without_prefix(self.places, own),
            variables=_without_prefix(self.variables, own),
        )

    def mistake(self, wrong: Wrong) -> Mistake:
        """Return the mistake with the place where its key was set."""
        key = dotted(wrong.path)
        variable = self.variable(wrong.path)
        place = nearest(self.places, wrong.path)
        if variable or place is None:
            where = f"environment variable {variable}" if variable else self.where
            return Mistake(key=key, where=where, problem=wrong.problem, hint=wrong.hint)
        exact = wrong.path in self.places and not wrong.at_key
        column = place.value_column if exact else place.column
        return Mistake(
            key=key,
            where=f"{self.file}:{place.line}:{column}",
            problem=wrong.problem,
            hint=wrong.hint,
            line=place.line,
            column=column,
        )

    def origin(self, path: KeyPath) -> str:
        """Return where a value comes from: `default`, `FILE:LINE` or the variable."""
        variable = self.variable(path)
        if variable:
            return f"environment {variable}"
        place = self.places.get(path)
        return "default" if place is None else f"{self.file}:{place.line}"

    def variable(self, path: KeyPath) -> str:
        """Return the environment variable that set a key or something in it, or nothing."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.variables:
                return self.variables[path[:end]]
        if path in self.places:
            return ""
        inside = (name for key, name in self.variables.items() if key[: len(path)] == path)
        return next(inside, "")

    @property
    def where(self) -> str:
        """Name the source as a whole."""
        return str(self.file) if self.file is not None else "environment"

    def settled(self) -> Settings:
        """Return the settings, or raise with all mistakes."""
        if self.mistakes:
            raise SettingsError(self.mistakes, where=self.where)
        return self.settings


def read_settings(file: Path | None, environment: Mapping[str, str]) -> Settings:
    """Return what one file (None: defaults) and the environment set, or raise all mistakes."""
    return draft_settings(file, environment).settled()


def find_file(
    given: Path | None,
    environment: Mapping[str, str],
    *,
    folder: Path | None = None,
) -> Path | None:
    """Return the file to read: the one given, $STEWARD_CONFIG, ./steward.toml, the user's own."""
    if given is not None:
        return given
    if environment.get("STEWARD_CONFIG"):
        return Path(environment["STEWARD_CONFIG"])
    home = environment.get("XDG_CONFIG_HOME") or f"{environment.get('HOME', '')}/.config"
    here = (folder or Path()) / FILE_NAME
    own = Path(home) / "steward" / FILE_NAME
    return next((each for each in (here, own) if each.exists()), None)


def draft_settings(file: Path | None, environment: Mapping[str, str]) -> Draft:
    """Read what can be read and collect what is wrong. Raises only when the file is not TOML."""
    text = _text(file) if file is not None else ""
    raw = _parsed(text, file)
    named = {key: raw[key] for key in _NAMED if isinstance(raw.get(key), dict)}
    overrides = overrides_in(environment, named)
    for override in overrides:
        _put(raw, override)
    source = Draft(
        settings=Settings(),
        file=file,
        places=places_of(text),
        variables={each.path: each.variable for each in overrides},
        raw=raw,
    )
    settings, wrong = _validated(raw)
    wrong = (*wrong, *_crossed(settings, source, wrong), *_wrong_in_sites(raw, settings))
    mistakes = sorted((source.mistake(each) for each in wrong), key=_by_place)
    return replace(source, settings=settings, mistakes=(*mistakes, *misspelt(environment)))


# -- the file ----------------------------------------------------------------------------------


def _text(file: Path) -> str:
    hint = "give another file with --config, or leave it out for the defaults"
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise StewardError("this is a device or a pipe, not a file", where=str(file), hint=hint)
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise StewardError("there is no such file", where=str(file), hint=hint) from None
    except IsADirectoryError:
        hint = f"name the file in it, e.g. {file / FILE_NAME}"
        raise StewardError("this is a folder, not a file", where=str(file), hint=hint) from None
    except UnicodeDecodeError as fault:
        line = fault.object[: fault.start].count(b"\n") + 1
        raise StewardError(
            f"byte 0x{fault.object[fault.start]:02x} is not UTF-8",
            where=f"{file}:{line}",
            hint="save the file as UTF-8",
        ) from None
    except OSError as fault:
        problem = f"it cannot be read: {fault.strerror or fault}"
        raise StewardError(problem, where=str(file), hint="check its permissions") from None


def _parsed(text: str, file: Path | None) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise _syntax_error(str(fault), text, file) from None
    except RecursionError:
        problem = "arrays or tables are nested too deeply"
        raise StewardError(problem, where=str(file), hint="sections are two levels deep") from None


def _syntax_error(message: str, text: str, file: Path | None) -> StewardError:
    found = _SYNTAX.match(message)
    what = found["what"] if found else message
    lines = text.rstrip("\n").split("\n")
    line = int(found["line"]) if found and found["line"] else len(lines)
    column = int(found["column"]) if found and found["column"] else len(lines[-1]) + 1
    there = lines[line - 1] if line <= len(lines) else ""
    return StewardError(
        f"this is not TOML: {what}\n  {there.expandtabs(1)}\n  {' ' * (column - 1)}^",
        where=f"{file}:{line}:{column}",
        hint='a line is `key = value`; text stands in "quotes", a section in [brackets]',
    )


def _put(raw: dict[str, Any], override: Override) -> None:
    table: Any = raw
    for part in override.path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            return  # the file has a value where a table belongs: that mistake is reported
    table[override.path[-1]] = override.value


# -- the values --------------------------------------------------------------------------------


def _validated(raw: dict[str, Any]) -> tuple[Settings, tuple[Wrong, ...]]:
    """Return the settings with defaults in place of what is wrong, and what is wrong."""
    try:
        return Settings.model_validate(raw), ()
    except ValidationError as fault:
        errors = fault.errors(include_url=False)
    rest = copy.deepcopy(raw)
    for error in errors:
        _drop(rest, path_of(error))
    try:
        settings = Settings.model_validate(rest)
    except ValidationError:  # what is left does not stand by itself
        settings = Settings()
    return settings, tuple(wrong_of(error) for error in errors)


def _wrong_in_sites(raw: dict[str, Any], settings: Settings) -> Iterable[Wrong]:
    """Yield what is wrong with sites; what they inherit is reported where it stands."""
    wrong = wrong_sites(raw)
    yield from wrong
    bad = {each.path[1] for each in wrong}
    for name in settings.sites.keys() - bad:
        _, inside = _validated(site_raw(raw, name, folder=settings.store.path))
        own = own_paths(raw[SITES][name])
        for each in inside:
            if each.path in own:
                yield replace(each, path=(SITES, name, *each.path))


V = TypeVar("V")


def _without_prefix(found: Mapping[KeyPath, V], prefix: KeyPath) -> dict[KeyPath, V]:
    """Return what stands below a prefix at its own path, and all else where it is."""
    size = len(prefix)
    own = {path[size:]: each for path, each in found.items() if path[:size] == prefix}
    return {**found, **{path: each for path, each in own.items() if path}}


def _drop(raw: dict[str, Any], path: KeyPath) -> None:
    table: Any = raw
    for depth, part in enumerate(path):
        inside = table.get(part) if isinstance(table, dict) else None
        if depth == len(path) - 1 or not isinstance(inside, dict):
            if isinstance(table, dict):
                table.pop(part, None)
            return
        table = inside


def _crossed(settings: Settings, source: Draft, wrong: tuple[Wrong, ...]) -> tuple[Wrong, ...]:
    """Yield conflicts between keys that are each valid by themselves."""
    known = {each.path for each in wrong}
    receivers = (each for each in _wrong_receivers(settings) if each.path not in known)
    gateways = (each for each in wrong_gateways(settings.serving) if each.path not in known)
    messages = (each for each in _wrong_messages(settings) if each.path not in known)
    return (*_stale(settings, source, wrong), *receivers, *messages, *gateways)


def _wrong_receivers(settings: Settings) -> Iterable[Wrong]:
    if not settings.forward:
        return ()
    from steward.config.forward import wrong_receivers  # noqa: PLC0415 - it reads all metrics

    return wrong_receivers(settings)


def _wrong_messages(settings: Settings) -> Iterable[Wrong]:
    if not settings.messages:
        return ()
    from steward.config.messages import wrong_messages  # noqa: PLC0415 - few sites have any

    return wrong_messages(settings)


def _stale(settings: Settings, source: Draft, wrong: tuple[Wrong, ...]) -> tuple[Wrong, ...]:
    stale, every = ("observe", "stale_after_s"), ("loop", "every_s")
    stale_s, every_s = settings.observe.stale_after_s, settings.loop.every_s
    if stale_s >= every_s or {stale, every} & {each.path for each in wrong}:
        return ()
    problem = (
        f"observe.stale_after_s is {stale_s:g}, less than loop.every_s, {every_s:g}: "
        "every sensor would count as stale"
    )
    to_blame = every if source.origin(stale) == "default" else stale
    hint = f"set observe.stale_after_s to {every_s:g} or more"
    return (Wrong(path=to_blame, problem=problem, hint=hint),)


def _by_place(mistake: Mistake) -> tuple[bool, int, int, str]:
    return mistake.line == 0, mistake.line, mistake.column, mistake.key

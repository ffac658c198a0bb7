"""Reads the rules of a site. A faulty rule is switched off with a reason; the others run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from steward.clients.web import Endpoint
from steward.config.forward import file_there, secret_in
from steward.config.settings import RulesSettings
from steward.decide.rules.rule_check import check
from steward.errors import StewardError, did_you_mean
from steward.model.rules import Rule, RuleStanding, RuleState, SourceLocation
from steward.store.packages import installed_packages, packages_folder, shipped
from steward.store.rules import SUFFIXES, RuleFault, examine_rules

__all__ = ["endpoint_of", "read_standings", "rule_files", "running"]


# Rules whose findings a detector has as well: where it runs, one finding is enough.
FOUND_BY = {"STW-TEL-0001": "gpu-idle-while-allocated"}


def read_standings(
    settings: RulesSettings, store: Path, *, detectors: Sequence[str] = ()
) -> tuple[RuleStanding, ...]:
    """Return all rules that there are for a site, also those that are off or faulty.

    These are ours, those of packages that were installed, and those of the paths in the settings. A
    site's own rule replaces one of ours with the same id. A rule of ours that finds what one of
    the `detectors` finds is off.
    """
    if not settings.on:
        return ()
    paths = [Path(each).expanduser() for each in settings.paths]
    installed, unusable = _installed(packages_folder(store))
    packs = [shipped()] if settings.packs and shipped().is_dir() else []
    has_prometheus = bool(settings.prometheus)
    more = _read([*installed, *paths], has_prometheus=has_prometheus)
    replaced = {each.id for each in more}
    ours = [each for each in _read(packs, has_prometheus=has_prometheus) if each.id not in replaced]
    standings = [*ours, *more, *unusable]
    named = {each.id for each in standings}
    standings = [_switched(each, settings.disabled) for each in standings]
    standings = [each if each.id in replaced else _left_to(each, detectors) for each in standings]
    standings += [_no_such(id_, named) for id_ in settings.disabled if id_ not in named]
    return tuple(sorted(standings, key=lambda each: (each.pack, each.id)))


def rule_files(settings: RulesSettings, store: Path) -> dict[str, tuple[int, int]]:
    """Return the files of a site's own and installed rules: when each changed, and its size."""
    found: dict[str, tuple[int, int]] = {}
    folders = [packages_folder(store), *(Path(each).expanduser() for each in settings.paths)]
    for folder in folders if settings.on else ():
        for path in (folder, *folder.rglob("*")):
            with suppress(OSError):  # it went away in this moment
                if path.suffix in SUFFIXES and path.is_file():
                    status = path.stat()
                    found[str(path)] = (status.st_mtime_ns, status.st_size)
    return found


def endpoint_of(settings: RulesSettings) -> Endpoint:
    """Return the Prometheus to query, with its token; raise if files cannot be read, naming all."""
    faults: list[str] = []
    endpoint = Endpoint(
        url=settings.prometheus,
        token=secret_in("rules.prometheus_token_file", settings.prometheus_token_file, faults),
        ca=file_there("rules.prometheus_ca_file", settings.prometheus_ca_file, faults),
        plain_http=settings.prometheus_plain_http,
    )
    if faults:
        hint = "name files that the user who runs steward may read"
        raise StewardError("; ".join(faults), where="[rules]", hint=hint)
    return endpoint


def _installed(folder: Path) -> tuple[list[Path], list[RuleStanding]]:
    """Return where the rules of packages lie, and what is wrong where they cannot be used."""
    try:
        return [each.folder for each in installed_packages(folder)], []
    except StewardError as fault:
        why = f"{fault.problem} ({fault.hint})" if fault.hint else fault.problem
        place = SourceLocation(file=fault.where)
        return [], [RuleStanding(id=folder.name, state=RuleState.FAULTY, why=why, place=place)]


def _read(paths: Sequence[Path], *, has_prometheus: bool) -> list[RuleStanding]:
    parsed = examine_rules(paths)
    standings = [
        _standing(rule, _problems(rule, parsed.faults, has_prometheus=has_prometheus))
        for rule in parsed.rules
    ]
    known = {each.id for each in standings}
    return [*standings, *_unread(parsed.faults, known)]


def running(standings: Iterable[RuleStanding]) -> tuple[Rule, ...]:
    """Return the rules that run."""
    return tuple(
        each.rule for each in standings if each.state is RuleState.ON and each.rule is not None
    )


def _standing(rule: Rule, problems: Sequence[str]) -> RuleStanding:
    return RuleStanding(
        id=rule.id,
        state=RuleState.FAULTY if problems else RuleState.ON,
        rule=rule,
        pack=_pack(rule.place),
        why="; ".join(problems),
        place=rule.place,
    )


def _problems(rule: Rule, faults: Sequence[RuleFault], *, has_prometheus: bool) -> list[str]:
    """Return why a parsed rule cannot run: bad patterns, and clashes with other rules."""
    mine = [each for each in faults if each.rule == rule.id and each.place.file == rule.place.file]
    found = [_formatted(each.place, each.problem, each.hint) for each in mine]
    return found + [
        _formatted(each.place, each.problem, each.hint)
        for each in check(rule, has_prometheus=has_prometheus)
    ]


def _unread(faults: Sequence[RuleFault], known: set[str]) -> Iterator[RuleStanding]:
    by_name: dict[tuple[str, str], list[RuleFault]] = {}
    for fault in faults:
        if fault.rule not in known:
            by_name.setdefault((fault.place.file, fault.rule), []).append(fault)
    for (file, rule), group in by_name.items():
        yield RuleStanding(
            id=rule or _named(Path(file)),
            state=RuleState.FAULTY,
            pack=_pack(group[0].place),
            why="; ".join(_formatted(each.place, each.problem, each.hint) for each in group[:5]),
            place=group[0].place,
        )


def _named(file: Path) -> str:
    """Return what a file without a rule's id is called: packs have one folder per rule."""
    return file.parent.name if file.suffix in SUFFIXES else file.name


def _formatted(place: SourceLocation, problem: str, hint: str) -> str:
    where = f"line {place.line}: " if place.line else ""
    return f"{where}{problem}" + (f" ({hint})" if hint else "")


def _pack(place: SourceLocation) -> str:
    """Return the folder above the rule's own: packs have one folder per rule."""
    folder = Path(place.file).parent
    return folder.parent.name if Path(place.file).name == "rule.yaml" else folder.name


def _switched(standing: RuleStanding, disabled: Sequence[str]) -> RuleStanding:
    if standing.state is not RuleState.ON or standing.id not in disabled:
        return standing
    return replace(standing, state=RuleState.OFF, why="rules.disabled names it")


def _left_to(standing: RuleStanding, detectors: Sequence[str]) -> RuleStanding:
    detector = FOUND_BY.get(standing.id)
    if standing.state is not RuleState.ON or detector not in detectors:
        return standing
    return replace(standing, state=RuleState.OFF, why=f"the detector {detector} finds the same")


def _no_such(id_: str, known: Iterable[str]) -> RuleStanding:
    near = did_you_mean(id_, known)
    why = "rules.disabled names it, but there is no such rule" + (f"; {near}" if near else "")
    return RuleStanding(id=id_, state=RuleState.FAULTY, why=why)

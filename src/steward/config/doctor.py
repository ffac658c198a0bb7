"""Looks at this machine: what can be observed and acted on here, and what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from steward.clients.nvml import DriverMissingError, shared_registry
from steward.config.forward import targets_of
from steward.config.plugs import KINDS, PlugKind, chosen, wrong_plugs
from steward.config.read import Draft
from steward.config.settings import Settings, StoreSettings, masked_url
from steward.errors import StewardError
from steward.model.actions import ACTIONS, Action
from steward.model.event import Availability
from steward.observe.forwarding.transport import open_transport
from steward.ports import Actuator
from steward.store.journal import open_journal
from steward.store.telemetry import Telemetry

__all__ = ["Check", "address_taken", "examine"]

MIB = 2**20
ANSWER_S = 3.0  # how long a receiver may take
ENGINES = (("slurm", "sinfo"), ("kubernetes", "kubectl"), ("prometheus", "prometheus"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at. Without a `required` one, `steward up` would not work."""

    name: str
    kind: str
    status: str  # ok, limited, missing
    reason: str
    hint: str = ""
    required: bool = False

    @property
    def blocks(self) -> bool:
        """Whether steward cannot run because of this."""
        return self.required and self.status == "missing"


def examine(draft: Draft) -> tuple[Check, ...]:
    """Look at everything that steward could use here, in a fixed order."""
    settings = draft.settings
    return (
        _python(),
        _configuration(draft),
        _folder(settings.store.path),
        _journal(settings.store),
        _telemetry(settings.store.telemetry_folder),
        _address(settings),
        *_receivers(settings),
        *_plugs(settings),
        _nvidia(),
        *_engines(),
    )


def address_taken(host: str, port: int) -> str:
    """Return why an address cannot be listened on, or "" if it can."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, proto) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except (OSError, OverflowError, UnicodeError) as fault:
        return str(getattr(fault, "strerror", "") or fault).lower()
    return ""


def _python() -> Check:
    version = platform.python_version()
    status = "ok" if sys.version_info >= (3, 11) else "missing"
    hint = "" if status == "ok" else "install Python 3.11 or newer"
    reason = f"{version} on {platform.system()} {platform.machine()}"
    return Check(
        name="python", kind="system", status=status, reason=reason, hint=hint, required=True
    )


def _configuration(draft: Draft) -> Check:
    mistakes = [*draft.mistakes, *map(draft.mistake, wrong_plugs(draft.settings))]
    if mistakes:
        reason = "; ".join(str(each) for each in mistakes)
        return Check(
            name="configuration",
            kind="configuration",
            status="missing",
            reason=reason,
            hint="`steward config check` shows them one by one",
            required=True,
        )
    reason = str(draft.file) if draft.file else "no file: the defaults apply"
    return Check(
        name="configuration", kind="configuration", status="ok", reason=reason, required=True
    )


def _folder(folder: Path) -> Check:
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    problem = _unwritable(there)
    status, hint = "ok", ""
    free_mib = shutil.disk_usage(there).free / MIB
    reason = f"{folder}, {free_mib / 1024:.1f} GiB free"
    if there != folder and not problem:
        reason = f"{folder} will be made, {free_mib / 1024:.1f} GiB free"
    if problem:
        status, reason = "missing", f"{folder}: {problem}"
        hint = "name a folder that this user may write to: --data, or store.folder"
    elif free_mib < 1024:
        status = "missing" if free_mib < 50 else "limited"
        hint = "make room, lower store.keep_days, or name another folder"
    return Check(
        name="store folder", kind="store", status=status, reason=reason, hint=hint, required=True
    )


def _unwritable(there: Path) -> str:
    if not there.is_dir():
        return f"{there} is not a folder"
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".steward-doctor-"):
            return ""
    except OSError as fault:
        return f"{there} cannot be written to: {os.strerror(fault.errno or 0).lower()}"


def _journal(store: StoreSettings) -> Check:
    where = masked_url(store.journal_url)
    file = Path(store.journal_url.removeprefix("sqlite:///"))
    sqlite = store.journal_url.startswith("sqlite:")
    if sqlite and not file.exists():
        return _store_check("journal", "ok", f"{file} will be made")
    try:
        with closing(open_journal(store.journal_url)) as journal:
            entries, damage = journal.newest(), journal.damage()
    except StewardError as fault:
        return _store_check("journal", "missing", str(fault), fault.hint)
    size = f", {file.stat().st_size / MIB:.1f} MiB" if sqlite else ""
    if damage:
        hint = "nothing else was lost; keep the file that was set aside"
        return _store_check("journal", "limited", "; ".join(damage), hint)
    return _store_check("journal", "ok", f"{where}: {entries} entries{size}, sound")


def _telemetry(folder: Path) -> Check:
    if not folder.exists():
        return _store_check("telemetry", "ok", f"{folder} will be made", required=False)
    try:
        telemetry = Telemetry(folder)
        # A query for no entity verifies every file and loads none.
        telemetry.read(entities=(), metrics=(), from_s=float("-inf"), to_s=float("inf"))
        damage = telemetry.damage()
    except StewardError as fault:
        return _store_check("telemetry", "missing", str(fault), fault.hint)
    if damage:
        hint = "the files that were set aside can be looked at or removed"
        return _store_check("telemetry", "limited", "; ".join(damage), hint)
    sizes = [file.stat().st_size for file in folder.rglob("*.parquet")]
    reason = f"{folder}: {len(sizes)} files, {sum(sizes) / MIB:.1f} MiB"
    return _store_check("telemetry", "ok", reason, required=False)


def _store_check(
    name: str, status: str, reason: str, hint: str = "", *, required: bool = True
) -> Check:
    return Check(
        name=name, kind="store", status=status, reason=reason, hint=hint, required=required
    )


def _address(settings: Settings) -> Check:
    host, port = settings.service.host, settings.service.port
    taken = address_taken(host, port)
    return Check(
        name="address",
        kind="service",
        status="limited" if taken else "ok",
        reason=f"{host}:{port}: {taken}" if taken else f"{host}:{port} is free",
        hint="perhaps steward runs already; else choose another with --port" if taken else "",
    )


def _receivers(settings: Settings) -> Iterator[Check]:
    """Send a request with nothing in it to each receiver that telemetry is forwarded to."""
    try:
        targets = targets_of(settings)
    except StewardError as fault:
        yield Check(
            name="forward", kind="forward", status="missing", reason=str(fault), hint=fault.hint
        )
        return
    for target in targets:
        where = f"{target.format}, {target.endpoint.url}"
        status, reason, hint = "ok", f"{where} answers", ""
        try:
            way = open_transport(target.format, replace(target.endpoint, timeout_s=ANSWER_S))
            with closing(way):
                way.send(way.encode(()))
        except StewardError as fault:
            status, reason = "missing", f"{where}: {fault.problem}"
            hint = fault.hint or "is it running, and does it take this format?"
        yield Check(name=target.name, kind="forward", status=status, reason=reason, hint=hint)


def _plugs(settings: Settings) -> Iterator[Check]:
    """Look at all collectors and actuators; of the chosen collectors, one has to work."""
    used = {(kind.kind, name) for kind, _, name in chosen(settings)}
    for kind in KINDS:
        if kind.kind not in ("collector", "actuator"):
            continue
        checks = [_plug(kind, name, settings) for name in kind.names()]
        taken = [each for each in checks if (kind.kind, each.name) in used]
        required = bool(taken) and all(each.status == "missing" for each in taken)
        yield from (replace(each, required=required and each in taken) for each in checks)


def _plug(kind: PlugKind, name: str, settings: Settings) -> Check:
    try:
        plug = kind.make(name)(**settings.plugs.get(name, {}))
        state: Availability = plug.available()
        if kind.kind == "actuator":
            state = replace(state, reason=f"{state.reason}; {_abilities(plug)}")
    except StewardError as fault:
        state = Availability(status="missing", reason=str(fault), hint=fault.hint)
    except Exception as fault:  # noqa: BLE001 - a plug's fault must not hide the other checks
        reason = f"it cannot be queried: {type(fault).__name__}: {fault}"
        hint = f"look at [plugs.{name}], or reinstall the package that brings it"
        state = Availability(status="missing", reason=reason, hint=hint)
    return Check(
        name=name, kind=kind.kind, status=state.status, reason=state.reason, hint=state.hint
    )


def _abilities(actuator: Actuator[Action]) -> str:
    """Return which actions an engine can carry out here, and which it cannot."""
    able = {each.__dataclass_fields__["type"].default for each in actuator.actions()}
    cannot = [name for name in ACTIONS if name not in able]
    text = f"takes {', '.join(name for name in ACTIONS if name in able) or 'nothing'}"
    return text + (f"; cannot {', '.join(cannot)}" if cannot else "")


def _nvidia() -> Check:
    driver = shared_registry().driver  # NVML is initialised once in a process
    try:
        reason = f"{driver.version()}, {driver.count()} GPUs"
    except DriverMissingError as fault:
        return Check(
            name="nvidia", kind="driver", status="missing", reason=fault.problem, hint=fault.hint
        )
    return Check(name="nvidia", kind="driver", status="ok", reason=reason)


def _engines() -> Iterator[Check]:
    for name, command in ENGINES:
        path = shutil.which(command)
        yield Check(
            name=name,
            kind="engine",
            status="ok" if path else "missing",
            reason=path or f"`{command}` is not on the PATH",
            hint="" if path else "only needed where this site runs it",
        )

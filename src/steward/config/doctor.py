"""Looks at this machine: what can be observed and acted on here, and what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from steward.clients.local_jobs.confinement import Confinement, SystemdScopes
from steward.clients.local_jobs.devices import JobDevices
from steward.clients.local_jobs.systemd_unit import UNIT, kill_mode
from steward.clients.nvml import (
    Driver,
    DriverMissingError,
    PowerLimitControl,
    shared_registry,
)
from steward.clients.power_rights import may_set_limits
from steward.clients.site_health import ask_healths
from steward.config.checked_values import masked_url
from steward.config.forward import targets_of
from steward.config.plugs import KINDS, PlugKind, chosen, own_options, wrong_plugs
from steward.config.read import Draft
from steward.config.serving_loop import fleets_of, gateway_of, scaler_of
from steward.config.settings import Settings, StoreSettings
from steward.errors import StewardError
from steward.model.actions import ACTIONS, Action
from steward.model.actions.checks import plural
from steward.model.event import Availability
from steward.observe.forwarding.transport import open_transport
from steward.observe.serving_gateway import ServingGateway
from steward.ports import Actuator
from steward.store.journal import open_journal
from steward.store.telemetry import Telemetry
from steward.store.tokens import Tokens

__all__ = ["Check", "address_taken", "examine", "power_caps"]

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
    plugs = tuple(_plugs(settings))
    return (
        _python(),
        _configuration(draft),
        _folder(settings.store.path),
        _journal(settings.store),
        _telemetry(settings.store.telemetry_folder),
        _tokens(settings.store.tokens_file),
        _address(settings),
        *_receivers(settings),
        *_sites(draft),
        *plugs,
        _nvidia(),
        *_engines(plugs),
        _jobs(settings),
        *_serving(settings),
        power_caps(shared_registry().driver, may_set_limits()),
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


def _tokens(file: Path) -> Check:
    try:
        count = len(Tokens(file).list())
    except StewardError as fault:
        reason = f"{fault}; until then every token is refused"
        return _store_check("tokens", "limited", reason, fault.hint, required=False)
    reason = f"{file}: {count} tokens" if file.exists() else "none made yet"
    return _store_check("tokens", "ok", reason, required=False)


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


def _sites(draft: Draft) -> Iterator[Check]:
    """Ask the steward of each site how it does; `doctor --site` looks at its plugs."""
    drafts = {name: draft.of_site(name) for name in draft.settings.sites}
    sockets = {name: each.settings.socket_path for name, each in drafts.items()}
    for health in ask_healths(sockets):
        own = drafts[health.name]
        wrong = [str(own.mistake(each)) for each in wrong_plugs(own.settings)]
        turns = f"{health.state.value}, {health.turns} turns, {health.faults} recent faults"
        reason = "; ".join(wrong) or health.text or turns
        yield Check(
            name=health.name,
            kind="site",
            status="missing" if wrong else "ok" if health.is_fine else "limited",
            reason=reason,
            hint="" if health.is_fine else f"`steward doctor --site {health.name}` shows more",
        )


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
        plug = kind.make(name)(**own_options(kind.kind, name, settings.plugs.get(name, {})))
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


def _engines(plugs: Iterable[Check]) -> Iterator[Check]:
    """Check the engines: a command on the PATH is not yet a cluster that answers."""
    collectors = {each.name: each for each in plugs if each.kind == "collector"}
    for name, command in ENGINES:
        path, read = shutil.which(command), collectors[name]
        if read.status == "ok":
            yield replace(read, kind="engine", required=False)
        elif path:
            reason, hint = f"{path} is there, but {read.reason}", read.hint
            yield Check(name=name, kind="engine", status="limited", reason=reason, hint=hint)
        else:
            reason, hint = f"`{command}` is not on the PATH", "only needed where this site runs it"
            yield Check(name=name, kind="engine", status="missing", reason=reason, hint=hint)


def _jobs(settings: Settings) -> Check:
    """Say what jobs can have here, and how far they are limited."""
    if not settings.jobs.enabled:
        hint = "set `jobs.enabled`"
        return Check(name="jobs", kind="engine", status="missing", reason="off", hint=hint)
    devices = JobDevices.find(slots=settings.jobs.slots)
    confinement = Confinement.find()
    whose = "jobs of all accounts" if os.geteuid() == 0 else "jobs of this account alone"
    has = f"{len(devices.uuids)} GPUs, {len(devices.slots)} CPU slots"
    mode = kill_mode()
    faults = [text for wrong, text in _job_faults(confinement, mode) if wrong]
    restart = "; a restart of the service leaves jobs running" if mode == "process" else ""
    return Check(
        name="jobs",
        kind="engine",
        status="limited" if faults else "ok",
        reason=f"{has}; {whose}; {confinement.describe()}{restart}",
        hint="; ".join(faults),
    )


def _serving(settings: Settings) -> Iterator[Check]:
    """Say whether the gateway answers, and which types of model servers can be started here."""
    if not settings.serving.gateway:
        return
    try:
        with closing(ServingGateway(gateway_of(settings))) as gateway:
            state = gateway.available()
        scaler = scaler_of(settings).name
        how = "dry run: nothing is started" if settings.serving.dry_run else "may start and stop"
        reason = f"{state.reason}; scaled by {scaler}, {how}"
        yield Check(
            name="gateway", kind="serving", status=state.status, reason=reason, hint=state.hint
        )
        for name, fleet in fleets_of(settings).items():
            found, each = fleet.available(), settings.instances[name]
            reason = f"{found.reason}; {each.least} to {each.most} of {plural(each.gpus, 'GPU')}"
            yield Check(
                name=name, kind="instances", status=found.status, reason=reason, hint=found.hint
            )
    except StewardError as fault:
        yield Check(
            name="serving", kind="serving", status="missing", reason=str(fault), hint=fault.hint
        )


def power_caps(driver: Driver, rights: Availability) -> Check:
    """Say whether power limits can be set here; nothing is set to find out."""
    check = Check(name="power caps", kind="engine", status="missing", reason="")
    try:
        count = driver.count()
        limits = [PowerLimitControl(driver.library).read(index) for index in range(count)]
    except StewardError as fault:
        return replace(check, reason=fault.problem, hint=fault.hint)
    if not limits:
        return replace(check, reason="there is no GPU here", hint="only needed with GPUs")
    ranges = {f"{each.least_watts:.0f} to {each.most_watts:.0f} W" for each in limits}
    reason = f"{rights.reason}; {len(limits)} GPUs, {', '.join(sorted(ranges))}"
    return replace(check, status=rights.status, reason=reason, hint=rights.hint)


def _job_faults(confinement: Confinement, mode: str) -> Iterator[tuple[bool, str]]:
    limited = {"memory", "cpu"} <= {*confinement.limits()}
    yield not limited, "memory and CPU limits need a delegated cgroup v2"
    text = f"a restart of {UNIT} ends its jobs (KillMode={mode}): set KillMode=process"
    own_scopes = isinstance(confinement, SystemdScopes)  # jobs are no part of the unit
    yield mode not in ("", "process") and not own_scopes, text

"""Runs the gateway: its parts, its port, reloads, and one clean end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import uvloop
from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

from steward.config.gateway_settings import UpstreamSettings
from steward.config.gateway_setup import GatewaySetup
from steward.decide.serving import DISPATCHERS
from steward.errors import StewardError
from steward.learn.estimators.serving import SERVING_ESTIMATORS
from steward.model.serving.instance_type import H200_LLAMA_8B, InstanceType
from steward.model.serving.view import ANY_CLASS, SERVING
from steward.ports import Dispatcher, ServingEstimator
from steward.registry import resolve
from steward.service.gateway.access import Access
from steward.service.gateway.administration import Administration
from steward.service.gateway.call_queue import CallQueue
from steward.service.gateway.connections import LimitedServer
from steward.service.gateway.extra_routes import ExtraRoutes
from steward.service.gateway.http_side import HttpSide
from steward.service.gateway.live_view import InstanceRow, LiveView
from steward.service.gateway.relay import Relay
from steward.service.gateway.tallies import Tallies
from steward.service.gateway.upstream import ROLES, Upstream
from steward.service.gateway.upstream_watch import UpstreamWatch
from steward.service.gateway.waits import WaitBoard
from steward.service.listening import check_certificate, listen
from steward.store.api_keys import ApiKeys

__all__ = ["Gateway", "run_gateway"]

log = logging.getLogger(__name__)

_TICK_S = 0.25
_LOOK_EVERY_S = 2.0  # at the configuration file and the keys
_BACKLOG = 4096
_END_WITHIN_S = 1.0  # for what is left after draining


class Gateway:
    """All parts of a gateway, put together; `start` opens its port."""

    def __init__(self, setup: GatewaySetup, *, extras: Sequence[ExtraRoutes] = ()) -> None:
        settings = setup.settings
        began_s, began_wall_s = time.monotonic(), time.time()
        self.setup = setup
        self.extras = tuple(extras)
        self.tallies = Tallies(lambda: began_wall_s + time.monotonic() - began_s)
        self.queue = CallQueue(
            settings,
            setup.classes,
            dispatcher=_dispatcher(settings.policy),
            estimator=_estimator(settings.estimator),
            tallies=self.tallies,
            clock_s=time.monotonic,
            wall_s=self.wall_s,
        )
        self.access = _access(settings.keys_file)
        self.port = 0
        self._tls = _tls(setup)
        self._server: LimitedServer | None = None
        self._listener: asyncio.Server | None = None
        self._session: ClientSession | None = None
        self._watch: UpstreamWatch | None = None
        self._administration = Administration(
            self.queue, make=self._made, changed=self._follow_upstreams
        )
        self._ticking: asyncio.Task[None] | None = None

    def wall_s(self) -> float:
        """Return the time since 1970, which no change of the machine's clock moves."""
        return self.tallies.wall_s()

    async def start(self, listener: socket.socket | None = None) -> None:
        """Begin to watch the upstreams and to take requests."""
        settings = self.setup.settings
        if listener is None:
            listener = listen(settings.host, settings.port, "gateway", backlog=_BACKLOG)
        self.port = listener.getsockname()[1]
        self._session = _session(settings.connect_within_s)
        relay = Relay(self.queue, self._session)
        side = HttpSide(
            self.queue,
            relay,
            self.access,
            self._administration,
            wall_s=self.wall_s,
            extras=self.extras,
        )
        self._side = side
        self._watch = UpstreamWatch(self.queue, self._session)
        self._take_upstreams(self.setup)
        self._ticking = asyncio.create_task(self._tick())
        for each in self.extras:
            await each.start(relay)
        self._server = LimitedServer(side.handle, most=settings.max_connections)
        self._listener = await asyncio.get_running_loop().create_server(
            self._server, sock=listener, ssl=self._tls, backlog=_BACKLOG
        )

    async def stop(self, *, drain_s: float | None = None) -> None:
        """Take nothing new, finish what is there for so long, and end."""
        self.queue.closing = True
        if self._listener is not None:
            self._listener.close()
        for each in self.extras:
            await each.stop()
        await self._drained(self.setup.settings.drain_s if drain_s is None else drain_s)
        if self._ticking is not None:
            self._ticking.cancel()
        if self._server is not None:
            self._server.pre_shutdown()
            await self._server.shutdown(_END_WITHIN_S)
        if self._watch is not None:
            await self._watch.stop()
        if self._session is not None:
            await self._session.close()

    async def _drained(self, within_s: float) -> None:
        queue = self.queue
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await queue.empty()
        if queue.tickets:
            log.warning("%d requests are cut off: the gateway ends", len(queue.tickets))

    def reload(self, read: Callable[[], GatewaySetup]) -> bool:
        """Use a new configuration; one that is wrong is refused, and the old one goes on."""
        try:
            setup = read()
            dispatcher, estimator = self._policy_of(setup)
            tls = _tls(setup)
            upstreams = self._upstreams_of(setup)
            access = self.access
            if setup.settings.keys_file != self.setup.settings.keys_file:
                access = _access(setup.settings.keys_file)
            access.reload()
        except StewardError as fault:
            log.error("the new configuration is refused: %s", fault)
            self.tallies.reloads["refused"] += 1
            self.tallies.event("reload refused", why=str(fault))
            return False
        if tls is not None and self._tls is not None:
            settings = setup.settings
            self._tls.load_cert_chain(settings.tls_certificate, settings.tls_key or None)
        self.setup, self.access = setup, access
        self._side.access = access
        self.queue.settings = setup.settings
        self.queue.view.set_classes(setup.classes)
        self.queue.set_policy(dispatcher, estimator)
        self.queue.instances.replace(upstreams)
        self._follow_upstreams()
        self.tallies.reloads["done"] += 1
        self.tallies.event("reloaded", why=f"{len(upstreams)} upstreams")
        return True

    # -- parts ---------------------------------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.queue.tick()

    def _policy_of(self, setup: GatewaySetup) -> tuple[Dispatcher, ServingEstimator | None]:
        before, new = self.setup.settings, setup.settings
        dispatcher, estimator = self.queue.dispatcher, self.queue.estimator
        if new.policy != before.policy:
            dispatcher = _dispatcher(new.policy)
        if new.estimator != before.estimator:
            estimator = _estimator(new.estimator)
        return dispatcher, estimator

    def _take_upstreams(self, setup: GatewaySetup) -> None:
        self.queue.instances.replace(self._upstreams_of(setup))
        self._follow_upstreams()

    def _upstreams_of(self, setup: GatewaySetup) -> list[Upstream]:
        """Return the upstreams of a configuration: those that stay what they were, as they are."""
        there = self.queue.instances.upstreams
        found = []
        for name, settings in setup.upstreams.items():
            old = there.get(name)
            if old is None or name in self._administration.added or _moved(old, settings):
                found.append(self._made(name, settings))
            else:
                found.append(_adjusted(old, settings))
        added = self._administration.added - set(setup.upstreams)
        self._administration.added = added
        return [*found, *(each for name, each in there.items() if name in added)]

    def _made(self, name: str, settings: UpstreamSettings) -> Upstream:
        return Upstream.of(
            name,
            settings,
            self.setup.settings,
            kind=_kind(settings),
            api_key=_secret(name, settings),
            tls=_trust(settings),
        )

    def _follow_upstreams(self) -> None:
        if self._watch is not None:
            self._watch.follow()
        self.queue.schedule()


def run_gateway(
    setup: GatewaySetup,
    *,
    read: Callable[[], GatewaySetup],
    file: Path | None = None,
    extras: Sequence[ExtraRoutes] = (),
    announce: Callable[[str], None] = lambda _url: None,
    stop_after_s: float | None = None,
) -> None:
    """Run until a signal comes, or for `stop_after_s`. SIGHUP and a changed file reload."""
    check_certificate(setup.settings.tls_certificate, setup.settings.tls_key, "gateway")
    warm_up(setup)
    listener = listen(setup.settings.host, setup.settings.port, "gateway", backlog=_BACKLOG)
    _raise_file_limit()

    async def serve() -> None:
        gateway = Gateway(setup, extras=extras)
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, ending.set)
        loop.add_signal_handler(signal.SIGHUP, gateway.reload, read)
        await gateway.start(listener)
        announce(setup.settings.model_copy(update={"port": gateway.port}).url)
        looking = asyncio.create_task(_look_for_changes(gateway, read, file))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(stop_after_s):
                await ending.wait()
        looking.cancel()
        await _drained(gateway, ending)

    with contextlib.closing(listener), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


def warm_up(setup: GatewaySetup) -> None:
    """Compile what estimates and decides, or load it: the first requests must not wait for that."""
    view = LiveView(setup.classes)
    for name in ("one", "another"):
        view.enter(
            arrival_s=0.0,
            deadline_s=1.0,
            prompt_tokens=1,
            deadline_class=0,
            tenant=-1,
            model=view.model_code(name),
        )
    kind = view.type_code(replace(H200_LLAMA_8B, model="one"))
    row = InstanceRow(type=kind, model=0, state=SERVING, limit=1, room=1, role=ANY_CLASS)
    now = view.moment(0.0, [row])
    estimator = _estimator(setup.settings.estimator)
    if estimator is not None:
        now = view.moment(0.0, [row], estimator.predict(now))
    WaitBoard(setup.settings.policy).refresh(now)
    _dispatcher(setup.settings.policy).dispatch(now)


async def _drained(gateway: Gateway, ending: asyncio.Event) -> None:
    """Stop the gateway; a second signal ends the draining."""
    ending.clear()
    stopping = asyncio.create_task(gateway.stop())
    again = asyncio.create_task(ending.wait())
    await asyncio.wait({stopping, again}, return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        stopping.cancel()
        await asyncio.wait({stopping})
        await gateway.stop(drain_s=0)
    again.cancel()


async def _look_for_changes(
    gateway: Gateway, read: Callable[[], GatewaySetup], file: Path | None
) -> None:
    """Reload when the configuration file changes, and read the keys again when they do."""
    seen = _stamp(file)
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        now = _stamp(file)
        if now != seen:
            seen = now
            gateway.reload(read)
        try:
            gateway.access.reload()
        except StewardError as fault:
            log.error("the keys stay as they were: %s", fault)


def _stamp(file: Path | None) -> tuple[int, int] | None:
    try:
        state = file.stat() if file is not None else None
    except OSError:  # it is being replaced
        return None
    return None if state is None else (state.st_ino, state.st_mtime_ns)


def _dispatcher(name: str) -> Dispatcher:
    return resolve("dispatcher", name, DISPATCHERS)()


def _estimator(name: str) -> ServingEstimator | None:
    if name == "none":
        return None
    return resolve("serving-estimator", name, SERVING_ESTIMATORS)()


def _access(keys_file: str) -> Access:
    keys = ApiKeys(Path(keys_file).expanduser()) if keys_file else None
    return Access(keys, time.monotonic)


def _session(connect_within_s: float) -> ClientSession:
    return ClientSession(
        connector=TCPConnector(limit=0, keepalive_timeout=15.0),
        timeout=ClientTimeout(total=None, sock_connect=connect_within_s),
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
        max_line_size=65536,
        max_field_size=65536,
    )


def _tls(setup: GatewaySetup) -> ssl.SSLContext | None:
    settings = setup.settings
    check_certificate(settings.tls_certificate, settings.tls_key, "gateway")
    if not settings.tls_certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(settings.tls_certificate, settings.tls_key or None)
    return context


def _trust(settings: UpstreamSettings) -> ssl.SSLContext | bool:
    if not settings.ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except OSError as fault:  # ssl.SSLError is one
        raise StewardError(
            f"the certificates cannot be read: {fault.strerror or fault}",
            where=settings.ca_file,
            hint="give a file in PEM form",
        ) from fault


def _secret(name: str, settings: UpstreamSettings) -> str:
    if not settings.api_key_env:
        return ""
    secret = os.environ.get(settings.api_key_env, "")
    if not secret:
        raise StewardError(
            f"the environment variable {settings.api_key_env} is not set",
            where=f"upstreams.{name}.api_key_env",
            hint="set it to the key that this model server wants",
        )
    return secret


def _kind(settings: UpstreamSettings) -> InstanceType:
    """Return the type that estimates start from: measured, or an H200's."""
    if not settings.profile:
        return H200_LLAMA_8B
    from steward.sim.serving.profiles import instance_types  # noqa: PLC0415 - few have one

    kinds = instance_types([Path(settings.profile).expanduser()], H200_LLAMA_8B)
    fitting = [each for each in kinds if each.model in settings.models]
    return (fitting or list(kinds))[0]


def _moved(old: Upstream, new: UpstreamSettings) -> bool:
    """Return whether a table is about another server now, not about the same one's limits."""
    kept = {"limit", "max_waiting", "role", "draining", "models", "kv_tokens", "gpus"}
    return old.settings.model_dump(exclude=kept) != new.model_dump(exclude=kept)


def _adjusted(old: Upstream, new: UpstreamSettings) -> Upstream:
    if old.settings != new:
        old.settings = new
        old.limit, old.role, old.draining = new.limit, ROLES[new.role], new.draining
        old.models = new.models or old.models
    return old


def _raise_file_limit() -> None:
    """Allow as many connections as the system lets this process have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

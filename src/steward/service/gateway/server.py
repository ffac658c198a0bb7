"""Runs the gateway: its parts, its port, reloads, and one clean end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import uvloop
from aiohttp import ClientSession

from steward.clients.transport_rule import check_transport
from steward.config.gateway_settings import UpstreamSettings
from steward.config.gateway_setup import GatewaySetup
from steward.errors import StewardError
from steward.ports import Dispatcher, ServingEstimator
from steward.service.gateway.administration import Administration
from steward.service.gateway.call_queue import CallQueue
from steward.service.gateway.connections import LimitedServer
from steward.service.gateway.extra_routes import ExtraRoutes
from steward.service.gateway.gpu_groups import GpuGroups
from steward.service.gateway.http_side import HttpSide
from steward.service.gateway.metering import MeteredQueue
from steward.service.gateway.parts import (
    access_of,
    dispatcher_of,
    estimator_of,
    kind_of,
    open_session,
    secret_of,
    server_tls,
    trust_of,
    warm_up,
)
from steward.service.gateway.relay import Relay
from steward.service.gateway.tallies import Tallies
from steward.service.gateway.upstream import ROLES, Upstream
from steward.service.gateway.upstream_watch import UpstreamWatch
from steward.service.listening import check_certificate, listen

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
            dispatcher=dispatcher_of(settings.policy),
            estimator=estimator_of(settings.estimator),
            tallies=self.tallies,
            clock_s=time.monotonic,
            wall_s=self.wall_s,
        )
        self.access = access_of(settings.keys_file)
        self.port = 0
        self._tls = server_tls(setup)
        self._server: LimitedServer | None = None
        self._listener: asyncio.Server | None = None
        self._session: ClientSession | None = None
        self._unkept: ClientSession | None = None
        self._watch: UpstreamWatch | None = None
        self._groups: GpuGroups | None = None
        self._administration = Administration(
            self.queue, make=self._made_on_request, changed=self._follow_upstreams
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
        self._session = open_session(settings.connect_within_s)
        self._unkept = open_session(settings.connect_within_s, kept=False)
        relay = Relay(self.queue, self._session, self._unkept)
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
        self._groups = GpuGroups(self.queue, self._session)
        self.queue.swaps = self._groups.swap
        self._take_upstreams(self.setup)
        metered = MeteredQueue(relay, lambda: self.access)
        self._ticking = asyncio.create_task(self._tick())
        for each in self.extras:
            await each.start(metered)
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
        await self._close()

    async def _close(self) -> None:
        for part in (self._groups, self._watch):
            if part is not None:
                await part.stop()
        for session in (self._session, self._unkept):
            if session is not None:
                await session.close()

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
            tls = server_tls(setup)
            upstreams = self._upstreams_of(setup)
            access = self.access
            if setup.settings.keys_file != self.setup.settings.keys_file:
                access = access_of(setup.settings.keys_file)
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
            try:
                self.queue.tick()
                if self._groups is not None:
                    self._groups.look()
            except Exception:  # without ticks nothing in the queue would ever expire
                log.exception("a look at the queue failed")

    def _policy_of(self, setup: GatewaySetup) -> tuple[Dispatcher, ServingEstimator | None]:
        before, new = self.setup.settings, setup.settings
        dispatcher, estimator = self.queue.dispatcher, self.queue.waits.estimator
        if new.policy != before.policy:
            dispatcher = dispatcher_of(new.policy)
        if new.estimator != before.estimator:
            estimator = estimator_of(new.estimator)
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
            kind=kind_of(settings),
            api_key=secret_of(name, settings),
            tls=trust_of(settings),
        )

    def _made_on_request(self, name: str, settings: UpstreamSettings) -> Upstream:
        """Return an upstream that came over HTTP: no file and no other variable is read for it."""
        known = {each.api_key_env for each in self.setup.upstreams.values()} | {""}
        if settings.api_key_env not in known:
            raise StewardError(
                f"the configuration names no variable {settings.api_key_env}",
                where="api_key_env",
                hint="a key goes to whatever URL comes with it: name it in [upstreams] first",
            )
        for each in ("ca_file", "profile"):
            if getattr(settings, each):
                hint = "add this upstream in the configuration"
                raise StewardError("files are not read on request", where=each, hint=hint)
        check_transport(settings.url, plain_http=self.setup.settings.plain_http)
        return self._made(name, settings)

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
    gc.collect()
    gc.freeze()  # what is loaded by now stays: a full collection would stop all streams for it

    async def serve() -> None:
        gateway = Gateway(setup, extras=extras)
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, ending.set)
        loop.add_signal_handler(signal.SIGHUP, _reload, gateway, read)
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
            _reload(gateway, read)
        try:
            gateway.access.reload()
        except StewardError as fault:
            log.error("the keys stay as they were: %s", fault)
        except Exception:  # whatever it is: later revocations have to count
            log.exception("the keys stay as they were")


def _reload(gateway: Gateway, read: Callable[[], GatewaySetup]) -> None:
    """Reload; a fault of our own ends neither this nor what else looks for changes."""
    try:
        gateway.reload(read)
    except Exception:
        log.exception("the new configuration is refused")


def _stamp(file: Path | None) -> tuple[int, int] | None:
    try:
        state = file.stat() if file is not None else None
    except OSError:  # it is being replaced
        return None
    return None if state is None else (state.st_ino, state.st_mtime_ns)


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

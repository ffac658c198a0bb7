"""Runs the service: the loop in a thread of its own, the web server around it, one clean end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, cast

import uvicorn
from fastapi import FastAPI

from steward.config.checked_values import shown_host
from steward.config.exposure import check_exposure
from steward.config.local_jobs import LocalJobRunner
from steward.config.settings import ServiceSettings, Settings
from steward.errors import StewardError
from steward.loop import Loop
from steward.model.site import SiteHealth
from steward.model.view import ClusterView
from steward.observe.receive import warm_up
from steward.service.app import authenticator, create_app
from steward.service.authentication import Authenticator
from steward.service.http_protocol import (
    ConnectionLimits,
    LimitedProtocol,
    connections_within,
    protocol_with,
)
from steward.service.job_outlook import Waits
from steward.service.listening import check_certificate, listen
from steward.service.local_users import account_name
from steward.store.tokens import Role, Tokens

if TYPE_CHECKING:
    from steward.service.wire.grpc_server import OtlpServer

__all__ = ["Listening", "serve"]

log = logging.getLogger(__name__)

LOOP_ENDS_WITHIN_S = 5.0  # a longer turn is cut off; storage is as safe as after a crash
SOCKET_PATH_BYTES = 107  # the longest that the kernel takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where a service can be reached, and with what by the person who started it.

    `login_url` opens the dashboard once; `token` is valid until the service ends.
    """

    url: str
    login_url: str
    token: str


def serve(  # noqa: PLR0913 - what a command line may set
    loop: Loop[ClusterView],
    settings: Settings,
    *,
    truth: Callable[[], float] | None = None,
    speed: float = 1.0,
    open_browser: bool = False,
    stop_after_s: float | None = None,
    announce: Callable[[Listening], None] = lambda _listening: None,
    jobs: LocalJobRunner | None = None,
    sites: Callable[[], Sequence[SiteHealth]] = tuple,
    waits: Waits | None = None,
) -> None:
    """Run until a signal comes, or for `stop_after_s`. Call `announce` once it listens.

    Raises `StewardError` when it cannot listen, before the loop has started.
    """
    check_exposure(settings.service)
    check_certificate(settings.service.tls_certificate, settings.service.tls_key, "service")
    listener = listen(settings.service.host, settings.service.port, "service")
    port = listener.getsockname()[1]
    service = settings.service.model_copy(update={"port": port})
    settings = settings.model_copy(update={"service": service})
    access = authenticator(settings, Tokens(settings.store.tokens_file))
    stop = threading.Event()
    runner = threading.Thread(target=loop.run, args=(stop,), name="loop", daemon=True)
    app = create_app(
        loop,
        settings,
        access=access,
        truth=truth,
        speed=speed,
        alive=runner.is_alive,
        jobs=jobs,
        sites=sites,
        waits=waits,
    )

    def listening() -> None:
        reached = _reached(settings.service, access)
        announce(reached)
        if open_browser:
            opening = threading.Thread(
                target=webbrowser.open, args=(reached.login_url,), daemon=True
            )
            opening.start()

    def begin() -> None:
        # Not earlier: on its start the page framework asks the garbage collector for all objects.
        # A tuple that another thread is building then cannot be finished: that is a SystemError.
        if loop.intake is not None:
            threading.Thread(target=warm_up, name="warm-up").start()
        runner.start()
        if jobs is not None:
            running.enter_context(jobs)

    otlp = _otlp(loop, settings, access)
    try:
        with _local_socket(settings) as local, contextlib.ExitStack() as running:
            server = _Server(
                app,
                begin=begin,
                listening=listening,
                stop_after_s=stop_after_s,
                service=service,
                local=local,
            )
            server.run(sockets=[listener])
    finally:
        if otlp is not None:
            otlp.stop()
        stop.set()
        listener.close()
        _end(loop, runner)


def _end(loop: Loop[ClusterView], runner: threading.Thread) -> None:
    if runner.ident is not None:  # it was started
        runner.join(LOOP_ENDS_WITHIN_S)
    if runner.is_alive():
        log.warning("a turn is cut off: it has not ended within %g s", LOOP_ENDS_WITHIN_S)
    else:
        loop.close()


def _reached(service: ServiceSettings, access: Authenticator) -> Listening:
    url = service.url
    owner = account_name(os.getuid())
    code = access.issue_login_code(owner, Role.ADMIN)
    return Listening(
        url=url,
        login_url=f"{url}/login?code={code}",
        token=access.issue_token(owner, Role.ADMIN),
    )


@contextlib.contextmanager
def _local_socket(settings: Settings) -> Iterator[socket.socket | None]:
    """Listen on the Unix socket for people on this machine; None where its path is too long."""
    path = settings.socket_path
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        log.warning("no socket for this machine's users: %s is too long a path", path)
        yield None
        return
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)  # of a steward that was killed
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        _let_in(path, settings)
        yield listener
    except (OSError, LookupError) as fault:
        raise StewardError(
            f"cannot listen for this machine's users: {fault}",
            where=str(path),
            hint="set service.socket to a path that steward may write to, access.group to a group "
            "that its account belongs to",
        ) from fault
    finally:
        listener.close()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _let_in(path: Path, settings: Settings) -> None:
    """Let members of the configured group connect: who they are is checked per connection."""
    group = settings.access.group
    if not group:
        return
    shutil.chown(path, group=group)
    path.chmod(0o660)
    if path.parent == settings.store.path.absolute():
        shutil.chown(path.parent, group=group)
        path.parent.chmod(0o710)  # they may pass through to the socket and list nothing


def _otlp(loop: Loop[ClusterView], settings: Settings, access: Authenticator) -> OtlpServer | None:
    """Return a server for OTLP over gRPC, if a port is set for it and the loop has an intake."""
    service = settings.service
    if not service.otlp_grpc_port or loop.intake is None:
        return None
    from steward.service.wire.grpc_server import OtlpServer  # noqa: PLC0415 - few sites need gRPC

    tls = None
    if service.tls_certificate:
        certificate = Path(service.tls_certificate).read_bytes()
        tls = (Path(service.tls_key).read_bytes() if service.tls_key else certificate, certificate)
    server = OtlpServer(
        loop.intake,
        access,
        host=shown_host(service.host),
        port=service.otlp_grpc_port,
        tls=tls,
    )
    server.start()
    return server


class _Server(uvicorn.Server):
    """Uvicorn with limited connections and a local socket, whose streams end at a signal."""

    def __init__(
        self,
        app: FastAPI,
        *,
        begin: Callable[[], None],
        listening: Callable[[], None],
        stop_after_s: float | None,
        service: ServiceSettings,
        local: socket.socket | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol_with(
                    ConnectionLimits(most=connections_within(service.max_connections))
                ),
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=3,
                ssl_certfile=service.tls_certificate or None,
                ssl_keyfile=service.tls_key or None,
            )
        )
        self._app = app
        self._begin = begin
        self._listening = listening
        self._stop_after_s = stop_after_s
        self._local = local

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._begin()
            if self._local is not None:
                await self._listen_locally(self._local)
            self._listening()
            if self._stop_after_s is not None:
                timer = threading.Timer(self._stop_after_s, self._end)
                timer.daemon = True
                timer.start()

    async def _listen_locally(self, local: socket.socket) -> None:
        """Serve the Unix socket too, without TLS: the kernel is in between, nothing else."""

        def protocol() -> asyncio.Protocol:
            kind = cast("type[LimitedProtocol]", self.config.http_protocol_class)
            return kind(
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )

        running = asyncio.get_running_loop()
        self.servers.append(await running.create_unix_server(protocol, sock=local))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {each: signal.signal(each, self.handle_exit) for each in signals}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._app.state.live_state.closing.set()

    def _end(self) -> None:
        self._app.state.live_state.closing.set()
        self.should_exit = True

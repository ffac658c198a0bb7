"""Runs the service: the loop in a thread of its own, the web server around it, one clean end."""

from __future__ import annotations

import contextlib
import errno
import signal
import socket
import ssl
import threading
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI

from steward.config.settings import ServiceSettings, Settings
from steward.errors import StewardError
from steward.loop import Loop
from steward.model.view import ClusterView
from steward.observe.receive import warm_up
from steward.service.app import access_of, create_app
from steward.service.authentication import is_loopback
from steward.store.tokens import Tokens

if TYPE_CHECKING:
    from steward.service.wire.grpc_server import OtlpServer

__all__ = ["serve"]

LOOP_ENDS_WITHIN_S = 60.0


def serve(  # noqa: PLR0913 - what a command line may say about it
    loop: Loop[ClusterView],
    settings: Settings,
    *,
    truth: Callable[[], float] | None = None,
    speed: float = 1.0,
    open_browser: bool = False,
    stop_after_s: float | None = None,
    announce: Callable[[str], None] = lambda _address: None,
) -> None:
    """Run until a signal comes, or for `stop_after_s`. Calls `announce` with the address once.

    Raises `StewardError` when it cannot listen, before the loop has started.
    """
    tokens = Tokens(settings.store.tokens_file)
    _refuse_strangers(settings, tokens)
    _check_certificate(settings.service)
    listener = _listen(settings.service.host, settings.service.port)
    port = listener.getsockname()[1]
    service = settings.service.model_copy(update={"port": port})
    settings = settings.model_copy(update={"service": service})
    stop = threading.Event()
    runner = threading.Thread(target=loop.run, args=(stop,), name="loop", daemon=True)
    app = create_app(loop, settings, truth=truth, speed=speed, tokens=tokens, alive=runner.is_alive)
    scheme = "https" if settings.service.tls_certificate else "http"
    address = f"{scheme}://{_shown(settings.service.host)}:{port}"

    def listening() -> None:
        announce(address)
        if open_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    otlp = _otlp(loop, settings, tokens)
    if loop.intake is not None:
        threading.Thread(target=warm_up, name="warm-up").start()
    runner.start()
    try:
        _Server(app, listening=listening, stop_after_s=stop_after_s, service=settings.service).run(
            sockets=[listener]
        )
    finally:
        if otlp is not None:
            otlp.stop()
        stop.set()
        runner.join(LOOP_ENDS_WITHIN_S)
        listener.close()
        loop.close()


def _otlp(loop: Loop[ClusterView], settings: Settings, tokens: Tokens) -> OtlpServer | None:
    """Take OTLP over gRPC, if a port is set for it and there is somebody to give it to."""
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
        access_of(settings, tokens),
        host=_shown(service.host),
        port=service.otlp_grpc_port,
        tls=tls,
    )
    server.start()
    return server


def _refuse_strangers(settings: Settings, tokens: Tokens) -> None:
    host = settings.service.host
    if not is_loopback(host) and not tokens.list():
        raise StewardError(
            f"'{host}' can be reached from other machines, and there is no access token yet",
            where="service.host",
            hint="make one with `steward token new NAME --role operator`, or use 127.0.0.1",
        )


def _check_certificate(service: ServiceSettings) -> None:
    """See that the certificate can be used, before anything is started."""
    if service.tls_key and not service.tls_certificate:
        raise StewardError(
            "there is a key, but no certificate",
            where="service.tls_key",
            hint="set service.tls_certificate as well",
        )
    if service.tls_certificate:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                service.tls_certificate, service.tls_key or None
            )
        except (OSError, ssl.SSLError) as fault:
            raise StewardError(
                f"the certificate cannot be used: {fault.strerror or fault}",
                where=service.tls_certificate,
                hint="both files are in PEM form, the key has no password and belongs to the "
                "certificate",
            ) from fault


def _listen(host: str, port: int) -> socket.socket:
    where = f"{_shown(host)}:{port}"
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except socket.gaierror as fault:
        raise StewardError(
            f"'{host}' is not an address of this machine: {fault.strerror}",
            where="service.host",
            hint="use 127.0.0.1 for this machine alone, 0.0.0.0 for all its addresses",
        ) from fault
    except OSError as fault:
        raise StewardError(
            _REASONS.get(fault.errno or 0, f"cannot listen here: {fault.strerror}"),
            where=where,
            hint="choose another port with --port (0 takes a free one) or set service.host",
        ) from fault


_REASONS = {
    errno.EADDRINUSE: "this port is in use by another program",
    errno.EACCES: "this port may only be used by the administrator",
    errno.EADDRNOTAVAIL: "this machine does not have this address",
}


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class _Server(uvicorn.Server):
    """Uvicorn that says when it listens, lets streams end, and keeps signals to itself."""

    def __init__(
        self,
        app: FastAPI,
        *,
        listening: Callable[[], None],
        stop_after_s: float | None,
        service: ServiceSettings,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
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
        self._listening = listening
        self._stop_after_s = stop_after_s

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._listening()
            if self._stop_after_s is not None:
                timer = threading.Timer(self._stop_after_s, self._end)
                timer.daemon = True
                timer.start()

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

"""A real Prometheus on ports of its own, and a steward that it writes to and scrapes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx

from patience import free_port, until
from steward.store.tokens import Role, Tokens

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """A Prometheus that answers."""

    address: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A steward and an exporter, as `HOST:PORT`; files with a viewer's and an agent's token."""

    steward: str
    exporter: str
    viewer: Path
    agent: Path

    @property
    def headers(self) -> dict[str, str]:
        """What a program that reads sends to be let in."""
        return {"Authorization": f"Bearer {self.viewer.read_text()}"}


@contextmanager
def prometheus(
    folder: Path,
    *,
    scrape: Mapping[str, str],
    write_to: str = "",
    token: Path | None = None,
    env: Mapping[str, str] | None = None,
    before: tuple[str, ...] = (),
) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes every second, with a token for all that it speaks to.

    `before` goes in front of its command.
    """
    program = shutil.which("prometheus")
    assert program, "prometheus is not installed: run scripts/install-real-parts"
    folder.mkdir(parents=True, exist_ok=True)
    credentials = f", authorization: {{credentials_file: '{token}'}}" if token else ""
    targets = [
        f"  - {{job_name: {name}, static_configs: [{{targets: ['{target}']}}]{credentials}}}\n"
        for name, target in scrape.items()
    ]
    text = "global: {scrape_interval: 1s}\nscrape_configs:\n" + "".join(targets)
    if write_to:
        text += (
            f"remote_write:\n  - {{url: '{write_to}', queue_config: {{batch_send_deadline: 1s}}"
            f"{credentials}}}\n"
        )
    (folder / "prometheus.yml").write_text(text)
    port = free_port()
    started = subprocess.Popen(
        [
            *before,
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--web.enable-remote-write-receiver",
        ],
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{address}/-/ready")
        yield Prometheus(address=address, pid=started.pid)
    finally:
        started.kill()
        started.wait()


@contextmanager
def upstream(folder: Path, *, exposition: bytes = b"", settings: str = "") -> Iterator[Upstream]:
    """Run `steward up` with an intake, beside an exporter that always shows the same."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "steward.toml").write_text(
        f'[observe]\ncollectors = ["host"]\n[loop]\nevery_s = 1.0\n{settings}'
    )
    tokens = Tokens(folder / "store" / "tokens.json")
    files = {role: folder / f"{role.value}.token" for role in (Role.VIEWER, Role.AGENT)}
    for role, file in files.items():
        file.write_text(tokens.make(role.value, role, node="*" if role is Role.AGENT else ""))
    port = free_port()
    command = [
        *(sys.executable, "-c", "from steward.cli import main; main()", "up", "--no-browser"),
        *("--config", str(folder / "steward.toml"), "--data", str(folder / "store")),
        *("--port", str(port)),
    ]
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=dict(os.environ))
    try:
        with exporter(exposition) as shown:
            _wait_for(f"http://127.0.0.1:{port}/readyz")
            yield Upstream(
                steward=f"127.0.0.1:{port}",
                exporter=shown,
                viewer=files[Role.VIEWER],
                agent=files[Role.AGENT],
            )
    finally:
        program.terminate()
        program.wait()


@contextmanager
def agent(folder: Path, *, server: Upstream, settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `steward observe agent`, which sends to a server and forwards as its settings say."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "steward.toml").write_text(settings)
    command = [
        *(sys.executable, "-c", "from steward.cli import main; main()", "observe", "agent"),
        *("--config", str(folder / "steward.toml"), "--spool", str(folder / "spool")),
        *("--server", f"http://{server.steward}", "--token-file", str(server.agent)),
        *("--collectors", "host", "--node", "far"),
    ]
    program = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=dict(os.environ))
    try:
        yield program
    finally:
        program.terminate()
        program.wait()


@contextmanager
def exporter(exposition: bytes) -> Iterator[str]:
    """Run an exporter that always shows the same; gives `HOST:PORT`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(exposition)

        def log_message(self, *_rest: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _wait_for(address: str) -> None:
    until(lambda: _answers(address), why=address)


def _answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=30).status_code == 200
    except httpx.TransportError:
        return False

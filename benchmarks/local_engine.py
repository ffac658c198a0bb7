"""What does it cost to let steward run the jobs of one machine, beside task-spooler and pueue?

One site with 100 CPU slots: 100 jobs run and 1,000 wait. Measured are how fast jobs are submitted
(each peer by its own command line, one process per job, as people and scripts do; steward's API
apart: one connection, and an array in one request), how long a job takes from the beginning of its
submission to its first instruction on an idle site, and the processor time and the memory of the
daemon while 1,100 jobs are there and nothing changes; with the private memory of the processes that
it has per job (steward a shim for each that runs, task-spooler a client for each that is there).

Each figure is taken in the same run, the peers in turn, with the same jobs. A peer that is not
installed is left out, with the reason. pueue is not in Debian; a `pueue` and `pueued` on the path
are used.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import bar, finish, progress, quick

SLOTS, QUEUED = 100, 1000
BY_CLI = 30  # submissions per peer and round, each a process of its own
BY_API = 500
STARTS = 40
IDLE_S = 20.0
WITHIN_S = 600.0
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
FULL = 2  # exit status of a peer that takes no more jobs
IDLE_CONNECTION_S = 2.0  # the server closes one that is silent for longer


def until(ask: Callable[[], Any], what: str) -> Any:  # noqa: ANN401 - what is asked for
    """Ask until the answer is something, and return it."""
    end_s = time.monotonic() + WITHIN_S
    while not (answer := ask()):
        if time.monotonic() > end_s:
            sys.exit(f"error: waited {WITHIN_S:.0f} s in vain for {what}")
        time.sleep(0.02)
    return answer


def cpu_s(pid: int) -> float:
    """Return the processor time of a process and of its children that have ended."""
    cells = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, cells[11:15])) / TICKS


def memory_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def helpers(mark: bytes) -> dict[int, int]:
    """Return the processes of a peer with a mark in their command or environment: private bytes."""
    found = {}
    for place in Path("/proc").iterdir():
        try:
            words = (place / "cmdline").read_bytes() + (place / "environ").read_bytes()
            if place.name.isdigit() and mark in words:
                cells = (place / "statm").read_text().split()
                found[int(place.name)] = (int(cells[1]) - int(cells[2])) * PAGE
        except OSError:
            continue
    return found


@dataclass(kw_only=True)
class Peer:
    """What runs jobs: a command that submits one, and the process that keeps them."""

    name: str
    command: list[str]
    pid: int
    environment: dict[str, str]
    mark: bytes  # in the command or environment of its processes, which are `program`
    program: str

    def submit(self, *argv: str) -> bool:
        """Submit one job by a process of its own; return False where it is refused as too many."""
        done = subprocess.run(
            [*self.command, *argv],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            check=False,
            cwd="/",
        )
        if done.returncode not in (0, FULL):
            sys.exit(f"error: {self.name} exits with {done.returncode}: {argv}")
        return done.returncode == 0

    def submits_per_s(self, count: int) -> float:
        """Return how many submissions a second one script gets done."""
        began_s = time.monotonic()
        for _ in range(count):
            self.submit("true")
        return count / (time.monotonic() - began_s)

    def start_latencies_ms(self, folder: Path, count: int) -> list[float]:
        """Return the times from the beginning of a submission to the job's first instruction."""
        return started_ms(folder / self.name, count, lambda argv: self.submit(*argv))

    def memory(self) -> dict[str, float]:
        """Return the memory of the daemon, and of the processes that it has for jobs."""
        mine = {
            pid: size
            for pid, size in helpers(self.mark).items()
            if pid != self.pid and self.program in Path(f"/proc/{pid}/comm").read_text()
        }
        return {
            "memory_mb": round(memory_bytes(self.pid) / 1e6, 1),
            "helpers": len(mine),
            "helpers_mb": round(sum(mine.values()) / 1e6, 1),
        }


def started_ms(stem: Path, count: int, submit: Callable[[list[str]], object]) -> list[float]:
    """Submit jobs one after the other that write down when they began."""
    found = []
    for number in range(count):
        file = stem.with_name(f"{stem.name}-{number}.txt")
        submitted_s = time.time()
        submit(["sh", "-c", f"date +%s%N > {file}.tmp; mv {file}.tmp {file}"])
        until(file.exists, f"the start of {file.name}")
        found.append((int(file.read_text()) / 1e9 - submitted_s) * 1000)
        file.unlink()
    return found


def p95(values: list[float]) -> float:
    """Return the 95th percentile."""
    return round(statistics.quantiles(values, n=20)[-1], 1)


# -- steward ---------------------------------------------------------------------------------------


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket, kept open."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=WITHIN_S)
        self._path = str(path)
        self._used_s = time.monotonic()

    def connect(self) -> None:
        """Connect to the path."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:  # noqa: ANN401 - JSON
        """Return the answer to a request; end the benchmark where it is refused."""
        if time.monotonic() - self._used_s > IDLE_CONNECTION_S:
            self.close()  # the next request connects again
        sent = None if body is None else json.dumps(body)
        self.request(method, f"/api/v1/{path}", sent, {"content-type": "application/json"})
        reply = self.getresponse()
        answer = json.loads(reply.read())
        self._used_s = time.monotonic()
        if reply.status >= http.HTTPStatus.BAD_REQUEST:
            sys.exit(f"error: {method} {path}: {answer}")
        return answer


class Steward:
    """`steward up` on a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "data" / "steward.sock"
        self.config = folder / "steward.toml"
        self.config.write_text(
            f'[store]\nfolder = "{folder / "data"}"\n[loop]\nautonomy = "auto"\n'
            f"[jobs]\nslots = {SLOTS}\n[observe]\ncollectors = []\n[rules]\non = false\n"
            "[service]\nrequests_per_minute = 1000000\n"
        )
        self.environment = {**os.environ}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation has its bytecode
        command = [sys.executable, "-m", "steward", "up", "--port", "0", "--no-browser"]
        with (folder / "up.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--config", str(self.config)],
                stdout=log,
                stderr=log,
                env=self.environment,
            )
        self.connection = until(self._connected, "steward up")

    def _connected(self) -> UnixConnection | None:
        if self.process.poll() is not None:
            sys.exit((self.folder / "up.log").read_text())
        made = UnixConnection(self.socket)
        try:
            made.ask("GET", "jobs?limit=1")
        except OSError:
            return None
        return made

    def peer(self) -> Peer:
        """Return it as what the others are: a command and a daemon."""
        script = Path(sys.executable).with_name("steward")
        program = [str(script)] if script.exists() else [sys.executable, "-m", "steward"]
        command = [*program, "jobs", "submit", "--config", str(self.config), "--export=NONE", "--"]
        return Peer(
            name="steward",
            command=command,
            pid=self.process.pid,
            environment=self.environment,
            mark=str(self.folder / "data" / "jobs").encode(),
            program="python",
        )

    def counts(self) -> dict[str, int]:
        """Return how many open jobs are in which state."""
        found: dict[str, int] = {}
        for each in self.connection.ask("GET", "jobs?limit=10000"):
            found[each["state"]] = found.get(each["state"], 0) + 1
        return found

    def drain(self) -> None:
        """Wait until no job is open."""
        until(lambda: not self.counts(), "the jobs to end")

    def by_api(self, count: int) -> float:
        """Return how many submissions a second one open connection gets done."""
        began_s = time.monotonic()
        for _ in range(count):
            self.connection.ask("POST", "jobs", {"argv": ["true"], "folder": "/", "hold": True})
        return count / (time.monotonic() - began_s)

    def post(self, argv: list[str]) -> None:
        """Submit one job over the open connection."""
        self.connection.ask("POST", "jobs", {"argv": argv, "folder": "/"})

    def by_array(self, count: int) -> float:
        """Return how many tasks a second one request adds."""
        body = {"argv": ["true"], "folder": "/", "hold": True, "indices": [*range(count)]}
        began_s = time.monotonic()
        self.connection.ask("POST", "jobs", body)
        return count / (time.monotonic() - began_s)

    def cancel_all(self) -> None:
        """End all jobs."""
        heads = {each["id"].partition("_")[0] for each in self.connection.ask("GET", OPEN)}
        for each in sorted(heads, key=int):
            self.connection.ask("POST", f"jobs/{each}/cancel", {})
        self.drain()

    def close(self) -> None:
        """End steward; its jobs are over."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(WITHIN_S)


OPEN = "jobs?limit=10000"


@contextmanager
def steward_site() -> Iterator[Steward]:
    """Start steward, let it compile, and end it."""
    with tempfile.TemporaryDirectory(prefix="steward-bench-", dir="/var/tmp") as text:
        made = Steward(Path(text))
        try:
            made.connection.ask("POST", "jobs", {"argv": ["true"], "folder": "/"})
            made.drain()
            yield made
        finally:
            made.close()


# -- the others ------------------------------------------------------------------------------------


@contextmanager
def task_spooler(folder: Path) -> Iterator[Peer | str]:
    """Start task-spooler with as many slots; a text says why it cannot be."""
    program = shutil.which("tsp")
    if program is None:
        yield "not installed: apt-get install task-spooler"
        return
    environment = {**os.environ, "TS_SOCKET": str(folder / "tsp"), "TMPDIR": str(folder)}
    subprocess.run([program, "-S", str(SLOTS)], env=environment, check=True)
    found = subprocess.run(["pgrep", "-x", "-n", "tsp"], capture_output=True, text=True, check=True)
    made = Peer(
        name="task-spooler",
        command=[program, "-B"],  # exits with 2 where it would wait for others to end
        pid=int(found.stdout),
        environment=environment,
        mark=f"TS_SOCKET={folder / 'tsp'}".encode(),
        program="tsp",
    )
    try:
        yield made
    finally:
        subprocess.run([program, "-K"], env=environment, check=False)
        end_marked(made.mark)


@contextmanager
def pueue(folder: Path) -> Iterator[Peer | str]:
    """Start pueue's daemon with as many slots; a text says why it cannot be."""
    program, daemon = shutil.which("pueue"), shutil.which("pueued")
    if program is None or daemon is None:
        yield "not installed: Debian and PyPI have none; cargo install pueue"
        return
    config = folder / "pueue.yml"
    config.write_text(
        f"shared:\n  pueue_directory: {folder}/pueue\n  runtime_directory: {folder}\n"
        f"  use_unix_socket: true\n  unix_socket_path: {folder}/pueue.socket\n"
        f"client: {{}}\ndaemon:\n  default_parallel_tasks: {SLOTS}\n"
    )
    process = subprocess.Popen(
        [daemon, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until((folder / "pueue.socket").exists, "pueued")
    subprocess.run([program, "-c", str(config), "parallel", str(SLOTS)], check=True)
    command = [program, "-c", str(config), "add", "--"]
    mark = f"{folder}/pueue".encode()
    made = Peer(
        name="pueue",
        command=command,
        pid=process.pid,
        environment={**os.environ},
        mark=mark,
        program="pueue",
    )
    try:
        yield made
    finally:
        process.terminate()
        process.wait(WITHIN_S)
        end_marked(mark)


def end_marked(mark: bytes) -> None:
    """End what a peer left behind."""
    for pid in {*helpers(mark)} - {os.getpid()}:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# -- measuring -------------------------------------------------------------------------------------


def at_rest(peer: Peer, seconds: float) -> dict[str, float]:
    """Return what a daemon uses while nothing changes."""
    began_s, before_s = time.monotonic(), cpu_s(peer.pid)
    time.sleep(seconds)
    share = (cpu_s(peer.pid) - before_s) / (time.monotonic() - began_s)
    return {"cpu_share": round(share, 4), **peer.memory()}


def measure_peer(peer: Peer, folder: Path, *, short: bool) -> dict[str, Any]:
    """Return what all have in common: submission by command line, start, cost at rest."""
    progress(f"{peer.name}: start latency")
    late_ms = peer.start_latencies_ms(folder, STARTS // (4 if short else 1))
    progress(f"{peer.name}: submission by command line")
    rate = peer.submits_per_s(BY_CLI // (3 if short else 1))
    return {
        "submit_cli_per_s": round(rate, 2),
        "start_p50_ms": round(statistics.median(late_ms), 1),
        "start_p95_ms": p95(late_ms),
    }


def fill(submit: Callable[[], None], peer: Peer, *, short: bool) -> dict[str, float]:
    """Fill a site and return what its daemon uses with all of it there."""
    progress(f"{peer.name}: {SLOTS} running, {QUEUED} waiting")
    submit()
    time.sleep(2.0)
    return at_rest(peer, IDLE_S / (4 if short else 1))


def measure_steward(folder: Path, *, short: bool) -> dict[str, Any]:
    """Return the figures of steward, its API among them."""
    with steward_site() as site:
        peer = site.peer()
        found = measure_peer(peer, folder, short=short)
        site.drain()
        progress("steward: submission over the API")
        late_ms = started_ms(folder / "api", STARTS // (4 if short else 1), site.post)
        found["start_api_p50_ms"] = round(statistics.median(late_ms), 1)
        found["start_api_p95_ms"] = p95(late_ms)
        site.drain()
        found["submit_api_per_s"] = round(site.by_api(BY_API // (5 if short else 1)), 1)
        found["submit_array_per_s"] = round(site.by_array(QUEUED), 1)
        site.cancel_all()

        def submit() -> None:
            body = {"argv": ["sleep", "100000"], "folder": "/", "indices": [*range(SLOTS + QUEUED)]}
            site.connection.ask("POST", "jobs", body)
            until(lambda: site.counts().get("running") == SLOTS, "all slots to be taken")

        began_s = time.monotonic()
        found |= fill(submit, peer, short=short)
        found["filled_s"] = round(time.monotonic() - began_s, 1)
        found["counts"] = site.counts()
        site.cancel_all()
        return found


def measure_other(peer: Peer, folder: Path, *, short: bool) -> dict[str, Any]:
    """Return the figures of another tool."""
    found = measure_peer(peer, folder, short=short)

    taken: list[bool] = []

    def submit() -> None:
        while len(taken) < SLOTS + QUEUED and (not taken or taken[-1]):
            taken.append(peer.submit("sleep", "100000"))

    began_s = time.monotonic()
    found |= fill(submit, peer, short=short)
    found["jobs_taken"] = sum(taken)  # task-spooler holds at most about a thousand
    found["filled_s"] = round(time.monotonic() - began_s, 1)
    return found


def main() -> None:
    """Measure all that is here and compare."""
    short = quick()
    results: dict[str, Any] = {"load_before": os.getloadavg()[0], "cores": os.cpu_count()}
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="peers-") as text:
        folder = Path(text)
        results["steward"] = measure_steward(folder, short=short)
        for name, start in (("task-spooler", task_spooler), ("pueue", pueue)):
            place = folder / name
            place.mkdir()
            with start(place) as peer:
                if isinstance(peer, str):
                    missing[name] = peer
                else:
                    results[name] = measure_other(peer, folder, short=short)
    ours = results["steward"]
    ratios = {
        name: {
            key: round(ours[key] / value, 3) if (value := found[key]) else None
            for key in ("submit_cli_per_s", "start_p95_ms", "cpu_share", "memory_mb")
        }
        for name, found in results.items()
        if name in ("task-spooler", "pueue")
    }
    bars = [
        bar("submissions a second over one connection", ours["submit_api_per_s"], ">=", 50.0),
        bar("tasks of an array a second", ours["submit_array_per_s"], ">=", 500.0),
        bar("submissions a second by command line", ours["submit_cli_per_s"], ">=", 2.0),
        bar("from request to start, p95, ms", ours["start_api_p95_ms"], "<=", 1000.0),
        bar("from command to start, p95, ms", ours["start_p95_ms"], "<=", 2000.0),
        bar("share of a core with 1,100 jobs", ours["cpu_share"], "<=", 0.10),
        bar("memory with 1,100 jobs, MB", ours["memory_mb"], "<=", 600.0),
    ]
    finish("local_engine", {**results, "steward_to_peer": ratios, "left_out": missing}, bars=bars)


if __name__ == "__main__":
    main()

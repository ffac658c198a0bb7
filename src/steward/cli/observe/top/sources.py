"""Where `top` looks: this machine, a store folder, or a steward elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from steward.cli.observe.top.scene import HostLine, JobHistory, JobLine, Scene, Seen, is_gpu
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.config import Settings
    from steward.model.event import Observation
    from steward.model.job import Job
    from steward.observe.latest import Latest
    from steward.ports import Collector

__all__ = ["Folder", "LocalMachine", "Server", "Source"]

BUSY = "gpu.busy_share"
FAST = ("host", "nvml", "cgroups")
SLOW = ("processes",)  # reads every process: a few times a minute are enough
SLOW_EVERY_S = 5.0
FRESH_S = 30.0
STEP_S, LOOKED_BACK_S = 10.0, 600.0
MOST_GPUS = 512
MOST_JOBS = 2000


class Source(Protocol):
    """Gives a scene when it is asked."""

    @property
    def every_s(self) -> float:
        """How often it is worth asking."""
        ...

    def look(self) -> Scene: ...

    def close(self) -> None: ...


class LocalMachine:
    """The machine it runs on, through the same samplers that record it."""

    def __init__(self, settings: Settings, *, every_s: float) -> None:
        from steward.config.plugs import own_options
        from steward.observe.collectors import COLLECTORS
        from steward.observe.latest import Latest
        from steward.observe.watch import Watch
        from steward.registry import resolve

        self.every_s = every_s
        self.notes: list[str] = []
        self._latest = Latest()
        self._past = JobHistory()
        self._jobs: dict[str, Job] = {}
        self._holders: dict[str, dict[str, str]] = {}  # GPU: span: job
        made: dict[str, list[Collector]] = {"fast": [], "slow": []}
        for name in (*FAST, *SLOW):
            options = own_options("collector", name, settings.plugs.get(name, {}))
            each = resolve("collector", name, COLLECTORS)(**options)
            state = each.available()
            if state.status != "missing":
                made["fast" if name in FAST else "slow"].append(_narrowed(each))
            elif name == "nvml":
                self.notes.append(f"no GPUs: {state.reason}")
        self._watches = [
            (Watch(made["fast"], sample_every_s=every_s), every_s),
            (Watch(made["slow"]), max(SLOW_EVERY_S, every_s)),
        ]
        self._due_s = [0.0, 0.0]

    def settle(self) -> None:
        """Look once and wait for a tick: rates need two readings."""
        self.look()
        time.sleep(self.every_s + 0.1)
        self._due_s = [0.0, 0.0]

    def look(self) -> Scene:
        t_s = time.time()
        for at, (watch, every_s) in enumerate(self._watches):
            if time.monotonic() >= self._due_s[at]:
                self._due_s[at] = time.monotonic() + every_s - 0.05
                seen, _ = watch.look(t_s)
                self._latest.take(seen.tables)
                self._follow(seen)
        values = _values(self._latest, since_s=t_s - FRESH_S)
        for name, each in values.items():
            if is_gpu(name):
                self._past.remember(t_s, name, each.get(BUSY))
        return self._past.scene(
            Seen(
                t_s=t_s,
                values=values,
                users=self._users(),
                holders=self._held(),
                running=self._running(),
            ),
            source="this machine",
            notes=self.notes,
        )

    def close(self) -> None:
        for watch, _ in self._watches:
            watch.close()

    def _follow(self, seen: Observation) -> None:
        for job in seen.jobs:
            self._jobs[str(job.id)] = job
            if job.state.ended:
                del self._jobs[str(job.id)]
        for span in seen.spans:
            if span.kind == "job" and is_gpu(span.entity):
                held = self._holders.setdefault(span.entity, {})
                held[span.id] = span.name
                if span.to_s is not None:
                    del held[span.id]

    def _users(self) -> dict[str, str]:
        return {id_: job.user for id_, job in self._jobs.items()}

    def _running(self) -> tuple[str, ...]:
        from steward.model.job import JobState

        return tuple(id_ for id_, job in self._jobs.items() if job.state is JobState.RUNNING)

    def _held(self) -> dict[str, tuple[str, ...]]:
        held = {gpu: dict.fromkeys(spans.values()) for gpu, spans in self._holders.items()}
        for id_, job in self._jobs.items():
            for gpu in job.gpus:
                held.setdefault(str(gpu), {})[id_] = None
        return {gpu: tuple(jobs) for gpu, jobs in held.items() if jobs}


def _narrowed(collector: Collector) -> Collector:
    from steward.cli.observe.top.narrow import Narrow
    from steward.ports import Sampler

    return Narrow(collector) if isinstance(collector, Sampler) else collector


def _values(latest: Latest, *, since_s: float) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for column in latest.columns(since_s=since_s):
        name = column.metric.name
        if column.metric.of in ("gpu", "node", "job", "share"):
            for entity, value in zip(column.entities, column.values.tolist(), strict=True):
                found.setdefault(entity, {})[name] = value
    return found


class Folder:
    """The newest moment of a store folder: a recording, an import, or what a steward keeps."""

    every_s = 5.0

    def __init__(self, folder: Path) -> None:
        from steward.store.query import Query
        from steward.store.telemetry import Telemetry

        self._query = Query(folder)  # says what is wrong if this is no store folder
        self._folder = folder
        self._telemetry = Telemetry(folder / "telemetry", keep_days=None)

    def look(self) -> Scene:
        from steward.model.frame import ENTITY, T_S
        from steward.observe.latest import Latest

        newest_s = self._query.newest_s()
        rows = self._telemetry.read(from_s=newest_s - FRESH_S, to_s=newest_s)
        latest = Latest()
        latest.take([rows])
        past = JobHistory()
        steps = self._telemetry.read(
            metrics=[BUSY], from_s=newest_s - LOOKED_BACK_S, to_s=newest_s, step_s=STEP_S
        )
        if steps.height:
            for t_s, name, busy in steps.sort(T_S).select(T_S, ENTITY, f"{BUSY}.mean").iter_rows():
                past.remember(t_s, name, busy)
        users, holders = self._who(newest_s)
        values = _values(latest, since_s=newest_s - FRESH_S)
        notes = [] if any(map(is_gpu, values)) else ["no GPUs: there are no samples of any here"]
        seen = Seen(t_s=newest_s, values=values, users=users, holders=holders)
        return past.scene(seen, source=str(self._folder), notes=notes)

    def close(self) -> None:
        self._query.close()

    def _who(self, t_s: float) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
        from steward.store.files.spans import read_spans

        users: dict[str, str] = {}
        held: dict[str, dict[str, None]] = {}
        for span in read_spans(self._folder, lambda _: None):
            holds = span.from_s <= t_s and (span.to_s is None or span.to_s >= t_s)
            if span.kind == "job" and holds:
                users[span.name] = span.about.get("user", "")
                if is_gpu(span.entity):
                    held.setdefault(span.entity, {})[span.name] = None
        return users, {gpu: tuple(jobs) for gpu, jobs in held.items()}


class Server:
    """A steward that runs somewhere: what it knows of its cluster."""

    every_s = 2.0

    def __init__(self, url: str, token_file: Path | None) -> None:
        import httpx

        from steward.clients.steward_server import read_token

        headers = {"Authorization": f"Bearer {read_token(token_file)}"} if token_file else {}
        self._url = url.rstrip("/")
        self._client = httpx.Client(headers=headers, timeout=10.0, trust_env=False)
        self._past = JobHistory()

    def look(self) -> Scene:
        cluster = self._get(f"/api/v1/cluster?queue_limit=0&running_limit={MOST_JOBS}")
        nodes = {each["id"]: each for each in self._get("/api/v1/nodes")["items"]}
        t_s = float(cluster["t_s"])
        rows = [gpu for node in cluster["nodes"] for gpu in node["gpus"]]
        for gpu in rows:
            self._past.remember(t_s, gpu["id"], gpu["busy_share"])
        notes = [] if rows else ["no GPUs: that steward knows of none"]
        values = {gpu["id"]: _gpu_values(gpu) for gpu in rows}
        holders = {gpu["id"]: _jobs_of(gpu) for gpu in rows if gpu["owner"]}
        states = {gpu["id"]: str(gpu["state"]) for gpu in rows}
        idle: dict[str, list[float | None]] = {}
        for gpu in rows:
            idle.setdefault(gpu["owner"] or "", []).append(gpu["idle_s"])
        users = {job["id"]: job["user"] for job in cluster["running"]}
        there = [job for node in nodes.values() for job in node["jobs"]]
        running = tuple(dict.fromkeys((*users, *there)))
        seen = Seen(t_s=t_s, values=values, users=users, holders=holders, running=running)
        scene = self._past.scene(seen, source=f"{cluster['site']} at {self._url}", notes=notes)
        return Scene(
            t_s=t_s,
            source=scene.source,
            hosts=tuple(host for each in nodes.values() if (host := _host(each)).values),
            gpus=tuple(replace(each, state=states[each.id]) for each in scene.gpus[:MOST_GPUS]),
            jobs=tuple(_with_idle(each, idle.get(each.id, [])) for each in scene.jobs),
            notes=scene.notes,
        )

    def close(self) -> None:
        self._client.close()

    def _get(self, path: str) -> Any:  # noqa: ANN401 - JSON of our own API
        import httpx

        try:
            reply = self._client.get(self._url + path)
            said = reply.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as fault:
            raise StewardError(
                f"no steward answers there: {fault or type(fault).__name__}",
                where=self._url,
                hint="is `steward up` running, and is this the address that it prints?",
            ) from fault
        if reply.is_success:
            return said
        error = said.get("error", {}) if isinstance(said, dict) else {}
        problem = error.get("problem") or f"it answers {reply.status_code}"
        hint = error.get("hint") or "is this the address of a steward?"
        raise StewardError(problem, where=self._url, hint=hint)


def _gpu_values(gpu: Mapping[str, Any]) -> dict[str, float]:
    names = {
        BUSY: "busy_share",
        "gpu.memory.used_bytes": "memory_used_bytes",
        "gpu.memory.limit_bytes": "memory_bytes",
        "gpu.power_watts": "power_watts",
    }
    return {ours: gpu[theirs] for ours, theirs in names.items() if gpu[theirs] is not None}


def _jobs_of(gpu: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(job for job in (gpu["owner"], gpu["borrower"]) if job)


def _host(node: Mapping[str, Any]) -> HostLine:
    names = {
        "host.cpu.busy_share": "cpu_busy_share",
        "host.memory.used_bytes": "memory_used_bytes",
        "host.memory.limit_bytes": "memory_limit_bytes",
    }
    known = {ours: node[name] for ours, name in names.items() if node[name] is not None}
    return HostLine(node=node["id"], values=known)


def _with_idle(line: JobLine, own: list[float | None]) -> JobLine:
    """Take the server's word for how long a job has rested: it has looked for longer."""
    known = [each for each in own if each is not None]
    return replace(line, idle_s=min(known) if own and len(known) == len(own) else None)

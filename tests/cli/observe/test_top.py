"""`steward observe top`: what it shows, of whom it says that they rest, and how it refuses."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, replace
from pathlib import Path

import httpx
import numpy as np
import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

from factories import job, view
from service.running import running
from steward.cli.app import app
from steward.cli.observe.top.command import _after
from steward.cli.observe.top.drawing import SORTS, Looks, draw, sorted_jobs
from steward.cli.observe.top.narrow import Narrow
from steward.cli.observe.top.scene import JobHistory, JobLine, Scene, Seen
from steward.cli.observe.top.sources import Server
from steward.model.cluster_snapshot import cluster_snapshot
from steward.model.event import Availability, Observation
from steward.model.identity import NodeId
from steward.model.job import JobState
from steward.model.layout import Block, Layout
from steward.model.span import Span
from steward.store.recording import Recording

NOW_S = 1_700_000_000.0
GIB = 2.0**30


def ran(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["observe", "top", *args], env={"COLUMNS": "120"})
    return done.exit_code, done.output


def seen(gpus: int = 2, busy: float = 0.9, t_s: float = NOW_S) -> Seen:
    values = {
        f"n1/gpu{at}": {
            "gpu.busy_share": busy,
            "gpu.sm.active_share": 0.5,
            "gpu.memory.used_bytes": 40 * GIB,
            "gpu.memory.limit_bytes": 80 * GIB,
            "gpu.power_watts": 650.0,
            "gpu.power.limit_watts": 700.0,
            "gpu.temperature_celsius": 70.0,
            "gpu.throttle_bits": 4.0,
        }
        for at in range(gpus)
    }
    host = {"host.cpu.busy_share": 0.25, "host.load_1m": 3.5, "host.pressure.io.some_share": 0.1}
    holders = {f"n1/gpu{at}": ("812",) for at in range(gpus)}
    return Seen(
        t_s=t_s,
        values={"n1": host, **values, "n1@812": {"job.cpu.busy_cores": 3.0}},
        users={"812": "ada"},
        holders=holders,
    )


def scene_after(minutes: float, busy: float) -> Scene:
    past = JobHistory()
    for at in range(int(60 * minutes) + 1):
        for gpu in ("n1/gpu0", "n1/gpu1"):
            past.remember(NOW_S + at, gpu, busy)
    return past.scene(seen(busy=busy, t_s=NOW_S + 60 * minutes), source="a test")


def drawn(scene: Scene, *, width: int = 120, height: int = 40, **looks: object) -> str:
    console = Console(width=width, file=io.StringIO(), highlight=False)
    console.print(draw(scene, Looks(width=width, height=height, **looks)))  # type: ignore[arg-type]
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


# -- what is shown -----------------------------------------------------------------------------


def test_machines_gpus_and_jobs_stand_there_with_their_figures() -> None:
    text = drawn(scene_after(1, 0.9))

    assert "load 3.5" in text
    assert "waits cpu/mem/io ?/?/10%" in text
    assert "650/700 W" in text
    assert "power cap" in text
    assert "812" in text
    assert "ada" in text
    assert "80.0 GiB" in text  # of both its GPUs


@pytest.mark.parametrize(("busy", "idle"), [(0.0, True), (0.9, False)])
def test_who_holds_gpus_and_rests_is_marked(busy: float, *, idle: bool) -> None:
    scene = scene_after(2, busy)

    assert [job.is_idle for job in scene.jobs] == [idle]
    assert ("idle 2" in drawn(scene)) is idle


def test_a_gpu_that_says_nothing_is_unknown_and_not_idle() -> None:
    past = JobHistory()
    for at in range(200):
        past.remember(NOW_S + at, "n1/gpu0", None)
    silent = replace(seen(), values={"n1/gpu0": {}}, holders={"n1/gpu0": ("812",)})
    scene = past.scene(silent, source="a test")

    assert scene.jobs[0].idle_s is None
    assert "?" in drawn(scene)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 60)])
def test_it_fits_the_terminal_with_many_gpus_and_jobs(width: int, height: int) -> None:
    jobs = tuple(JobLine(id=f"job-{at}", gpus=("n1/gpu0",)) for at in range(300))
    scene = replace(JobHistory().scene(seen(gpus=64), source="a test"), jobs=jobs)

    lines = drawn(scene, width=width, height=height).splitlines()

    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_scrolling_ends_where_the_jobs_end() -> None:
    jobs = tuple(JobLine(id=f"job-{at:03}") for at in range(100))
    scene = Scene(t_s=NOW_S, source="a test", jobs=jobs)

    text = drawn(scene, height=24, sort="job", scrolled=10_000)

    assert "job-099" in text
    assert "job-000" not in text


def test_names_of_jobs_cannot_steer_the_terminal() -> None:
    scene = Scene(t_s=NOW_S, source="a test", jobs=(JobLine(id="\x1b[2Jboo"),))

    assert "\x1b" not in drawn(scene)


# -- keys and order ----------------------------------------------------------------------------


def test_keys_change_order_filter_and_place() -> None:
    looks = Looks(width=80, height=24)

    assert _after("s", looks).sort == SORTS[1]
    assert _after("i", looks).only_idle
    assert _after("down", _after("page-down", looks)).scrolled == 11
    assert _after("up", looks).scrolled == 0
    assert _after("x", looks) == looks


def test_jobs_are_sorted_by_what_was_chosen_and_only_idle_ones_if_asked() -> None:
    resting = JobLine(id="a", gpus=("g",), busy_share=0.0, idle_s=300.0, cpu_cores=1.0)
    working = JobLine(id="b", gpus=("g",), busy_share=0.9, cpu_cores=9.0)
    looks = Looks(width=80, height=24)

    def order(looks: Looks) -> list[str]:
        return [job.id for job in sorted_jobs((resting, working), looks)]

    assert order(looks) == ["b", "a"]
    assert order(replace(looks, sort="idle")) == ["a", "b"]
    assert order(replace(looks, sort="cpu")) == ["b", "a"]
    assert order(replace(looks, only_idle=True)) == ["a"]


# -- sources -----------------------------------------------------------------------------------


class Two:
    """A sampler with a metric that is shown and one that is not."""

    name, vocabulary = "two", "canonical"
    _layout = Layout(
        blocks=(
            Block(entity="n1", names=("host.load_1m", "host.memory.slab_bytes")),
            Block(entity="n1/cpu0", names=("cpu.busy_share",)),
            Block(entity="n1/gpu0", names=("gpu.fan.speed_share", "gpu.busy_share")),
        )
    )

    def available(self) -> Availability:
        return Availability(status="ok", reason="a test")

    def layout(self) -> Layout:
        return self._layout

    def sample(self, into: np.ndarray) -> None:
        into[:] = range(5)

    def collect(self, t_s: float) -> Observation:
        raise NotImplementedError(t_s)

    def close(self) -> None: ...


def test_only_what_is_shown_is_taken_from_a_sampler() -> None:
    narrow = Narrow(Two())
    layout = narrow.layout()
    row = np.empty(layout.width)
    narrow.sample(row)

    assert [block.entity for block in layout.blocks] == ["n1", "n1/gpu0"]
    assert row.tolist() == [0.0, 4.0]
    assert narrow.layout() is layout


def test_this_machine_is_shown_without_any_gpu_and_says_why() -> None:
    code, text = ran("--once", "--every", "200ms")

    assert code == 0, text
    assert "CPU" in text
    assert "no GPUs:" in text or "GPU " in text


def test_the_newest_moment_of_a_recording_is_shown_with_who_holds_what(tmp_path: Path) -> None:
    times = NOW_S + np.arange(300.0)
    recording = Recording(tmp_path)
    frame = pl.DataFrame({"t_s": times, "entity": ["n1/gpu0"] * 300, "gpu.busy_share": [0.0] * 300})
    span = Span(
        id="s", entity="n1/gpu0", kind="job", name="812", from_s=NOW_S, about={"user": "ada"}
    )
    recording.keep(Observation(frame=frame, spans=(span,)))
    recording.close()

    code, text = ran("--json", "--data", str(tmp_path))

    said = json.loads(text)
    assert code == 0
    assert said["t_s"] == NOW_S + 299
    (job,) = said["jobs"]
    assert (job["id"], job["user"], job["gpus"]) == ("812", "ada", ["n1/gpu0"])
    assert job["idle_s"] > 200
    assert len(said["gpus"][0]["history"]) == 30


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--every", "1ms"), "less than 200 ms"),
        (("--data", "/nowhere", "--server", "http://x"), "both are given"),
        (("--token-file", "/nowhere"), "a token is for a server"),
        (("--once", "--server", "http://127.0.0.1:9"), "no steward answers there"),
        (("--once", "--server", "not a url"), "no steward answers there"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(args: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(app, ["observe", "top", *args])

    assert done.exit_code != 0
    assert said in f"{done.output} {done.exception}"


def test_a_folder_without_telemetry_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["observe", "top", "--once", "--data", str(tmp_path)])

    assert "there is no telemetry here" in f"{done.output} {done.exception}"


NO_FIGURES = dict.fromkeys(("cpu_busy_share", "memory_used_bytes", "memory_limit_bytes"))


def test_the_same_jobs_are_shown_of_this_machine_and_of_a_server() -> None:
    bare = job("j2", state=JobState.RUNNING, nodes=(NodeId("n1"),), user="bob")
    jobs = [job("j1", on=["n1/gpu0"], user="ada"), bare, job("waits")]
    shown = cluster_snapshot(view(jobs=jobs, t_s=60.0))
    gpus = [asdict(gpu) | {"state": gpu.state.value} for gpu in shown.gpus]
    replies = {
        "/api/v1/cluster": {
            "t_s": shown.t_s,
            "site": "here",
            "nodes": [{"id": "n1", "gpus": gpus}],
            "running": [asdict(each) for each in shown.running],
        },
        "/api/v1/nodes": {"items": [{"id": "n1", "jobs": ["j1", "j2", "812"], **NO_FIGURES}]},
    }

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text=json.dumps(replies[request.url.path], default=str))

    server = Server("http://there", None)
    server._client = httpx.Client(transport=httpx.MockTransport(answer))
    local = Seen(
        t_s=60.0,
        values={"n1@812": {"job.cpu.busy_cores": 1.0}},
        users={"j1": "ada", "j2": "bob"},
        holders={"n1/gpu0": ("j1",)},
        running=("j1", "j2"),
    )

    there = {each.id: each.user for each in server.look().jobs}
    here = {each.id: each.user for each in JobHistory().scene(local, source="here").jobs}

    assert there == here == {"j1": "ada", "j2": "bob", "812": ""}


@pytest.mark.real
def test_a_steward_elsewhere_says_who_rests_and_who_works(tmp_path: Path) -> None:
    with running(tmp_path, autonomy="observe") as service:
        token = tmp_path / "token"
        token.write_text(service.token)
        code, text = ran("--json", "--server", service.address, "--token-file", str(token))

    said = json.loads(text)
    assert code == 0
    jobs = {job["id"]: job for job in said["jobs"]}
    assert jobs["j1"]["idle_s"] > 60
    assert jobs["j3"]["idle_s"] is None
    assert [gpu["state"] for gpu in said["gpus"]] == ["idle", "busy"]

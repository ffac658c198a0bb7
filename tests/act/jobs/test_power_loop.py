"""The whole way of a cap: a real process reports steps, the loop lowers a stand-in GPU's limit."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from managed_jobs import python
from patience import until
from recorded_nvml import TRAINING, RecordedNvml
from steward.act.actuators.local import Local
from steward.act.jobs.controller import JobController
from steward.act.jobs.job_thread import advancing
from steward.act.jobs.power import PowerCapper
from steward.clients.local_jobs.devices import JobDevices
from steward.clients.local_jobs.engine import LocalEngine
from steward.clients.nvml import Driver, GpuRegistry, PowerLimitControl
from steward.clock import WallClock
from steward.config.assemble import assemble
from steward.config.settings import Settings
from steward.learn.estimators.power_curve import PowerCurve
from steward.loop import Loop
from steward.model.decision import DecisionState
from steward.model.event import Availability
from steward.model.identity import DecisionId, GpuId, NodeId
from steward.model.job import JobShape
from steward.model.view import ClusterView
from steward.observe.collectors.local_jobs import LocalJobs
from steward.observe.collectors.nvml import Nvml
from steward.store.jobs import JobStore
from steward.store.power_caps import PowerCapFile

GPU = GpuId("n1/gpu0")
DRAWN_WATTS = 600.0
# Speed falls as the square root of the power: 5 % slower is at 541 W, where a step takes 5 % less.
TRAINS = """
import json, os, pathlib, time
folder = pathlib.Path(os.environ["STEWARD_JOB_FOLDER"])
limit, step, next_s = pathlib.Path(LIMIT), 0.0, 0.0
while not (folder / "end").exists():
    time.sleep(0.005)
    now_s = time.time()
    watts = min(float(limit.read_text() or 700), 600.0)
    step += (now_s - (next_s or now_s)) * 400.0 * (watts / 600.0) ** 0.5
    next_s = now_s
    (folder / "p.tmp").write_text(json.dumps({"step": int(step), "written_s": now_s}))
    (folder / "p.tmp").rename(folder / "progress.json")
"""


class ObedientNvml(RecordedNvml):
    """A GPU that draws what its limit lets it, and lets a training in another process know."""

    def __init__(self, file: Path) -> None:
        super().__init__(1)
        self.file = file
        self.values[0] = dict(TRAINING)
        self._tell(700_000)

    def _tell(self, milliwatts: int) -> None:
        draft = self.file.with_suffix(".tmp")
        draft.write_text(str(milliwatts / 1000))
        draft.rename(self.file)
        self.values[0]["power"] = int(min(milliwatts, DRAWN_WATTS * 1000))

    def do_DeviceSetPowerManagementLimit(self, handle: object, limit: object) -> None:  # noqa: N802
        super().do_DeviceSetPowerManagementLimit(handle, limit)
        self._tell(self.limits[0])

    def do_DeviceGetEnforcedPowerLimit(self, handle: object, answer: object) -> None:  # noqa: N802
        super().do_DeviceGetPowerManagementLimit(handle, answer)


@pytest.mark.real
def test_a_training_that_may_be_slower_is_capped_measured_and_freed_at_its_end(
    tmp_path: Path,
) -> None:
    library = ObedientNvml(tmp_path / "limit")
    driver = Driver(library, plugged=tmp_path)
    store = JobStore(tmp_path / "jobs.sqlite3")
    engine = LocalEngine(tmp_path / "jobs", grace_s=0.5, uuids={GPU: "GPU-0"})
    controller = JobController(store, engine)
    power = PowerCapper(
        PowerLimitControl(driver.library),
        PowerCapFile(tmp_path / "caps.json"),
        jobs=store,
        uuids={GPU: "GPU-0"},
        rights=lambda: Availability(status="ok", reason=""),
    )
    devices = JobDevices(node=NodeId("n1"), uuids={GPU: "GPU-0"})
    settings = Settings.model_validate(
        {
            "store": {"folder": str(tmp_path / "store")},
            "loop": {"every_s": 0.25, "autonomy": "auto"},
            "observe": {"sample_every_s": 0.05},
            "learn": {"estimators": ["power-curve"], "miners": []},
            "decide": {"policies": ["save-energy"], "detectors": []},
            "rules": {"on": False},
            "plugs": {
                "power-curve": {"window_s": 0.6},
                "save-energy": {"check_after_s": 3.0},
            },
        }
    )
    clock = WallClock()
    loop = assemble(
        settings,
        clock=clock,
        collectors=(
            Nvml(node="n1", registry=GpuRegistry(driver), job_of_pid=lambda _: None),
            LocalJobs(store=store, devices=devices, folder=engine.folder, news=power.take_events),
        ),
        actuator=Local(controller, power),
    )
    made = python(
        TRAINS.replace("LIMIT", repr(str(tmp_path / "limit"))),
        shape=JobShape(gpus=1),
        max_slowdown_share=0.05,
    )
    job = store.submit((made,), clock.now_s())[0].id
    controller.advance(clock.now_s())
    controller.start(job, (GPU,), decision=DecisionId("d-start"), t_s=clock.now_s())
    stop = threading.Event()
    turning = threading.Thread(target=loop.run, args=(stop,))
    curve = next(each for each in loop.stages.estimators if isinstance(each, PowerCurve))

    def measured() -> bool:
        points = curve.points(job)
        return len(points) > 1 and curve.saved_joules(job) > 0 and bool(power.caps_of(job))

    def freed() -> bool:
        return library.limits[0] == 700_000 and not power.caps_of(job)

    with advancing(controller, clock, power.advance):
        turning.start()
        try:
            until(measured, why="a cap that was measured")
            capped = library.limits[0]
            until(lambda: _outcomes(loop) > 0, why="its outcome")
            (engine.work_folder(job) / "end").touch()
            until(freed, why="the limit that was there before")
        finally:
            stop.set()
            turning.join()
    loop.close()
    store.close()

    assert 400_000 <= capped < 700_000
    assert curve.points(job)[-1].limit_watts == 700.0


def _outcomes(loop: Loop[ClusterView]) -> int:
    stories = [story for _, story in loop.journal.stories(limit=100)]
    return sum(bool(each.outcomes) for each in stories if each.state is DecisionState.DONE)

"""A cap is on disk before it is set, and none outlives its job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from factories import decision
from managed_jobs import spec
from recorded_nvml import RecordedNvml
from steward.act.actuators.local import Local
from steward.act.jobs.power import RETRY_S, PowerCapper
from steward.clients.nvml import Driver, PowerLimitControl
from steward.errors import PermanentError, StewardError
from steward.model.actions import CapPower
from steward.model.event import Availability
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.job import JobShape
from steward.model.managed_job import Attempt, LifeState
from steward.store.jobs import JobStore
from steward.store.power_caps import PowerCapFile

GPU, OTHER = GpuId("n1/gpu0"), GpuId("n1/gpu1")
SET = "nvmlDeviceSetPowerManagementLimit"
OK = Availability(status="ok", reason="")


class PowerBed:
    """A capper over a recorded driver, which can be killed and made anew on the same files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.library = RecordedNvml()
        self.store = JobStore(folder / "jobs.sqlite3")
        self.rights = OK
        self.uuids = {GPU: "GPU-0", OTHER: "GPU-1"}
        self.start()

    def start(self) -> None:
        self.file = PowerCapFile(self.folder / "caps.json")
        self.capper = PowerCapper(
            PowerLimitControl(Driver(self.library).library),
            self.file,
            jobs=self.store,
            uuids=self.uuids,
            rights=lambda: self.rights,
        )

    def runs(self, *gpus: GpuId, slowdown: float = 0.05) -> JobId:
        made = spec("true", shape=JobShape(gpus=len(gpus)), max_slowdown_share=slowdown)
        job = self.store.submit((made,), 1.0)[0].moved(1.0, LifeState.WAITING, "")
        attempt = Attempt(number=1, decision=DecisionId(f"s-{job.id}"), gpus=gpus, began_s=2.0)
        job = job.with_attempt(attempt).moved(2.0, LifeState.STARTING, "")
        return self.store.put(job.moved(3.0, LifeState.RUNNING, "")).id

    def ends(self, id_: JobId) -> None:
        self.store.put(self.store.job(id_).moved(9.0, LifeState.FINISHED, ""))

    def cap(self, id_: JobId, watts: float, *gpus: GpuId, cause: str = "d-1") -> str:
        named = gpus or (GPU,)
        return self.capper.cap(id_, named, watts, decision=DecisionId(cause), t_s=4.0)

    def watts(self, index: int = 0) -> float:
        return self.library.limits.get(index, 700_000) / 1000

    def told(self) -> list[str]:
        return [f"{each.kind} {each.text}" for each in self.capper.take_events()]


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[PowerBed]:
    made = PowerBed(tmp_path)
    yield made
    made.store.close()


def test_a_cap_ends_with_its_job_and_the_journal_has_it(bed: PowerBed) -> None:
    bed.library.limits[0] = 650_000  # as the site has set it
    job = bed.runs(GPU)

    bed.cap(job, 480.0)
    bed.capper.advance(5.0)
    during = bed.watts()
    bed.ends(job)
    bed.capper.advance(10.0)

    assert (during, bed.watts()) == (480.0, 650.0)
    assert bed.file.all() == ()
    assert bed.told() == ["power.restored job 1 has left it: 650 W again, after 480 W"]


def test_a_decision_that_is_carried_out_twice_sets_one_limit(bed: PowerBed) -> None:
    job = bed.runs(GPU)

    bed.cap(job, 480.0)
    bed.cap(job, 480.0)

    assert bed.library.calls[SET] == 1
    assert [each.before_watts for each in bed.capper.caps_of(job)] == [700.0]


def test_a_cap_is_found_again_after_a_crash_and_taken_back_when_its_job_is_over(
    bed: PowerBed,
) -> None:
    job = bed.runs(GPU)
    bed.cap(job, 480.0)
    bed.ends(job)

    bed.start()
    bed.capper.advance(20.0)

    assert bed.watts() == 700.0


@pytest.mark.parametrize("was_set", [True, False])
def test_a_crash_while_a_cap_is_replaced_leaves_nothing_behind(
    bed: PowerBed, *, was_set: bool
) -> None:
    job = bed.runs(GPU)
    bed.cap(job, 480.0)
    (cap,) = bed.file.all()
    bed.file.put(replace(cap, ours=(480.0, 420.0)))  # it was killed here, or one call later
    bed.library.limits[0] = 420_000 if was_set else 480_000
    bed.ends(job)

    bed.start()
    bed.capper.advance(20.0)

    assert bed.watts() == 700.0


def test_a_crash_before_the_limit_was_set_has_changed_nothing(bed: PowerBed) -> None:
    job = bed.runs(GPU)
    bed.cap(job, 480.0)
    bed.library.limits[0] = 700_000
    bed.ends(job)

    bed.start()
    bed.capper.advance(20.0)

    assert bed.library.calls[SET] == 1
    assert "already" in bed.told()[0]


def test_a_limit_that_somebody_else_has_set_is_never_overwritten_on_the_way_back(
    bed: PowerBed,
) -> None:
    job = bed.runs(GPU)
    bed.cap(job, 480.0)
    bed.library.limits[0] = 350_000
    bed.ends(job)

    bed.capper.advance(20.0)

    assert bed.watts() == 350.0
    assert "somebody else has set 350 W; that stays" in bed.told()[0]
    assert bed.file.all() == ()


def test_nor_by_the_next_cap(bed: PowerBed) -> None:
    job = bed.runs(GPU)
    bed.cap(job, 480.0)
    bed.library.limits[0] = 350_000

    with pytest.raises(PermanentError, match="somebody else has set 350 W"):
        bed.cap(job, 420.0, cause="d-2")

    assert bed.watts() == 350.0
    assert bed.capper.refused[job].endswith("since steward set 480 W")


def test_undoing_a_cap_gives_the_first_limit_back(bed: PowerBed) -> None:
    job = bed.runs(GPU)
    bed.cap(job, 480.0)
    bed.cap(job, 420.0, cause="d-2")

    bed.cap(job, 700.0, cause="d-3")

    assert bed.watts() == 700.0
    assert bed.file.all() == ()


def test_a_refusal_leaves_no_trace_and_is_in_words(bed: PowerBed) -> None:
    job = bed.runs(GPU)
    bed.library.refuses[SET] = pynvml.NVML_ERROR_NO_PERMISSION

    with pytest.raises(PermanentError, match="no permission"):
        bed.cap(job, 480.0)

    assert bed.file.all() == ()
    assert "no permission" in bed.capper.refused[job]


def test_a_refused_change_leaves_the_cap_that_was_there(bed: PowerBed) -> None:
    job = bed.runs(GPU)
    bed.cap(job, 480.0)
    bed.library.refuses[SET] = pynvml.NVML_ERROR_UNKNOWN

    with pytest.raises(StewardError):
        bed.cap(job, 420.0, cause="d-2")
    del bed.library.refuses[SET]
    bed.ends(job)
    bed.capper.advance(9.0)

    assert bed.watts() == 700.0


@pytest.mark.parametrize("first", [None, 600.0])
def test_gpus_of_one_job_are_capped_together_or_not_at_all(
    bed: PowerBed, first: float | None
) -> None:
    job = bed.runs(GPU, OTHER)
    if first is not None:
        bed.cap(job, first, GPU, OTHER)
    bed.library.lost.add(1)

    with pytest.raises(StewardError):
        bed.cap(job, 480.0, GPU, OTHER, cause="d-2")

    assert bed.watts(0) == (first or 700.0)


def test_what_cannot_be_taken_back_now_is_tried_again(bed: PowerBed) -> None:
    job = bed.runs(GPU)
    bed.cap(job, 480.0)
    bed.ends(job)
    bed.library.refuses[SET] = pynvml.NVML_ERROR_NO_PERMISSION

    bed.capper.advance(20.0)
    bed.capper.advance(21.0)
    tries = bed.library.calls[SET]
    bed.capper.advance(20.0 + RETRY_S)
    del bed.library.refuses[SET]
    bed.capper.advance(20.0 + 2 * RETRY_S)

    assert tries == 2  # one to cap, one to take back
    assert [each.split()[0] for each in bed.told()] == ["power.stuck", "power.restored"]
    assert bed.watts() == 700.0


def test_another_job_on_the_gpu_is_not_slowed(bed: PowerBed) -> None:
    owner = bed.runs(GPU)
    bed.cap(owner, 480.0)
    bed.runs(GPU)  # it borrows

    bed.capper.advance(5.0)

    assert bed.watts() == 700.0
    assert "another job shares it" in bed.told()[0]


def test_a_gpu_that_was_replaced_is_left_alone(bed: PowerBed) -> None:
    job = bed.runs(GPU)
    bed.cap(job, 480.0)
    bed.ends(job)
    bed.uuids[GPU] = "GPU-new"

    bed.start()
    bed.capper.advance(9.0)

    assert bed.watts() == 480.0
    assert "another GPU is in its place" in bed.told()[0]


def test_when_steward_stops_nothing_is_capped_any_more(bed: PowerBed) -> None:
    job = bed.runs(GPU)
    bed.cap(job, 480.0)

    bed.capper.close(9.0)

    assert bed.watts() == 700.0
    with pytest.raises(PermanentError, match="steward stops"):
        bed.cap(job, 480.0, cause="d-2")


def test_only_jobs_whose_owner_allows_it_and_only_their_own_gpus(bed: PowerBed) -> None:
    unasked, job = bed.runs(GPU, slowdown=0.0), bed.runs(OTHER)

    with pytest.raises(PermanentError, match="allows no slowdown"):
        bed.cap(unasked, 480.0)
    with pytest.raises(PermanentError, match="does not hold"):
        bed.cap(job, 480.0, GPU)

    assert bed.library.calls[SET] == 0


def test_without_rights_nothing_is_tried(bed: PowerBed) -> None:
    job = bed.runs(GPU)
    bed.rights = Availability(status="missing", reason="this process is not root", hint="be root")

    with pytest.raises(PermanentError, match="not root"):
        bed.cap(job, 480.0)

    assert bed.library.calls[SET] == 0


def test_without_a_driver_it_says_so(bed: PowerBed) -> None:
    job = bed.runs(GPU)
    bed.cap(job, 480.0)
    bed.ends(job)
    capper = PowerCapper(None, bed.file, jobs=bed.store, uuids=bed.uuids, rights=lambda: OK)

    capper.advance(9.0)

    assert capper.available().status == "missing"
    assert "no NVIDIA driver" in capper.take_events()[0].text
    assert len(bed.file.all()) == 1  # for a steward that finds it


def test_the_local_engine_caps_and_gives_a_receipt(bed: PowerBed) -> None:
    job = bed.runs(GPU)
    action = CapPower(job=job, gpus=(GPU,), before_watts=700.0, watts=480.0)
    cap = decision(id=DecisionId("d-7"), action=action)
    local = Local(None, bed.capper)

    receipt = local.carry_out(cap, 5.0)

    assert CapPower in local.actions()
    assert (receipt.result, receipt.gpus) == ("done", (GPU,))
    assert local.progress(cap, 6.0).result == "done"
    assert bed.capper.caps_of(job)[0].decision == "d-7"
    with pytest.raises(PermanentError, match="no power limits"):
        Local().carry_out(cap, 5.0)

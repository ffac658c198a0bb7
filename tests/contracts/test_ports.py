"""Every plug in every table runs every check of its port: a new plug is tested for free."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factories import (
    believing,
    call_back,
    column,
    decision,
    finding,
    gpu_row,
    job,
    loan,
    moment,
    node,
    outcome,
    preempt,
    receipt,
    samples,
    start,
    tenants,
    view,
)
from live_views import with_beliefs
from power_bench import Bench
from steward.act.actuators import ACTUATORS
from steward.decide.energy import POLICIES as ENERGY
from steward.decide.health import POLICIES as HEALTH
from steward.decide.placement import DESCRIPTIONS, PLACEMENTS, Placement
from steward.decide.rules import DETECTORS
from steward.decide.scheduling import POLICIES
from steward.decide.scheduling.elastic import ELASTIC_POLICIES
from steward.decide.scheduling.time_shares import TIME_SHARE_POLICIES
from steward.decide.treating import TREATING
from steward.errors import PermanentError, TemporaryError
from steward.learn.estimators import ESTIMATORS
from steward.learn.patterns import MINERS
from steward.model.actions import Drain, Tell
from steward.model.event import Observation
from steward.model.faults import FaultCase, Remedy
from steward.model.forecast import BUSY_SHARE, About
from steward.model.frame import check_frame
from steward.model.identity import GpuId, JobId, NodeId, TenantId
from steward.model.job import JobRequest, JobShape, JobState
from steward.model.metrics import VOCABULARIES, aliases_from
from steward.model.moment import Moment
from steward.model.treatment import Treatment
from steward.model.view import ClusterView
from steward.observe.collectors import COLLECTORS
from steward.ports import Learner, Sampler
from steward.sim.scenario import demo
from steward.sim.world import World
from steward.store.learned import LearnedStates

GPU, OTHER = "n1/gpu0", "n1/gpu1"
DRAIN = decision(action=Drain(node=NodeId("n1"), gpus=(GpuId(GPU),)))


def world() -> World:
    return World(demo(), seed=1, start_s=1_000_000.0)


ALL_COLLECTORS: dict[str, Any] = {**COLLECTORS, "simulated": world}
KNOW_MACHINES = {"host", "nvml", "simulated"}  # the others see what runs on them
ALL_ACTUATORS: dict[str, Any] = {**ACTUATORS, "simulated": world}
ALL_POLICIES: dict[str, Any] = {**POLICIES, **TREATING, **HEALTH, **ENERGY}
TABLES = {
    "collectors": COLLECTORS,
    "estimators": ESTIMATORS,
    "patterns": MINERS,
    "rules": DETECTORS,
    "scheduling": POLICIES,
    "treating": TREATING,
    "health": HEALTH,
    "energy": ENERGY,
    "actuators": ACTUATORS,
    "time_shares": TIME_SHARE_POLICIES,
    "elastic": ELASTIC_POLICIES,
}


def crowded() -> ClusterView:
    """Return a moment in which some GPUs are free and jobs of all kinds wait."""
    ran = job("j5").changed(10.0, JobState.RUNNING, "started").changed(200.0, JobState.QUEUED, "")
    return view(
        node("n1", 4),
        jobs=[
            job("j1", on=[GPU, OTHER]),
            job("j2", tenant="b", shape=JobShape(gpus=2), submit_s=1.0),
            job("j3", submit_s=2.0),
            job("j4", tenant="nobody", submit_s=3.0),
            ran,
        ],
        of=tuple(replace(tenant, guaranteed_gpus=2) for tenant in tenants("a", "b")),
    )


def slower() -> ClusterView:
    """Return a moment in which a job may be slower, and was measured without a cap."""
    bench, learner = Bench(), ESTIMATORS["power-curve"](least_windows=3, reference_windows=3)
    for _ in range(12):
        seen = bench.turn()
        learner.learn(seen, ())
    return seen.with_forecasts(learner.predict(seen))


def light() -> ClusterView:
    """Return a moment in which a job waits whose twin, and another job, keep GPUs busy a little."""
    host = replace(job("j1", on=[GPU]), max_slowdown_share=0.1)
    twin = replace(job("j2", on=[OTHER]), user="ada", name="probe")
    waits = replace(twin, id=JobId("j3"), gpus=(), state=JobState.QUEUED, start_s=None)
    seen = view(jobs=[host, twin, waits])
    seen = replace(seen, jobs=replace(seen.jobs, step_count=np.array([9.0, np.nan, np.nan])))
    return seen.with_forecasts((column(BUSY_SHARE, np.array([0.2, 0.2])),))


def views() -> dict[str, ClusterView]:
    idle = view(node("n1", 2), jobs=[job("j1", on=[GPU]), job("j2"), job("j3", tenant="nobody")])
    believed = believing(idle, idle_s={GPU: 900.0}).with_findings((finding("j1", GPU),))
    treated = replace(finding("j1", GPU), treatment=Treatment(action="tell", advice="use it"))
    lent = view(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()])
    queue, over = crowded(), job("j9", state=JobState.COMPLETED, start_s=0.0, end_s=300.0)
    known = queue
    for estimator in ESTIMATORS.values():
        known = known.with_forecasts(estimator().predict(known))
    drained = moment(node("n1", 2))
    rows = {GPU: gpu_row(0.0), OTHER: gpu_row(0.0)}
    drained.fold(Observation(frame=samples(1000.0, rows), draining={NodeId("n1"): True}))
    drained.apply(DRAIN, receipt(DRAIN, t_s=0.0))
    troubled = moment(node("n1", 1), node("n2", 1), jobs=[job("j1", on=[GPU])])
    rows = {GPU: gpu_row(0.9), "n2/gpu0": gpu_row(0.0)}
    troubled.fold(Observation(frame=samples(1000.0, rows), draining={NodeId("n1"): True}))
    troubled.apply(DRAIN, receipt(DRAIN, t_s=0.0))
    broken = Treatment(action="drain", advice="drain it")
    found = replace(finding("j1", GPU), subject=GPU, treatment=broken)
    off = FaultCase(node="n1", remedy=Remedy.REBOOT_NODE, since_s=900.0, last_s=900.0)
    lost = replace(finding("j1", GPU), subject="n1", fault=off)
    wide = replace(job("j1", on=[GPU, OTHER]), user="ada", name="train")
    half_used = view(jobs=[wide, replace(wide, id=JobId("j2"), gpus=(), state=JobState.QUEUED)])
    left_alone = np.array([np.nan, 0.0])
    half_used = replace(
        half_used,
        t_s=4000.0,
        gpus=replace(half_used.gpus, quiet_since_s=left_alone),
    )
    slowed = view(node("n1", 4), jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])])
    grows = replace(job("j1", on=[GPU]), shape=JobShape(gpus=1, max_gpus=2))
    few = replace(wide, shape=JobShape(gpus=2, min_gpus=1))
    elastic = view(jobs=[few, job("j2")])
    elastic = replace(elastic, t_s=4000.0, gpus=replace(elastic.gpus, quiet_since_s=left_alone))
    urgent = replace(job("j2"), deadline_s=1010.0, time_limit_s=60.0)
    return {
        "a job is slowed down by another": with_beliefs(slowed, slower={"j1": 0.5}),
        "a GPU is too hot": with_beliefs(
            view(node("n1", 2), jobs=[job("j1", on=[GPU])]).with_findings((found,))
        ),
        "a GPU is lost": view(node("n1", 2), jobs=[job("j1", on=[GPU])]).with_findings((lost,)),
        "a deadline is near": view(jobs=[urgent, job("j3", priority=9)]),
        "half of its GPUs are not used": half_used,
        "half of its GPUs are not used, and a job waits": with_beliefs(elastic),
        "nobody waits for free GPUs": with_beliefs(view(node("n1", 2), jobs=[grows])),
        "two are light": light(),
        "drained": drained.view(1000.0),
        "drained, with a job on it": troubled.view(1000.0).with_findings((found,)),
        "empty": Moment().view(0.0),
        "no samples yet": view(node(), jobs=[job(on=[GPU])], busy={GPU: None, OTHER: None}),
        "idle": idle,
        "idle, with beliefs": believed,
        "idle, as a rule says": idle.with_findings((treated,)),
        "on loan": lent,
        "its time limit is near": view(jobs=[job("j1", on=[GPU], time_limit_s=1010.0)]),
        "crowded": queue,
        "crowded, with beliefs": known,
        "may be slower": slower(),
        "a job has ended": replace(queue, ended=(over,)),
        "owner woke": believing(
            view(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()], busy={GPU: 0.9})
        ),
    }


VIEWS = views()


def arrays(seen: ClusterView) -> dict[str, bytes]:
    return {
        f"{table}.{name}": np.asarray(getattr(getattr(seen, table), name)).tobytes()
        for table in ("gpus", "jobs", "nodes", "tenants")
        for name in getattr(seen, table).__slots__
        if name != "ids"
    }


@pytest.mark.parametrize("room", TABLES)
def test_one_name_in_four_places(room: str) -> None:
    """The file, the class, the table and the plug itself agree on what it is called."""
    for name, make in TABLES[room].items():
        assert make.__name__ == "".join(part.title() for part in name.split("-"))
        file = name.replace("-", "_")
        assert re.search(rf"\.{room}(\.[a-z_]+)?\.{file}$", make.__module__)  # or in a folder of it
        assert make().name == name
        assert make.__doc__
        assert re.match(r"^[A-Z].*[.:]", make.__doc__, re.DOTALL)


@pytest.mark.parametrize("name", PLACEMENTS)
def test_a_placement_is_called_by_its_name_and_says_what_it_does(name: str) -> None:
    assert PLACEMENTS[name] is Placement[name.upper().replace("-", "_")]
    assert len(DESCRIPTIONS[PLACEMENTS[name]].split()) >= 3


@pytest.mark.parametrize("room", TABLES)
def test_every_plug_has_a_test_of_its_own(room: str) -> None:
    sources = "\n".join(file.read_text() for file in Path(__file__).parents[1].rglob("test_*.py"))
    for make in TABLES[room].values():
        assert re.search(rf"\bimport .*\b{make.__name__}\b", sources), make.__name__


# -- collectors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL_COLLECTORS)
def test_a_collector_says_whether_it_can_work_here(name: str) -> None:
    said = ALL_COLLECTORS[name]().available()

    assert said.status in ("ok", "limited", "missing")
    assert said.reason
    assert said.hint or said.status == "ok"


@pytest.mark.parametrize("name", ALL_COLLECTORS)
def test_a_collector_that_is_there_gives_frames_of_the_right_shape(name: str) -> None:
    collector = ALL_COLLECTORS[name]()
    if collector.available().status == "missing":
        return  # what a missing one does is tested where its source is played back
    seen = [collector.collect(t_s) for t_s in (1_000_000.0, 1_000_010.0)]

    assert collector.vocabulary in VOCABULARIES
    assert (seen[0].cluster is not None) == (name in KNOW_MACHINES)
    for each in seen:
        check_frame(each.frame, where=name)


@pytest.mark.parametrize("name", ALL_COLLECTORS)
def test_a_sampler_fills_its_layout_in_words_that_are_known(name: str) -> None:
    sampler = ALL_COLLECTORS[name]()
    if not isinstance(sampler, Sampler) or sampler.available().status == "missing":
        return
    layout = sampler.layout()
    row = np.full(layout.width, np.nan)

    sampler.sample(row)

    words = [word for block in layout.blocks for word in block.names]
    assert len(words) == layout.width
    assert set(words) <= set(aliases_from(sampler.vocabulary))
    assert len({block.entity for block in layout.blocks}) == len(layout.blocks)
    assert sampler.layout() is layout


@pytest.mark.parametrize("name", ALL_COLLECTORS)
def test_a_collector_can_be_closed_twice_used_or_not(name: str) -> None:
    unused, used = ALL_COLLECTORS[name](), ALL_COLLECTORS[name]()
    if used.available().status != "missing":
        used.collect(1_000_000.0)

    for collector in (unused, used):
        collector.close()
        collector.close()


# -- estimators ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", VIEWS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_predicts_before_it_has_learned_anything(name: str, case: str) -> None:
    seen = VIEWS[case]
    sizes = {
        About.GPUS: len(seen.gpus),
        About.JOBS: len(seen.jobs),
        About.TENANTS: len(seen.tenants),
        About.WHOLE: 1,
    }

    columns = ESTIMATORS[name]().predict(seen)

    assert columns
    for each in columns:
        assert len(each.mid) == sizes[each.about]
        assert each.basis.startswith(name)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_survives_every_moment_and_being_put_away(name: str) -> None:
    made = ESTIMATORS[name]()
    for seen in VIEWS.values():
        made.learn(seen, [outcome()])

    again = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own bytes

    for seen in VIEWS.values():
        for a, b in zip(made.predict(seen), again.predict(seen), strict=True):
            np.testing.assert_array_equal(a.mid, b.mid)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_goes_on_from_its_saved_state(name: str, tmp_path: Path) -> None:
    first, second = ESTIMATORS[name](), ESTIMATORS[name]()
    assert isinstance(first, Learner)
    assert isinstance(second, Learner)
    for seen in views().values():
        first.learn(seen, [outcome()])
    store = LearnedStates(tmp_path)
    store.save(name, first.state_version, first.save_state(), learnt_from={})

    state, reason = store.load(name, second.state_version)
    assert state is not None, reason
    second.restore_state(state.payload)

    assert _plain(second.save_state()) == _plain(first.save_state())
    last = list(views().values())[-1]
    for one, other in zip(first.predict(last), second.predict(last), strict=True):
        assert np.array_equal(one.mid, other.mid, equal_nan=True)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_refuses_a_state_that_does_not_fit(name: str) -> None:
    made = ESTIMATORS[name]()
    assert isinstance(made, Learner)

    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it raises, the loop discards it
        made.restore_state({"something": "else"})
    assert made.predict(next(iter(views().values()))) is not None


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_answers_before_a_job_runs(name: str) -> None:
    made = ESTIMATORS[name]()
    request = JobRequest(shape=JobShape(gpus=2), tenant=TenantId("a"), user="ann", name="run 1")

    for each in made.estimate(request):
        assert each.low <= each.mid <= each.high


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return repr(value.tolist()) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_does_not_grow_for_ever(name: str) -> None:
    made = ESTIMATORS[name]()
    on, off = believing(VIEWS["idle"], idle_s={GPU: 900.0}), believing(VIEWS["idle"], idle_s={})

    def live(turns: int) -> int:
        for _ in range(turns):
            made.learn(on, [outcome()])
            made.learn(off, [outcome()])
        return len(pickle.dumps(made))

    grown = live(2100)
    assert live(500) <= grown * 1.02


# -- miners ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", VIEWS)
@pytest.mark.parametrize("name", MINERS)
def test_a_miner_counts_what_it_says(name: str, case: str) -> None:
    made = MINERS[name]()

    for pattern in made.mine(VIEWS[case]):
        assert 0 <= pattern.hits <= pattern.cases
        assert pattern.low_share <= pattern.hits / pattern.cases <= pattern.high_share
        assert pattern.miner == name


# -- detectors and policies ------------------------------------------------------------------------


@pytest.mark.parametrize("case", VIEWS)
@pytest.mark.parametrize("name", [*DETECTORS, *ALL_POLICIES])
def test_detecting_and_deciding_are_pure(name: str, case: str) -> None:
    seen = VIEWS[case]
    before = arrays(seen)

    def answer() -> Any:
        if name in DETECTORS:
            return DETECTORS[name]().detect(seen)
        return ALL_POLICIES[name]().decide(seen)

    assert answer() == answer()
    assert arrays(seen) == before


@pytest.mark.parametrize("name", DETECTORS)
def test_a_finding_has_its_samples_and_its_place(name: str) -> None:
    found = [each for seen in VIEWS.values() for each in DETECTORS[name]().detect(seen)]

    assert found
    for each in found:
        assert each.rule == name
        assert each.evidence
        assert all(part.from_s <= part.to_s for part in each.evidence)


@pytest.mark.parametrize("name", ALL_POLICIES)
def test_a_decision_explains_itself_and_can_be_undone(name: str) -> None:
    made = [each for seen in VIEWS.values() for each in ALL_POLICIES[name]().decide(seen)]

    assert made
    for each in made:
        assert each.policy == name
        assert len(each.because.split()) > 4
        assert each.returns or each.undo is not None or not each.action.gpus
        assert each.expects.low <= each.expects.mid <= each.expects.high
        assert each.check_after_s > 0


# -- actuators -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL_ACTUATORS)
def test_an_actuator_says_whether_it_can_work_here(name: str) -> None:
    said = ALL_ACTUATORS[name]().available()

    assert said.status in ("ok", "limited", "missing")
    assert said.reason


@pytest.mark.parametrize("name", ALL_ACTUATORS)
@pytest.mark.parametrize(
    "made",
    [decision(), call_back(decision()), start(), preempt(), DRAIN],
    ids=["lend", "call back", "start", "preempt", "drain"],
)
def test_what_an_actuator_cannot_do_is_refused_in_words(name: str, made: Any) -> None:
    actuator = ALL_ACTUATORS[name]()
    try:
        said = actuator.carry_out(made, 1_000_000.0)
    except (PermanentError, TemporaryError) as fault:
        assert fault.problem
    else:
        assert said.result == "failed" or not said.gpus  # nothing was changed
        assert said.text


@pytest.mark.parametrize("name", ALL_ACTUATORS)
def test_whatever_is_only_to_be_said_is_said(name: str) -> None:
    tell = Tell(to="ann", about=GPU, text="use it or give it back")

    said = ALL_ACTUATORS[name]().carry_out(decision(action=tell), 1_000_000.0)

    assert said.result == "done"
    assert said.text == "told ann: use it or give it back"
    assert said.gpus == ()


def test_the_rows_of_these_views_are_what_they_say() -> None:
    assert gpu_row(0.5)["gpu.busy_share"] == 0.5
    assert len(VIEWS["idle"].gpus) == 2

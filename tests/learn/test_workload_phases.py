from __future__ import annotations

import numpy as np
import pytest

from factories import gpu_row, host_row, job, moment, samples
from steward.learn.estimators.workload_phases import WorkloadPhases
from steward.learn.workloads.phases import PhaseFilter, PhaseSignals
from steward.model.event import Observation
from steward.model.forecast import PHASES, About, phase_probability
from steward.model.frame import job_entity
from steward.model.identity import JobId
from steward.model.moment import Moment
from steward.model.view import ClusterView

GPU, OTHER = "n1/gpu0", "n1/gpu1"
GIB = 2.0**30
# busy share, cores, bytes read and written per second, bytes held, watts
SHOWS = {
    "start": (0.0, 1.0, 1e6, 0.0, 0.3 * GIB, 120.0),
    "compile": (0.02, 2.0, 0.0, 0.0, 4 * GIB, 120.0),
    "load": (0.0, 1.0, 4e8, 0.0, 4 * GIB, 120.0),
    "train": (0.95, 1.0, 0.0, 0.0, 20 * GIB, 600.0),
    "evaluate": (0.9, 1.0, 0.0, 0.0, 20 * GIB, 280.0),
    "checkpoint": (0.0, 0.7, 0.0, 5e8, 20 * GIB, 130.0),
    "idle": (0.0, 0.0, 0.0, 0.0, 20 * GIB, 120.0),
}


def signals(phase: str, size: int = 1) -> PhaseSignals:
    busy, cores, read, written, held, watts = (np.full(size, each) for each in SHOWS[phase])
    return PhaseSignals(
        busy_share=busy,
        cores=cores,
        read_bytes_per_s=read,
        write_bytes_per_s=written,
        held_bytes=held,
        power_watts=watts,
    )


def test_a_run_is_followed_through_all_its_phases() -> None:
    kept = PhaseFilter(1)
    order = ["start", "load", "compile", "train", "evaluate", "train", "checkpoint", "idle"]

    said = []
    for phase in order:
        for _ in range(12):
            belief = kept.update(signals(phase), 5.0)
        said.append(PHASES[int(belief[0].argmax())])

    assert said == order


def test_one_odd_sample_does_not_end_a_phase_for_good() -> None:
    kept = PhaseFilter(1)
    for _ in range(20):
        kept.update(signals("train"), 5.0)

    kept.update(signals("idle"), 5.0)
    belief = kept.update(signals("train"), 5.0)

    assert PHASES[int(belief[0].argmax())] == "train"


def test_where_nothing_is_measured_probabilities_fall_back_and_add_up() -> None:
    kept = PhaseFilter(2)
    nothing = PhaseSignals(*(), **{name: np.full(2, np.nan) for name in PhaseSignals.__slots__})

    for _ in range(50):
        belief = kept.update(nothing, 10.0)

    np.testing.assert_allclose(belief.sum(axis=1), 1.0)
    assert belief.max() < 0.9


def at(made: Moment, t_s: float, busy: dict[str, float], cores: float) -> ClusterView:
    rows = {gpu: gpu_row(share) for gpu, share in busy.items()}
    host = {job_entity(JobId("j1")): host_row(cores)}
    made.fold(Observation(frame=samples(t_s, {**rows, **host})))
    return made.view(t_s)


def probability(learner: WorkloadPhases, seen: ClusterView, phase: str) -> list[float]:
    known = seen.with_forecasts(learner.predict(seen))
    column = known.forecast(About.GPUS, phase_probability(phase))
    assert column is not None
    return list(column.mid)


def test_phases_are_columns_of_the_view_along_its_gpus() -> None:
    made, learner = moment(jobs=[job(on=[GPU])]), WorkloadPhases()
    for turn in range(10):
        learner.learn(at(made, 10.0 * turn, {GPU: 0.9}, 1.0), ())
    working = probability(learner, made.view(90.0), "train")
    for turn in range(10, 20):
        learner.learn(at(made, 10.0 * turn, {GPU: 0.0}, 0.0), ())

    idle = probability(learner, made.view(190.0), "idle")

    assert working[0] > 0.9
    assert idle[0] > 0.99
    assert np.isnan(idle[1])  # nobody holds the other one


def test_a_quiet_gpu_beside_one_that_computes_idles_whatever_the_host_does() -> None:
    made, learner = moment(jobs=[job(on=[GPU, OTHER])]), WorkloadPhases()

    for turn in range(10):
        seen = at(made, 10.0 * turn, {GPU: 0.9, OTHER: 0.0}, 2.0)
        learner.learn(seen, ())

    train, idle = probability(learner, seen, "train"), probability(learner, seen, "idle")
    assert train[0] > 0.9
    assert idle[1] > 0.9


def test_a_restored_estimator_believes_what_the_saved_one_did() -> None:
    made, learner = moment(jobs=[job(on=[GPU])]), WorkloadPhases()
    for turn in range(5):
        seen = at(made, 10.0 * turn, {GPU: 0.9}, 1.0)
        learner.learn(seen, ())
    restored = WorkloadPhases()

    restored.restore_state(learner.save_state())

    assert probability(restored, seen, "train") == pytest.approx(
        probability(learner, seen, "train"), nan_ok=True
    )
    with pytest.raises(ValueError, match="differ in length"):
        restored.restore_state({**learner.save_state(), "owners": []})


def test_after_a_long_gap_and_for_another_job_it_starts_anew() -> None:
    made, learner = moment(jobs=[job(on=[GPU])]), WorkloadPhases()
    for turn in range(10):
        learner.learn(at(made, 10.0 * turn, {GPU: 0.0}, 0.0), ())
    before = probability(learner, made.view(90.0), "idle")[0]

    seen = at(made, 5000.0, {GPU: 0.0}, 0.0)
    learner.learn(seen, ())

    assert before > probability(learner, seen, "idle")[0]
    learner.learn(seen, ())  # the same moment again changes nothing
    assert before > probability(learner, seen, "idle")[0]

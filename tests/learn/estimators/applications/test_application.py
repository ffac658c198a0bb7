"""An application learnt from generated runs: accuracy, limits, state, and bad input."""

from __future__ import annotations

import numpy as np
import pytest

from generated_runs import CAMPAIGN, law_s, measured
from steward.errors import StewardError
from steward.learn.estimators.applications.application import Application, restored_application
from steward.learn.estimators.applications.models import POOL, restored_model
from steward.learn.estimators.applications.selection import fitted
from steward.model.campaign import MeasuredRun, Parameter
from steward.store.learned import LearnedStates

SMALL = [
    x
    for x in CAMPAIGN.configurations(full=False, most=100)
    if float(x["n"]) <= 64 and float(x["steps"]) <= 200
]
FULL = CAMPAIGN.configurations(full=True, most=100)


@pytest.fixture(scope="module")
def learned() -> Application:
    made = Application(CAMPAIGN.name, CAMPAIGN.parameters, CAMPAIGN.work)
    made.learn(measured([*SMALL, *SMALL, FULL[0]], seed=1))
    return made


def test_full_scale_is_predicted_from_small_runs_and_one_large_one(learned: Application) -> None:
    found = learned.predict(FULL)

    truth = np.array([law_s(x) for x in FULL])
    assert np.abs(found.mid / truth - 1.0).max() < 0.3
    assert (found.low < found.mid).all()
    assert (found.mid < found.high).all()


def test_what_is_saved_answers_the_same_to_the_bit(
    learned: Application, tmp_path_factory: pytest.TempPathFactory
) -> None:
    states = LearnedStates(tmp_path_factory.mktemp("states"))
    states.save("application", Application.state_version, learned.save_state(), learnt_from={})
    state, why = states.load("application", Application.state_version)

    assert why == ""
    assert state is not None
    again = restored_application(state.payload)
    assert again.predict(FULL).high.tolist() == learned.predict(FULL).high.tolist()
    assert again.estimate({"n": "300", "steps": 1000, "mode": "slow"}) == learned.estimate(
        {"n": "300", "steps": 1000, "mode": "slow"}
    )


def test_each_model_of_the_pool_is_restored_as_it_was(learned: Application) -> None:
    sample = learned._sample(measured([*SMALL, *FULL]), "seconds")

    for name in POOL:
        model = fitted(name, sample)
        again = restored_model(name, model.state())

        assert again.predict(sample.rows).tolist() == model.predict(sample.rows).tolist()
        assert np.sqrt(np.mean((model.predict(sample.rows) - sample.y) ** 2)) < 1.0, name


def test_an_answer_names_what_it_rests_on_and_where_it_goes_beyond(learned: Application) -> None:
    time, memory = learned.estimate({"n": "1024", "steps": "1000", "mode": "new"})

    assert (time.quantity, memory.quantity) == ("run.time_s", "run.memory_bytes")
    assert "1 of them at full scale" in time.basis
    assert "n 1024 is beyond 16 to" in time.basis
    assert "mode new was never run" in time.basis
    usual = learned.estimate({"n": 256, "steps": 1000, "mode": "fast"})[0]
    assert time.high / time.low > usual.high / usual.low


def test_limits_hold_on_unseen_runs_about_as_often_as_promised() -> None:
    above, below, count = 0, 0, 0
    for seed in range(12):
        runs = measured([*SMALL, *SMALL], seed=seed, noise=0.2)
        held = measured(SMALL * 2, seed=100 + seed, noise=0.2)
        made = Application("x", CAMPAIGN.parameters, CAMPAIGN.work)
        made.learn(runs, validation=held)
        new = measured(SMALL * 4, seed=200 + seed, noise=0.2)
        found = made.predict([x.configuration for x in new], full=[False] * len(new))
        truth = np.array([x.seconds for x in new])
        above += int((truth > found.high).sum())
        below += int((truth < found.low).sum())
        count += len(new)
        if seed == 1 and count > 100:
            break  # two generated applications with 72 unseen runs each

    assert above / count <= 0.2
    assert below / count <= 0.2


def test_a_run_that_was_killed_counts_as_needing_more_and_not_as_its_time() -> None:
    runs = measured([*SMALL, FULL[0], FULL[1]])
    cut = [
        MeasuredRun(
            configuration=FULL[-1], full=True, seconds=3.0 * law_s(FULL[-1]), finished=False
        )
        for _ in range(3)
    ]
    crashed = [MeasuredRun(configuration=FULL[-1], full=True, seconds=0.001, finished=False)] * 3

    def mid(more: list[MeasuredRun]) -> float:
        made = Application("x", CAMPAIGN.parameters, CAMPAIGN.work)
        made.learn([*runs, *more])
        assert made.failed_runs == len(more)
        return float(made.predict([FULL[-1]]).mid[0])

    assert mid(cut) > 1.1 * mid([])
    assert mid(crashed) == pytest.approx(mid([]), rel=0.3)


def test_parameters_that_never_varied_are_left_out_and_named() -> None:
    runs = [x for x in SMALL if x["mode"] == "fast"]
    made = Application("x", CAMPAIGN.parameters, CAMPAIGN.work)
    made.learn(measured(runs))

    assert made.features.constant == {"mode": "fast"}
    assert made.estimate({"n": 32, "steps": 100})[0].mid == pytest.approx(
        law_s({"n": 32, "steps": 100, "mode": "fast"}), rel=0.2
    )
    assert "mode was always fast" in made.estimate({"n": 32, "steps": 100, "mode": "slow"})[0].basis


def test_runs_that_are_all_alike_give_their_time() -> None:
    made = Application("x", (Parameter(name="n", full=(4,)),))
    made.learn([MeasuredRun(configuration={"n": 4}, full=True, seconds=2.0)] * 5)

    found = made.predict([{"n": 4}])
    assert found.mid[0] == pytest.approx(2.0, rel=0.01)
    assert found.low[0] < 2.0 < found.high[0]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_finished_runs_are_refused_with_the_last_failure(count: int) -> None:
    made = Application("x", CAMPAIGN.parameters, CAMPAIGN.work)
    failed = MeasuredRun(
        configuration=SMALL[0], full=False, seconds=1.0, finished=False, why="exit status 3"
    )

    with pytest.raises(StewardError, match=f"{count} of {count + 1} runs finished") as fault:
        made.learn([*measured(SMALL[:count]), failed])
    assert fault.value.hint == "the last failure: exit status 3"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"n": "many", "steps": 10, "mode": "fast"}, "'many' is no number"),
        ({"n": "nan", "steps": 10, "mode": "fast"}, "'nan' is no number"),
        ({"n": 10, "mode": "fast"}, "steps: no value is given"),
        ({"n": 10, "step": 10, "mode": "fast"}, "no parameter is called 'step'"),
        ({"n": -1, "steps": 0, "mode": "fast"}, "work"),
    ],
)
def test_a_configuration_that_is_none_is_refused(
    learned: Application, given: dict[str, object], problem: str
) -> None:
    with pytest.raises(StewardError) as fault:
        learned.estimate(given)  # type: ignore[arg-type]

    assert problem in str(fault.value)
    assert fault.value.hint

"""Recorded loads of a real server: what is read, and what an estimator is shown of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.learn.estimators.serving.learned_waits import LearnedWaits
from steward.learn.step_profiles import instance_types
from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.instance_type import H200_LLAMA_8B
from steward.model.serving.view import QUEUED, RUNNING, ServingView
from steward.sim.serving.recorded import read_load, score_recorded
from steward.sim.serving.wait_scores import score_record

DATA = Path(__file__).resolve().parents[2] / "data" / "llama-server-h200"
SERVER = replace(
    H200_LLAMA_8B, kv_tokens=131_072, max_sequences=32, max_batched_tokens=2048, max_waiting=1
)
HEADER = "request,arrival_s,input_tokens,sent_s,first_token_s,finish_s,completion_tokens,error\n"


@dataclass(slots=True)
class Looks:
    """Pass on to a learned estimator, and note what could be seen."""

    name: str = "looks"
    inner: LearnedWaits = field(default_factory=LearnedWaits)
    ended: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)  # tokens of answers, when they ended
    early: int = 0  # times or tokens that were visible before they had come
    most_running: int = 0

    def learn(self, view: ServingView, ended: NDArray[np.int64]) -> None:
        self.ended += ended.tolist()
        self.told += view.requests.generated_tokens[ended].tolist()
        self.inner.learn(view, ended)

    def predict(self, view: ServingView) -> ServingForecasts:
        requests = view.requests
        times_s = (requests.arrival_s, requests.sent_s, requests.first_token_s, requests.finish_s)
        self.early += sum(int(np.sum(each > view.t_s)) for each in times_s)
        self.early += int(np.sum(requests.generated_tokens[requests.state == QUEUED]))
        running = requests.state == RUNNING
        self.most_running = max(self.most_running, int(running.sum()))
        return self.inner.predict(view)


def test_an_estimator_sees_of_a_recorded_load_only_what_has_come() -> None:
    load = read_load(DATA / "load_azure.csv").head(120)
    looks = Looks()

    score_recorded((load,), instance_types([DATA / "steps.csv"], SERVER)[0], looks)

    assert looks.early == 0
    assert looks.most_running == 32
    assert sorted(looks.ended) == list(range(120))
    assert looks.told == load.output_tokens[looks.ended].tolist()


def test_waits_before_a_real_server_are_predicted_from_the_first_hundreds_of_requests() -> None:
    load = read_load(DATA / "load_lmsys.csv").head(400)
    kind = instance_types([DATA / "steps.csv"], SERVER)[0]

    found = score_record(score_recorded((load,), kind, LearnedWaits()))

    assert found["requests"] == 400
    assert found["compared"] > 300
    assert found["median_error"] < 0.3
    assert found["coverage_90"] > 0.6
    assert found["sharpness"] < 2.5


def test_loads_follow_one_another_and_are_scored_one_by_one() -> None:
    loads = tuple(read_load(DATA / f"load_{name}.csv").head(80) for name in ("azure", "lmsys"))
    kind = instance_types([DATA / "steps.csv"], SERVER)[0]

    found = score_recorded(loads, kind, LearnedWaits(), tenants=True)

    assert [each.trace for each in found] == ["azure", "lmsys"]
    assert [len(each.wait_s) for each in found] == [80, 80]
    assert np.all(found[1].predicted_s > found[0].predicted_s.max())
    assert found[1].wait_s == pytest.approx(loads[1].times_s[:, 2] - loads[1].times_s[:, 0])


def test_requests_that_failed_are_left_out_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "load_some.csv"
    file.write_text(HEADER + "0,0.0,5,0.1,0.2,0.3,9,\n1,0.1,5,,,,,refused\n")

    load = read_load(file)

    assert (load.name, len(load), load.failed) == ("some", 1, 1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("request,arrival_s\n", "lacks the columns sent_s"),
        (HEADER + "0,0.0,5,0.1,x,0.3,9,\n", "could not convert string to float: 'x'"),
        (HEADER + "0,0.0,5,0.4,0.2,0.3,9,\n", "times go back"),
    ],
)
def test_a_faulty_recorded_load_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "load_bad.csv"
    file.write_text(text)

    with pytest.raises(StewardError, match=problem):
        read_load(file)

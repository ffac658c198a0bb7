"""`/api/v1/nodes` and `/api/v1/gpus/...`, with the real loop behind them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from service.bed import START_S, ServiceBed

DEPLOY = Path(__file__).parents[3] / "deploy"
GPU = "/api/v1/gpus/n1/gpu0"


def test_nodes_are_listed_with_their_gpus_jobs_and_the_collectors(approval_bed: ServiceBed) -> None:
    said = approval_bed.client.get("/api/v1/nodes").json()

    (node,) = said["items"]
    assert node["id"] == "n1"
    assert node["gpus"] == ["n1/gpu0", "n1/gpu1"]
    assert node["jobs"] == ["j1", "j3"]
    assert node["cpu_busy_share"] is None
    assert [each["name"] for each in said["collectors"]] == ["tiny"]


def test_a_node_shows_the_newest_value_of_everything_in_it(approval_bed: ServiceBed) -> None:
    said = approval_bed.client.get("/api/v1/nodes/n1").json()

    parts = {each["entity"]: each["values"] for each in said["parts"]}
    assert parts["n1/gpu1"]["gpu.busy_share"] == 0.9


def test_series_have_every_sample_of_a_short_time(approval_bed: ServiceBed) -> None:
    asked = f"?metric=gpu.busy_share&metric=gpu.power_watts&from={START_S}&to={START_S + 100}"

    said = approval_bed.client.get(f"{GPU}/series{asked}").json()

    assert [each["metric"] for each in said["items"]] == ["gpu.busy_share", "gpu.power_watts"]
    times = [point["t_s"] - START_S for point in said["items"][0]["points"]]
    assert times == [10.0 * turn for turn in range(11)]


def test_a_heat_map_of_ten_second_samples_has_a_column_per_minute(approval_bed: ServiceBed) -> None:
    said = approval_bed.client.get(f"{GPU}/heat?from={START_S}&to={START_S + 300}").json()

    assert (said["column_s"], said["row_s"], said["period_s"]) == (60, 10, 10)
    assert [len(column) for column in said["values"]] == [6] * 6


def test_a_time_without_samples_is_an_empty_answer_and_no_error(approval_bed: ServiceBed) -> None:
    client = approval_bed.client

    assert client.get(f"{GPU}/series?metric=gpu.busy_share&from=0&to=10").json()["items"] == []
    assert client.get(f"{GPU}/heat?from=0&to=10").json()["values"] == []


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/api/v1/nodes/n2", 404, "there is no node called 'n2'"),
        ("/api/v1/gpus/n1/gpu7/series?metric=gpu.busy_share", 404, "no GPU called 'n1/gpu7'"),
        (f"{GPU}/series?metric=gpu.busy", 422, "no metric of a gpu called 'gpu.busy'"),
        (f"{GPU}/series?metric=host.cpu.busy_share", 422, "no metric of a gpu"),
        (f"{GPU}/series", 422, "query.metric"),
        (f"{GPU}/heat?from=20&to=10", 422, "is empty"),
        (f"{GPU}/heat?from=nan", 422, "query.from"),
        (f"{GPU}/series?metric=gpu.busy_share&step=0", 422, "query.step"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    approval_bed: ServiceBed, path: str, status: int, said: str
) -> None:
    answer = approval_bed.client.get(path)

    assert answer.status_code == status
    assert said in answer.json()["error"]["problem"]
    assert answer.json()["error"]["hint"]


def test_no_time_asked_for_makes_an_answer_of_unbounded_size(approval_bed: ServiceBed) -> None:
    ages = "from=0&to=253402300800"

    heat = approval_bed.client.get(f"{GPU}/heat?metric=gpu.busy_share&{ages}")
    series = approval_bed.client.get(f"{GPU}/series?metric=gpu.busy_share&{ages}&step=0.001")

    assert heat.status_code == 422
    assert "longer than 600 days" in heat.json()["error"]["problem"]
    assert series.status_code == 200
    assert len(series.json()["items"][0]["points"]) <= 2000


def test_what_dashboards_ask_the_loop_for_is_what_it_says_of_itself(
    approval_bed: ServiceBed,
) -> None:
    exposed = approval_bed.client.get("/metrics").text
    asked = (DEPLOY / "grafana" / "cluster.json").read_text(encoding="utf-8")
    own = {
        name
        for name in re.findall(r"steward_[a-z_]+", asked)
        if not name.startswith(("steward_gpu_", "steward_host_"))
    }

    assert len(own) > 5
    assert [name for name in own if f"\n{name}" not in exposed] == []

"""`steward estimate plan`: a table, reasons, a page and scripts; wrong use says what is right."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from factories import job, node, view
from steward.learn.estimators.similar_jobs import SimilarJobs
from steward.model.job import JobState
from steward.store.learned import LearnedStates
from told import Answer, steward

SITES = """\
sites:
  - name: pitzer
    engine: slurm
    grams_per_kwh: 430
    region: us-oh
    source: {text: osc.edu, as_of: 2025-03-01}
    queues:
      - {name: gpu, cores_per_node: 28, memory_per_node: 128 GB, gpus_per_node: 1,
         gpu_model: V100-SXM2-16GB, max_time: 24 h,
         charging: {basis: core-hour, rate: 0.003, gpu_rate: 0.09}}
      - {name: cpu, cores_per_node: 28, memory_per_node: 128 GB,
         charging: {basis: core-hour, rate: 0.003}}
  - name: lab
    engine: kubernetes
    grams_per_kwh: 430
    source: {text: nodes, as_of: 2026-11-01}
    queues:
      - {name: h200, cores_per_node: 64, memory_per_node: 512 GB, gpus_per_node: 8,
         gpu_model: H200, charging: {basis: gpu-hour, rate: 2}}
"""
WAITS = ("--wait", "pitzer/gpu=26h", "--wait", "pitzer/cpu=0", "--wait", "lab=1h..3h")
TIMES = ("--run-time", "V100=2h..3h", "--run-time", "cpu=8h..10h", "--run-time", "2xH200=30m..1h")


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """Return a file with two sites."""
    path = tmp_path / "sites.yaml"
    path.write_text(SITES)
    return path


@pytest.fixture
def plan(catalog: Path) -> Any:
    """Return the command over these sites, with their waits."""

    def run(*args: object, times: tuple[str, ...] = TIMES) -> Answer:
        return steward("estimate", "plan", "--catalog", catalog, *times, *WAITS, *args)

    return run


def test_the_front_is_a_table_and_losers_have_reasons(plan: Any) -> None:
    answer = plan("--limit", 5)

    assert answer.code == 0
    assert answer.out.splitlines()[1].startswith("1  lab/h200")
    assert "recommended\n  lab/h200 (2 x H200) costs least" in answer.out
    assert "why others lost" in answer.out
    assert "pitzer/gpu" in answer.out
    assert "years ago" in answer.out


def test_programs_get_the_whole_plan(plan: Any) -> None:
    found = plan("--json", "--cores", 28).json

    assert found["feasible"] is True
    first = found["front"][0]
    assert first["end_s"]["low"] <= first["end_s"]["mid"] <= first["end_s"]["high"]
    assert first["usd"]["mid"] > 0
    assert found["rejected_count"] == len(found["rejected"])
    beaten = [each for each in found["rejected"] if each["beaten_by"] is not None]
    assert all(0 <= each["beaten_by"] < len(found["front"]) for each in beaten)
    assert len(found["request"]["ways"]) == 3


def test_where_nothing_is_feasible_it_says_what_to_change_and_fails(plan: Any) -> None:
    answer = plan("--deadline", "20m")
    as_json = plan("--deadline", "20m", "--json")

    assert answer.code == 1
    assert "nothing is feasible; any of these would change that" in answer.out
    assert "a deadline " in answer.out
    assert as_json.code == 1
    assert as_json.json["feasible"] is False
    assert as_json.json["relax"]


def test_scripts_are_written_and_listed(plan: Any, tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    run = ("--command", "python 'my train.py' --lr $LR", "--image", "pytorch:2.9")

    answer = plan("--scripts", folder, *run, "--json")

    made = answer.json["scripts"]
    assert {each["name"] for each in made} == {each.name for each in folder.iterdir()}
    assert any(each["start"].startswith("kubectl create -f 01-") for each in made)
    batch = next(folder.glob("*.sbatch"))
    assert "srun python 'my train.py' --lr '$LR'" in batch.read_text()
    subprocess.run(["bash", "-n", str(batch)], check=True)


def test_the_page_stands_by_itself(plan: Any, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"

    plan("--html", page, "--name", "<b>bold</b>", "--budget", 50, "--deadline", "40h")

    text = page.read_text()
    assert "<svg" in text
    assert "default-src 'none'" in text
    assert "<b>bold" not in text
    assert "lab/h200" in text
    assert "Why others lost" in text


def test_the_page_of_an_impossible_plan_says_what_to_change(plan: Any, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"

    plan("--html", page, "--sites", "pitzer", "--budget", 0)

    assert "more budget" in page.read_text()


def test_a_model_is_estimated_on_the_gpus_that_sites_have(catalog: Path) -> None:
    asked = ("--batch", "8,16", "--items", 100_000, "--gpus", "1,2", "--json")

    found = steward("estimate", "plan", "gpt2", "--catalog", catalog, *asked).json

    ways = found["request"]["ways"]
    assert {(each["batch"], each["gpus"]) for each in ways} == {(8, 1), (8, 2), (16, 1), (16, 2)}
    assert {each["gpu_model"] for each in ways} == {"H200-SXM-141GB", "V100-SXM2-16GB"}
    assert found["front"]


def learned(folder: Path) -> None:
    """Save ten jobs called bert, as a steward has seen them end."""
    learner = SimilarJobs()
    for number in range(10):
        past = job("j", user="ada", state=JobState.COMPLETED, start_s=0.0, end_s=3600.0)
        ended = (replace(past, name=f"bert-{number}"),)
        learner.learn(replace(view(node("n1", 2)), ended=ended), outcomes=())
    LearnedStates(folder / "learned").save(
        learner.name, learner.state_version, learner.save_state(), learnt_from={}
    )


def like(name: str) -> tuple[str, ...]:
    return ("--like", name, "--user", "ada", "--tenant", job("j").tenant, "--gpu", "H200")


def test_jobs_of_that_name_tell_how_long_it_takes(catalog: Path, tmp_path: Path) -> None:
    learned(tmp_path)
    asked = like("bert-99")

    found = steward("estimate", "plan", "--catalog", catalog, *asked, "--data", tmp_path, "--json")

    (way,) = found.json["request"]["ways"]
    assert 1800 < way["run_s"]["mid"] < 7200
    assert found.json["request"]["name"] == "bert-99"


def test_where_no_job_has_that_name_it_says_what_the_run_time_is_from(
    catalog: Path, tmp_path: Path
) -> None:
    learned(tmp_path)

    answer = steward("estimate", "plan", "--catalog", catalog, *like("brt"), "--data", tmp_path)

    assert answer.code == 0
    assert "1 x H200: similar-jobs, 10 jobs of the same size and tenant" in answer.out


def test_where_no_such_job_was_seen_the_name_is_said(catalog: Path, tmp_path: Path) -> None:
    answer = steward("estimate", "plan", "--catalog", catalog, *like("brt"), "--data", tmp_path)

    assert answer.code == 2
    assert "no job like 'brt' has ended where steward saw it" in answer.err
    assert "steward estimate job" in answer.err


def test_ways_may_come_from_a_file(catalog: Path, tmp_path: Path) -> None:
    ways = tmp_path / "ways.json"
    run_s = {"low": 3600, "mid": 4000, "high": 5000}
    ways.write_text(json.dumps([{"gpu_model": "H200", "gpus": 1, "run_s": run_s}]))

    found = steward("estimate", "plan", "--catalog", catalog, "--ways", ways, "--json").json

    assert found["front"][0]["site"] == "lab"


def test_a_later_start_is_planned_by_the_carbon_of_the_hours(catalog: Path, tmp_path: Path) -> None:
    hours = tmp_path / "carbon.csv"
    now_h = int(time.time() // 3600)
    rows = [
        f"us-oh,{datetime.fromtimestamp(hour * 3600, tz=UTC):%Y-%m-%dT%H:%MZ},{grams}"
        for hour, grams in zip(
            range(now_h, now_h + 48), [500] * 12 + [50] * 12 + [500] * 24, strict=True
        )
    ]
    hours.write_text("region,hour_utc,grams_per_kwh\n" + "\n".join(rows) + "\n")
    greener = ("--run-time", "cpu=2h..3h", "--carbon", hours, "--later", "--json")

    found = steward("estimate", "plan", "--catalog", catalog, "--sites", "pitzer", *greener).json

    later = [each for each in found["front"] if each["start_s"] > found["request"]["now_s"]]
    assert later
    assert later[0]["co2_kg"]["mid"] < found["front"][-1]["co2_kg"]["mid"] * 1.01


WRONG = [
    ((), "no run time is known", "--run-time"),
    (("--run-time", "2h..3h"), "on which GPU", "--gpu"),
    (("--run-time", "V100=3h..2h"), "is not a range", "least first"),
    (("--run-time", "V100=3"), "has no unit", "30 m"),
    ((*TIMES, "--deadline", "2020-01-01"), "h ago", "time that is to come"),
    ((*TIMES, "--deadline", "soon"), "is no time", "2026-11-20T08:00"),
    ((*TIMES, "--chance", "1.5"), "deadline_chance is 1.5", "0.9"),
    ((*TIMES, "--budget", "-1"), "budget_usd is -1", "0 or more"),
    ((*TIMES, "--memory", "16"), "has no unit", "GB"),
    ((*TIMES, "--sites", "pitzerr"), "there is no site 'pitzerr'", "did you mean 'pitzer'?"),
    ((*TIMES, "--wait", "pitzer/gpus=1h"), "no queue, site or region", "did you mean"),
    ((*TIMES, "--wait", "1h"), "names no site", "SITE/QUEUE=26h"),
    ((*TIMES, "--gpus", "one"), "", ""),
    ((*TIMES, "--scripts", "s"), "what the scripts run is not said", "--command"),
    ((*TIMES, "--scripts", "s", "--command", "a 'b"), "cannot be read", "close every quote"),
    ((*TIMES, "--scripts", "s", "--command", "true"), "needs an image", "--image"),
    ((*TIMES, "--html", "/nonexistent/plan.html"), "cannot be written", "folder"),
    ((*TIMES, "--ways", "none.json"), "cannot be read", "list of ways"),
    ((*TIMES, "--carbon", "none.csv"), "no such file", ""),
    (("gpt2",), "missing option '--batch'", "--items"),
    (("gpt2", "--batch", "8"), "missing option '--items'", "epochs"),
    (("gpt2", "--batch", "0", "--items", "5"), "not a list of numbers", "1,2,4"),
    (("gpt2", "--batch", "8", "--items", "0"), "0 items", "1 or more"),
    (("no-such-model", "--batch", "8", "--items", "9"), "no-such-model", ""),
    (("--like", "x", "--gpus", "1"), "on which GPUs is not said", "--gpu"),
    (("--app", "x", "--gpus", "1"), "on which GPUs it was measured", "--gpus 0"),
    (("--app", "nothing", "--gpus", "0"), "no campaign called 'nothing'", "known: none"),
    (("--like", "x", "--gpu", "H200"), "no job like 'x' has ended", "--run-time"),
]


@pytest.mark.parametrize(("args", "problem", "hint"), WRONG)
def test_wrong_use_says_what_is_right(
    catalog: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[object, ...],
    problem: str,
    hint: str,
) -> None:
    monkeypatch.chdir(tmp_path)

    answer = steward("estimate", "plan", "--catalog", catalog, "--data", tmp_path, *args)

    if not problem:  # counts mean nothing where run times name their own
        assert answer.code == 0
        return
    assert answer.code == 2
    assert problem in answer.err
    assert hint in answer.err
    assert not answer.out


def test_without_sites_there_is_no_plan(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("accelerators: []\n")

    for more in ((), ("--catalog", empty)):
        answer = steward("estimate", "plan", "--run-time", "cpu=1h", *more)

        assert answer.code == 2
        assert "no site is known" in answer.err
        assert "planning.catalog" in answer.err


def test_a_site_whose_steward_does_not_answer_is_planned_with_an_unknown_wait(
    catalog: Path, tmp_path: Path
) -> None:
    catalog.write_text(SITES.replace("name: lab\n", "name: lab\n    steward_site: lab\n"))

    answer = steward("estimate", "plan", "--catalog", catalog, *TIMES, "--data", tmp_path)

    assert answer.code == 0
    assert "warning: the queue of lab is not known: the configuration has no sites" in answer.err
    assert "nobody knows how long jobs wait there" in answer.out


def test_carbon_of_regions_that_no_site_is_in_is_refused(catalog: Path, tmp_path: Path) -> None:
    hour = datetime.fromtimestamp(time.time() // 3600 * 3600, tz=UTC)
    file = tmp_path / "carbon.csv"
    file.write_text(f"region,hour_utc,grams_per_kwh\nUS-MIDA,{hour:%Y-%m-%dT%H:%MZ},400\n")

    answer = steward("estimate", "plan", "--catalog", catalog, *TIMES, "--carbon", file)

    assert answer.code == 2
    assert "no site is in a region of it: US-MIDA" in answer.err
    assert "us-oh" in answer.err


def test_queues_of_sites_that_are_not_asked_for_are_not_looked_at(
    catalog: Path, tmp_path: Path
) -> None:
    catalog.write_text(SITES.replace("name: lab\n", "name: lab\n    steward_site: lab\n"))
    only = ("--sites", "pitzer")

    answer = steward("estimate", "plan", "--catalog", catalog, *TIMES, *only, "--data", tmp_path)

    assert answer.code == 0
    assert "lab" not in answer.err


def test_sites_of_the_configuration_are_planned_too(catalog: Path, tmp_path: Path) -> None:
    config = tmp_path / "steward.toml"
    config.write_text(f'[planning]\ncatalog = ["{catalog}"]\n')

    found = steward("estimate", "plan", "--config", config, *TIMES, "--json").json

    assert {each["site"] for each in found["front"]} <= {"pitzer", "lab"}

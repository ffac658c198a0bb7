"""`steward jobs submit --plan`: what a plan chose is what is submitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from told import steward

CATALOG = """
sites:
  - name: here
    engine: slurm
    source: {text: by hand, as_of: 2026-11-01}
    queues:
      - {name: gpu, cores_per_node: 32, memory_per_node: 256 GB, gpus_per_node: 4,
         gpu_model: A100-SXM4-40GB, charging: {basis: gpu-hour, rate: 1}}
  - name: cloud
    engine: cloud
    source: {text: by hand, as_of: 2026-11-01}
    queues:
      - {name: fast, cores_per_node: 96, memory_per_node: 1 TB, gpus_per_node: 8,
         gpu_model: A100-SXM4-40GB, charging: {basis: gpu-hour, rate: 9}}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """Return a plan with the site's Slurm first and a cloud that is sooner and dearer."""
    sites, file = tmp_path / "sites.yaml", tmp_path / "plan.json"
    sites.write_text(CATALOG, encoding="utf-8")
    answer = steward(
        "estimate", "plan", "--run-time", "4xA100-SXM4-40GB=2h", "--name", "bert",
        "--wait", "here=3h", "--catalog", sites, "--json",
    )  # fmt: skip
    assert [each["site"] for each in answer.json["front"]] == ["here", "cloud"]
    file.write_text(answer.out, encoding="utf-8")
    return file


def test_a_plan_becomes_the_command_that_submits_it(plan: Path) -> None:
    answer = steward("jobs", "submit", "--plan", plan, "--dry-run", "--", "python", "train.py")

    assert answer.code == 0
    command = answer.out.splitlines()[0]
    for part in ("sbatch", "--gpus=4", "--partition=gpu", "--time=2:", "--job-name=bert"):
        assert part in command
    assert "here/gpu" in answer.err


def test_what_is_typed_comes_before_what_is_planned(plan: Path) -> None:
    typed = ("--time", "9:00:00", "--job-name", "mine")

    answer = steward("jobs", "submit", "--plan", plan, "--dry-run", *typed, "--", "true")

    assert "--time=9:00:00" in answer.out
    assert "--job-name=mine" in answer.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--choice", "2"), "nothing here rents instances"),
        (("--choice", "3"), "there is no choice 3"),
        (("--engine", "local"), "is for the engine slurm"),
    ],
)
def test_what_a_plan_does_not_hold_is_refused(
    plan: Path, options: tuple[str, ...], said: str
) -> None:
    answer = steward("jobs", "submit", "--plan", plan, *options, "--dry-run", "--", "true")

    assert answer.code == 2
    assert said in answer.err


def test_the_site_of_a_choice_has_to_be_in_the_configuration(plan: Path) -> None:
    text = plan.read_text(encoding="utf-8").replace('"site": ""', '"site": "big"')
    plan.write_text(text, encoding="utf-8")

    answer = steward("jobs", "submit", "--plan", plan, "--dry-run", "--", "true")

    assert answer.code == 2
    assert "the configuration has no sites" in answer.err

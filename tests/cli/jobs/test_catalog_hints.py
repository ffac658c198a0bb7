"""A submission to Slurm is compared with the catalogue; sbatch alone decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from told import steward

SITE = """\
sites:
  - name: mine
    engine: slurm
    source: {text: docs, as_of: 2026-08-12}
    queues:
      - {name: short, max_time: 2 h, cores_per_node: 16, gpus_per_node: 4, max_nodes: 1}
      - {name: "short:big", submit_as: wide, gpus_per_node: 2}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a configuration whose site is in its catalogue."""
    (tmp_path / "site.yaml").write_text(SITE)
    file = tmp_path / "steward.toml"
    file.write_text(f'[site]\nname = "mine"\n[planning]\ncatalog = ["{tmp_path / "site.yaml"}"]\n')
    return file


def note(config: Path, *options: object, command: object = "true") -> str:
    given = ("--engine", "slurm", "--dry-run", "--config", config)
    answer = steward("jobs", "submit", *given, *options, "--", command)
    assert answer.code == 0, answer.err
    return answer.err


def test_a_job_within_the_limits_gets_no_hint(config: Path) -> None:
    assert note(config, "--partition", "short", "--gpus", 4, "--time", "1:00:00") == ""


def test_every_broken_limit_is_a_hint_and_the_job_is_submitted(config: Path) -> None:
    found = note(config, "--partition", "short", "--gpus", 8, "--time", "3:00:00")

    assert found == (
        "the catalogue says, as of 2026-08-12: a job may have 1 node in short, and 2 are needed; "
        "a job in short runs 2 h at most, and this needs 3 h\n"
    )


def test_a_queue_is_found_by_the_partition_it_is_submitted_as(config: Path) -> None:
    assert "3 GPUs cannot be divided" in note(config, "--partition", "wide", "--gpus", 3)


def test_lines_of_a_script_count(config: Path) -> None:
    script = config.parent / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -p short --time=9:00:00\ntrue\n")
    given = ("--engine", "slurm", "--dry-run", "--config", config)

    answer = steward("jobs", "submit", *given, script)

    assert "runs 2 h at most" in answer.err


def test_partitions_and_sites_that_are_not_in_the_catalogue_are_not_checked(config: Path) -> None:
    assert note(config, "--partition", "other", "--gpus", 99) == ""
    assert note(config, "--gpus", 99) == ""
    config.write_text(config.read_text().replace('"mine"', '"another"'))
    assert note(config, "--partition", "short", "--gpus", 99) == ""


def test_a_broken_catalogue_stops_no_submission(config: Path) -> None:
    (config.parent / "site.yaml").write_text("sites: 3")

    found = note(config, "--partition", "short", "--gpus", 1)

    assert found.startswith("its limits were not checked: ")

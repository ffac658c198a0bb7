"""How a choice of a plan is submitted by one command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plans import HOUR_S, NOW_S, catalog_of, choice, exactly, queue, request, site, way
from steward.errors import StewardError
from steward.model.planning.catalog import Engine
from steward.planning.submission import read_submission, submission_of, submission_record


def test_a_choice_at_slurm_names_partition_nodes_and_limit() -> None:
    there = site(
        "here",
        queue(submit_as="a100-long", max_s=2 * HOUR_S),
        engine=Engine.SLURM,
        steward_site="big",
    )
    asked = request(memory_bytes=32 << 30, cores=8, saves=True, save_s=45.0)
    wanted = choice(way=way(gpus=8), nodes=2)

    found = submission_of(wanted, asked, catalog_of(there))

    assert (found.engine, found.site) == ("slurm", "big")
    assert found.options == {
        "job-name": "train",
        "gpus": "8",
        "mem": "32768M",
        "cpus-per-task": "8",
        "time": "2:00:00",
        "saves": "45",
        "nodes": "2",
        "ntasks": "2",
        "partition": "a100-long",
    }


def test_a_choice_of_this_machine_has_no_options_that_only_clusters_know() -> None:
    found = submission_of(choice(), request(saves=True, save_s=5.0), catalog_of(site("here")))

    assert found.options == {"job-name": "train", "gpus": "1", "time": "2:12:00"}


@pytest.mark.parametrize(
    ("changed", "engine", "why"),
    [
        ({}, Engine.CLOUD, "rented"),
        ({"links": 3}, Engine.SLURM, "a chain of 3 jobs"),
        ({"start_s": NOW_S + 60.0}, Engine.SLURM, "starts later"),
        ({"nodes": 2}, Engine.LOCAL, "takes 2 nodes"),
    ],
)
def test_what_one_command_cannot_do_says_why(
    changed: dict[str, Any], engine: Engine, why: str
) -> None:
    known = catalog_of(site("here", engine=engine))
    wanted = choice(**changed)

    with pytest.raises(StewardError, match=why) as fault:
        submission_of(wanted, request(), known)

    assert "--scripts" in (fault.value.hint or "")
    assert why in submission_record(wanted, request(), known)["why_not"]


WRONG = {"engine": "slurm", "site": "", "options": {"gpus": 4}}  # a number, not text


def written(folder: Path, *submits: dict[str, Any]) -> Path:
    front = [{"site": "here", "queue": "gpu", "submit": each} for each in submits]
    file = folder / "plan.json"
    file.write_text(json.dumps({"front": front, "request": {"now_s": NOW_S}}), encoding="utf-8")
    return file


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    known = catalog_of(site("here", engine=Engine.SLURM))
    made = submission_of(choice(run_s=exactly(HOUR_S)), request(), known)
    record = submission_record(choice(run_s=exactly(HOUR_S)), request(), known)

    found = read_submission(written(tmp_path, {"why_not": "no"}, record), 2)

    assert found == replace(made, options=dict(made.options))


def test_a_choice_that_cannot_be_submitted_is_refused_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="choice 1, here/gpu: it is rented"):
        read_submission(written(tmp_path, {"why_not": "it is rented"}), 1)


@pytest.mark.parametrize("number", [0, 2])
def test_a_choice_that_is_not_there_is_refused(tmp_path: Path, number: int) -> None:
    with pytest.raises(StewardError, match=f"no choice {number}") as fault:
        read_submission(written(tmp_path, {"engine": "slurm", "site": "", "options": {}}), number)

    assert fault.value.hint == "it has 1 to 1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", "no plan"),
        ("{}", "no plan"),
        ('{"front": [], "request": {}}', "no choice 1"),
        ('{"front": [{}], "request": {"now_s": 1}}', "does not say how"),
        ('{"front": [3], "request": {"now_s": 1}}', "does not say how"),
        (
            json.dumps(
                {
                    "front": [{"site": "a", "queue": "b", "submit": WRONG}],
                    "request": {"now_s": 1},
                }
            ),
            "does not say how",
        ),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(StewardError, match=said) as fault:
        read_submission(file, 1)

    assert "plan.json" in str(fault.value)


def test_a_plan_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="cannot be read"):
        read_submission(tmp_path / "none.json", 1)

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steward.cli.app import app
from steward.errors import StewardError

CONF = """SwitchName=leaf0 Nodes=a[1-4]
SwitchName=leaf1 Nodes=b[1-4]
SwitchName=spine Switches=leaf[0-1]
"""
RUN = CliRunner()


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    file = tmp_path / "topology.conf"
    file.write_text(CONF)
    return file


def running(folder: Path, *jobs: object) -> Path:
    file = folder / "jobs.json"
    file.write_text(json.dumps(jobs))
    return file


def job(name: str, nodes: list[str], **change: object) -> dict[str, object]:
    facts: dict[str, object] = {"compute_s": 1.0, "node_bytes": 50e9}
    return {"name": name, "nodes": nodes, "gpus": [8] * len(nodes), **facts, **change}


def call(*words: object) -> tuple[int, str]:
    found = RUN.invoke(app, ["fabric", "place", *map(str, words)], catch_exceptions=True)
    if isinstance(found.exception, StewardError):
        return 2, str(found.exception)
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found.exit_code, found.output


def test_a_job_gets_a_leaf_of_its_own_and_options_to_ask_slurm_for_it(
    topology: Path, tmp_path: Path
) -> None:
    jobs = running(tmp_path, job("812", ["a1", "b1"]))

    code, out = call(topology, "--gpus", 24, "--gbit-s", 200, "--running", jobs, "--json")

    found = json.loads(out)
    assert code == 0
    assert len({name[0] for name in found["candidates"][0]["nodes"]}) == 1
    assert any(each.startswith("--nodelist=") for each in found["slurm"])
    assert "--switches=1" in found["slurm"]
    assert "nodeAffinity" in found["kubernetes"]
    assert found["candidates"][0]["slowdown"] >= 1.0


def test_without_json_it_is_a_sentence_and_a_table(topology: Path) -> None:
    code, out = call(topology, "--gpus", 8, "--gbit-s", 200)

    assert code == 0
    assert "Slurm: --nodes=1" in out
    assert "candidate" in out


def test_what_does_not_fit_exits_1(topology: Path) -> None:
    assert call(topology, "--gpus", 1000, "--gbit-s", 100)[0] == 1
    assert call(topology, "--gpus", 1000, "--gbit-s", 100, "--json")[0] == 1


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        ([job("x", ["nowhere"])], "not in the topology"),
        ([job("x", ["a1"], gpus=[0])], "above 0"),
        ([job("x", ["a1"], gpus=[8, 8])], "above 0"),
        ([job("x", ["a1"]), job("y", ["a1"])], "more GPUs are used"),
        ([{"name": "x"}], "cannot be read"),
        (["x"], "cannot be read"),
        ([job("x", ["a1"], compute_s=-1.0)], "compute_s"),
    ],
)
def test_jobs_that_cannot_be_are_refused_with_words(
    topology: Path, tmp_path: Path, jobs: list[object], says: str
) -> None:
    code, out = call(topology, "--gpus", 8, "--gbit-s", 100, "--running", running(tmp_path, *jobs))

    assert code == 2
    assert says in out


def test_files_that_cannot_be_read_are_refused_with_words(topology: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    other = tmp_path / "other.json"
    other.write_text("{}")

    assert "cannot be read" in call(tmp_path / "none", "--gpus", 8)[1]
    assert "no JSON" in call(topology, "--gpus", 8, "--gbit-s", 1, "--running", bad)[1]
    assert "no list" in call(topology, "--gpus", 8, "--gbit-s", 1, "--running", other)[1]
    assert "capacity" in call(topology, "--gpus", 8)[1]

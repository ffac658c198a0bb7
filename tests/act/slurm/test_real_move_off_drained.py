"""From a pattern in a log to a job that goes on elsewhere, on a real Slurm with `steward up`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beds.slurm import SlurmBed, slurm_bed
from beds.slurm_steward import SlurmSteward
from patience import until

pytestmark = pytest.mark.real

POLICIES = ("commons", "treat", "move-off-drained")
TRAINS = """\
trap 'echo saved' USR2
echo "on $SLURMD_NODENAME"
for each in $(seq 3600); do sleep 1; done
"""


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SlurmBed]:
    with slurm_bed(tmp_path) as running:
        yield running


@pytest.fixture
def steward(bed: SlurmBed) -> Iterator[SlurmSteward]:
    made = SlurmSteward(bed, bed.folder / "steward", {}, policies=POLICIES)
    try:
        made.up()
        yield made
    finally:
        made.kill()


def breaks(steward: SlurmSteward, node: str) -> None:
    """Let slurmctld's log say that three jobs failed on a node: a rule drains it."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
    with steward.told.open("a") as log:
        for number in range(3):
            log.write(
                f"[{stamp}.{number:03d}] error: slurmd error running JobId={9000 + number} "
                f"on node(s)={node}: Slurmd could not execve job\n"
            )


def nodes_of(bed: SlurmBed, job: str) -> list[str]:
    path = bed.folder / f"job-{job}.out"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.removeprefix("on ") for line in lines if line.startswith("on ")]


@pytest.mark.timeout(900)
def test_a_job_on_a_node_that_breaks_saves_and_goes_on_elsewhere(
    bed: SlurmBed, steward: SlurmSteward
) -> None:
    how = ("-A", "bio", "--gres=gpu:2", "--requeue", "--open-mode=append", "--time=60")
    moves = bed.submit(TRAINS, *how, "--comment=steward:saves=2")
    stays = bed.submit(TRAINS, *how)  # on the same node: it cannot save
    until(lambda: nodes_of(bed, moves) and nodes_of(bed, stays), why="jobs that run")
    broken = nodes_of(bed, moves)[0]
    assert nodes_of(bed, stays) == [broken]

    def gone_on() -> bool:
        breaks(steward, broken)
        time.sleep(2.0)
        return len(nodes_of(bed, moves)) == 2

    until(gone_on, why=lambda: f"another run; {steward.log.read_text()[-2000:]}")

    first, second = nodes_of(bed, moves)
    decided = [json.loads(body) for _, _, body in steward.journal("decision")]
    ours = [each for each in decided if each["policy"] == "move-off-drained"]
    assert (first, second != broken) == (broken, True)
    assert "saved" in (bed.folder / f"job-{moves}.out").read_text()
    assert nodes_of(bed, stays) == [broken]
    assert bed.state_of(stays) == "RUNNING"
    assert {each["action"]["type"] for each in ours} == {"preempt", "resume"}
    assert all(f"node {broken} is drained" in each["because"] for each in ours)
    assert bed.run("sinfo", "-h", "-n", broken, "-p", "gpu", "-o", "%T").startswith("drain")


@pytest.mark.timeout(900)
def test_a_job_moves_off_a_node_that_is_in_trouble_and_open(bed: SlurmBed) -> None:
    """The same pattern without a drain: the policy decides a move between nodes that are open."""
    steward = SlurmSteward(bed, bed.folder / "steward", {}, policies=("move-off-slow",))
    how = ("-A", "bio", "--gres=gpu:2", "--requeue", "--open-mode=append", "--time=600")
    moves = bed.submit(TRAINS, *how, "--comment=steward:saves=2")
    until(lambda: nodes_of(bed, moves), why="a job that runs")
    (first,) = nodes_of(bed, moves)
    steward.up()
    try:

        def gone_on() -> bool:
            breaks(steward, first)
            time.sleep(2.0)
            return len(nodes_of(bed, moves)) == 2

        until(gone_on, why=lambda: f"another run; {steward.log.read_text()[-2000:]}")
        decided = [json.loads(body) for _, _, body in steward.journal("decision")]
    finally:
        steward.kill()

    ours = [each for each in decided if each["policy"] == "move-off-slow"]
    assert nodes_of(bed, moves)[1] != first
    assert ours[0]["action"]["type"] == "migrate"
    assert "10% slower by it (taken to be" in ours[0]["because"]
    assert not bed.run("sinfo", "-h", "-n", first, "-p", "gpu", "-o", "%T").startswith("drain")

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from shutil import copy

import pytest

from patience import LONG_S
from steward.clock import ManualClock
from steward.config.assemble import assemble
from steward.config.settings import Settings
from steward.decide.scheduling import POLICIES
from steward.decide.scheduling.lend_idle import LendIdle
from steward.errors import StewardError, did_you_mean
from steward.model.decision import Decision, Receipt
from steward.model.job import JobState
from steward.model.machines import machines_of
from steward.model.trace import trace_of
from steward.registry import known, resolve
from steward.sim.lab.run import describe_policy, family_of, known_policies, options_of, replay
from steward.sim.lab.settings import LabSettings
from steward.sim.scenario import demo
from steward.sim.world import World
from told import steward

START_S = 1_800_000_000.0
EMPTY = replace(  # twenty jobs wait, and nobody starts them
    demo(), nodes=2, groups=demo().groups[3:4], initial_jobs=20, warm_up_s=0.0, starts_jobs=False
)
JOBS = """job_id,submit_s,duration_s,gpus
first,0,100,8
old,10,100,8
new,20,100,8
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package from outside that brings policies, one of them broken."""
    site = tmp_path / "site-packages"
    info = site / "newest_first-1.0.dist-info"
    info.mkdir(parents=True)
    copy(Path(__file__).parent / "plugs" / "newest_first.py", site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: newest-first\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[steward.policies]\n"
        "newest-first = newest_first:NewestFirst\n"
        "starts-nowhere = newest_first:StartsNowhere\n"
        "stops-strangers = newest_first:StopsStrangers\n"
        "broken = newest_first:Missing\n"
        "lend-idle = newest_first:NewestFirst\n"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "newest_first", raising=False)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "jobs.csv"
    file.write_text(JOBS, encoding="utf-8")
    return file


def test_built_in_plugs_are_found_by_name() -> None:
    assert resolve("policy", "lend-idle", POLICIES) is LendIdle


@pytest.mark.usefixtures("package")
def test_a_package_from_outside_brings_its_plugs_through_entry_points() -> None:
    made = resolve("policy", "newest-first", POLICIES)()

    assert made.name == "newest-first"
    assert {"lend-idle", "newest-first"} <= set(known("policy", POLICIES))


@pytest.mark.usefixtures("package")
def test_built_in_plugs_win_over_outside_ones_of_the_same_name() -> None:
    assert resolve("policy", "lend-idle", POLICIES) is LendIdle


@pytest.mark.usefixtures("package")
def test_a_plug_that_cannot_be_imported_says_so() -> None:
    with pytest.raises(StewardError, match="cannot be imported") as caught:
        resolve("policy", "broken", POLICIES)

    assert caught.value.where == "entry point steward.policies"


def test_an_unknown_plug_is_answered_with_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(StewardError) as caught:
        resolve("policy", "lend-idel", POLICIES)

    assert f"known: {', '.join(sorted(POLICIES))}" in caught.value.problem
    assert caught.value.hint == "did you mean 'lend-idle'?"
    assert did_you_mean("zebra", POLICIES) == ""


# -- in the lab --------------------------------------------------------------------------------


@pytest.mark.usefixtures("package")
def test_the_lab_replays_a_policy_from_outside(trace: Path) -> None:
    command = ("lab", "replay", trace, "--gpus", 8, "--json", "--policy")

    outside, fifo = steward(*command, "newest-first"), steward(*command, "fifo")

    assert (outside.code, outside.err) == (0, "")
    # `new` starts at 100 and `old` at 200: the other way round than by fifo.
    assert outside.json["wait_mean_s"] == pytest.approx((0 + 190 + 80) / 3)
    assert outside.json["wait_mean_s"] == fifo.json["wait_mean_s"]
    assert outside.json["wait_p99_s"] > fifo.json["wait_p99_s"]


@pytest.mark.usefixtures("package")
def test_the_lab_compares_a_policy_from_outside_with_built_in_ones(trace: Path) -> None:
    answer = steward(
        *("lab", "compare", trace, "--gpus", 8, "--json"),
        *("--policies", "fifo,newest-first", "--option", "newest-first.at_once=0"),
    )

    figures = answer.json["policies"]
    assert figures["fifo"]["unfinished"] == 0
    assert figures["newest-first"]["unfinished"] == 3  # it was told to start none


@pytest.mark.usefixtures("package")
def test_the_lab_lists_what_is_installed_even_where_it_cannot_be_imported() -> None:
    answer = steward("lab", "policies", "--json")

    assert answer.code == 0
    about = {each["name"]: each for each in answer.json}
    assert about["newest-first"]["family"] == "installed"
    assert describe_policy("newest-first") == "Start the newest job first, on any free GPUs."
    assert describe_policy("starts-nowhere") == ""  # it has no docstring
    assert "cannot be imported" in describe_policy("broken")
    assert options_of("newest-first") == {"at_once": 1000}


@pytest.mark.usefixtures("package")
def test_a_package_that_cannot_be_imported_does_not_take_the_other_policies_away() -> None:
    trace = trace_of("one", submit_s=[0], duration_s=[100], gpus=[8])

    found = replay(trace, machines_of(8), "newest-first", LabSettings())

    assert found.end_s.tolist() == [100.0]
    assert "broken" in known_policies()
    assert family_of("fifo") == "one order"
    with pytest.raises(StewardError, match="cannot be imported"):
        replay(trace, machines_of(8), "broken", LabSettings())


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ("starts-nowhere", "starts job 0 on n9/gpu0 at 0 s"),
        ("stops-strangers", "stops job stranger at 0 s"),
    ],
)
def test_the_lab_refuses_what_a_policy_from_outside_cannot_do(policy: str, problem: str) -> None:
    trace = trace_of("one", submit_s=[0], duration_s=[100], gpus=[1])

    with pytest.raises(StewardError) as caught:
        replay(trace, machines_of(8), policy, LabSettings())

    assert f"{policy} {problem}" in caught.value.problem


# -- live --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("package")
def test_a_policy_from_outside_starts_jobs_in_the_live_loop(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {
            "loop": {"autonomy": "auto"},
            "observe": {"timeout_s": LONG_S},
            "decide": {"policies": ["newest-first"]},
            "store": {"folder": str(tmp_path / "store")},
            "plugs": {"newest-first": {"at_once": 3}},
        }
    )
    world = World(EMPTY, seed=1, start_s=START_S)
    clock = ManualClock(START_S)
    loop = assemble(settings, clock=clock, collectors=[world], actuator=world)

    for _ in range(2):
        loop.turn()
        clock.set(clock.now_s() + 10.0)
    loop.turn()
    kept = [each.value for each in loop.journal.read(kinds=("decision", "receipt"), limit=1000)]
    running = {job.id for job in loop.view.details.values() if job.state is JobState.RUNNING}
    faults = loop.status.faults
    loop.close()

    made = [each for each in kept if isinstance(each, Decision) and each.t_s == START_S]
    done = {each.decision for each in kept if isinstance(each, Receipt) and each.result == "done"}
    assert faults == ()
    assert [each.policy for each in made] == ["newest-first"] * 3  # as its option says
    assert {each.id for each in made} <= done
    assert {each.action.acts_on for each in made} <= running


@pytest.mark.usefixtures("package")
def test_policies_from_outside_can_be_named_on_the_command_line_of_up(tmp_path: Path) -> None:
    answer = steward("up", "--demo", "--policy", "newest-frist", "--data", tmp_path / "data")

    assert answer.code == 2
    assert "did you mean 'newest-first'?" in answer.err
    assert "give-back" not in answer.err  # it starts no jobs

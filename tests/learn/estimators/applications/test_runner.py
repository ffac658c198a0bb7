"""Campaigns: budgets hold, failures are kept, and a kill loses and repeats nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import campaign_engines
from campaign_engines import ComputedEngine, ProcessEngine, run_campaign
from generated_runs import CAMPAIGN, law_s
from patience import until
from steward.errors import StewardError
from steward.learn.estimators.applications.campaign_log import CampaignLog
from steward.learn.estimators.applications.planning import RunPlanner, narrowed
from steward.learn.estimators.applications.runner import (
    CampaignRunner,
    learned_application,
    planned_ahead,
    recalibrating_campaign,
)
from steward.model.campaign import Campaign, MeasuredRun, Parameter

SMALL = replace(CAMPAIGN, most_runs=14, most_full_runs=2, concurrency=3, budget_s=2000.0)


def run(campaign: Campaign, engine: ComputedEngine, folder: Path) -> str:
    log = CampaignLog(folder)
    with log.locked():
        return CampaignRunner(campaign, log, engine).run()


def test_a_campaign_learns_full_scale_and_says_why_it_is_over(tmp_path: Path) -> None:
    engine = ComputedEngine()
    why = run(SMALL, engine, tmp_path)

    log = CampaignLog(tmp_path)
    assert why
    assert 5 <= len(log.runs) <= 14
    assert engine.most_open <= 3
    assert engine.submissions == len(log.runs) == len(log.measured())
    assert 1 <= sum(each.full for each in log.measured()) <= 2
    target = {"n": 384, "steps": 1000, "mode": "slow"}
    found = learned_application(tmp_path).estimate(target)[0]
    assert found.mid == pytest.approx(law_s(target), rel=0.5)


def test_going_on_with_one_that_is_over_submits_nothing(tmp_path: Path) -> None:
    run(SMALL, ComputedEngine(), tmp_path)
    again = ComputedEngine()

    assert run(SMALL, again, tmp_path)
    assert again.submissions == 0


def test_the_budget_is_kept_and_full_scale_has_room_in_it(tmp_path: Path) -> None:
    cheapest = min(law_s(x) for x in CAMPAIGN.configurations(full=True, most=10))
    campaign = replace(SMALL, budget_s=1.6 * cheapest, concurrency=1, most_runs=100)

    run(campaign, ComputedEngine(), tmp_path)

    measured = CampaignLog(tmp_path).measured()
    assert sum(each.seconds for each in measured) <= 1.3 * campaign.budget_s
    assert sum(each.full for each in measured) == 1


def test_failed_runs_are_kept_as_censored_and_not_tried_again(tmp_path: Path) -> None:
    run(SMALL, ComputedEngine(fails=frozenset({"64"})), tmp_path)

    failed = [each for each in CampaignLog(tmp_path).measured() if not each.finished]
    assert failed
    assert {each.why for each in failed} == {"exit status 3"}
    keys = [tuple(each.configuration.items()) for each in failed]
    assert len(keys) == len(set(keys))
    assert learned_application(tmp_path).failed_runs == len(failed)


def test_a_command_that_always_fails_ends_the_campaign_with_the_reason(tmp_path: Path) -> None:
    engine = ComputedEngine(fails=frozenset({"fast", "slow"}))

    with pytest.raises(StewardError, match="runs failed; the last: exit status 3") as fault:
        run(SMALL, engine, tmp_path)
    assert "steward jobs logs" in fault.value.hint
    assert engine.submissions <= 8


def test_another_definition_under_the_same_name_is_refused(tmp_path: Path) -> None:
    run(SMALL, ComputedEngine(), tmp_path)

    with pytest.raises(StewardError, match="were changed since it began"):
        run(replace(SMALL, command=("./other", "{n}{steps}{mode}")), ComputedEngine(), tmp_path)
    assert run(replace(SMALL, budget_s=5000.0), ComputedEngine(), tmp_path)


def test_one_process_at_a_time_has_a_campaign(tmp_path: Path) -> None:
    log = CampaignLog(tmp_path)
    with log.locked(), pytest.raises(StewardError, match="another process runs this campaign"):
        run(SMALL, ComputedEngine(), tmp_path)


def test_a_stopped_campaign_submits_nothing(tmp_path: Path) -> None:
    stop, engine = threading.Event(), ComputedEngine()
    stop.set()
    log = CampaignLog(tmp_path)

    with log.locked():
        assert "goes on" in CampaignRunner(SMALL, log, engine).run(stop)
    assert engine.submissions == 0


def test_a_torn_last_line_is_cut_and_a_damaged_one_is_told(tmp_path: Path) -> None:
    run(SMALL, ComputedEngine(), tmp_path)
    file = tmp_path / "runs.jsonl"
    before = CampaignLog(tmp_path).runs
    with file.open("ab") as stream:
        stream.write(b'{"event": "planned", "ru')

    assert CampaignLog(tmp_path).runs == before
    assert run(SMALL, ComputedEngine(), tmp_path)
    assert file.read_bytes().endswith(b"\n")

    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], b"garbage\n", *lines[2:]]))
    with pytest.raises(StewardError, match="record of the campaign is damaged") as fault:
        CampaignLog(tmp_path)
    assert fault.value.where.endswith("runs.jsonl:3")


def test_runs_planned_but_not_submitted_are_submitted_under_their_token(tmp_path: Path) -> None:
    log = CampaignLog(tmp_path)
    with log.locked():
        log.begin(SMALL)
        made = log.plan({"n": 16, "steps": 50, "mode": "fast"}, full=False, cost=1.0, why="first")
    engine = ComputedEngine()

    run(SMALL, engine, tmp_path)

    assert next(iter(engine.tokens)) == made.token
    assert len(engine.tokens) == engine.submissions


@pytest.mark.parametrize("kill_after", [1, 3])
def test_a_killed_campaign_goes_on_without_losing_or_repeating_a_run(
    tmp_path: Path, kill_after: int
) -> None:
    starts = tmp_path / "jobs" / "starts"

    def started() -> int:
        return len(starts.read_text().splitlines()) if starts.exists() else 0

    environment = {**os.environ, "CAMPAIGN_FOLDER": str(tmp_path)}
    here = str(Path(campaign_engines.__file__).parent)
    environment["PYTHONPATH"] = os.pathsep.join([here, *sys.path])
    child = subprocess.Popen([sys.executable, campaign_engines.__file__], env=environment)
    until(lambda: started() >= kill_after)
    child.send_signal(signal.SIGKILL)
    child.wait()

    assert run_campaign(tmp_path)

    log = CampaignLog(tmp_path / "campaign")
    tokens = starts.read_text().splitlines()
    assert len(tokens) == len(set(tokens)) == len(log.runs) == len(log.measured())
    assert all(each.finished for each in log.measured())
    assert isinstance(ProcessEngine(tmp_path / "jobs").look(tokens[0]).seconds, float)


# -- planning --------------------------------------------------------------------------------------


def test_the_same_runs_give_the_same_plan() -> None:
    ended = [
        MeasuredRun(configuration=x, full=False, seconds=law_s(x))
        for x in CAMPAIGN.configurations(full=False, most=4)
    ]

    assert RunPlanner(SMALL).next_run(ended, []) == RunPlanner(SMALL).next_run(ended, [])


def test_a_plan_ahead_begins_small_and_repeats_no_configuration_thrice(tmp_path: Path) -> None:
    found = planned_ahead(SMALL, CampaignLog(tmp_path), most=14)

    assert not any(each.full for each in found)
    keys = [tuple(each.configuration.items()) for each in found]
    assert max(keys.count(each) for each in keys) <= 2
    assert not tmp_path.joinpath("runs.jsonl").exists()


def test_a_budget_that_is_used_ends_the_plan() -> None:
    ended = [
        MeasuredRun(configuration=x, full=False, seconds=1000.0)
        for x in CAMPAIGN.configurations(full=False, most=4)
    ]

    assert RunPlanner(SMALL).next_run(ended, []) == "the budget of 2000 s is used"
    few = replace(SMALL, most_runs=2)
    assert RunPlanner(few).next_run(ended[:1], [(ended[1].configuration, False)]) == (
        "all 2 runs of the budget are used"
    )


def test_a_mis_estimated_job_asks_for_a_small_campaign_about_it(tmp_path: Path) -> None:
    run(SMALL, ComputedEngine(), tmp_path)
    learned = learned_application(tmp_path)
    target = {"n": 384, "steps": 1000, "mode": "slow"}
    expected = learned.predict([target])
    high, low = float(expected.high[0]), float(expected.low[0])

    def asked(seconds: float, *, over: bool) -> Campaign | None:
        return recalibrating_campaign(CAMPAIGN, learned, target, seconds=seconds, over=over)

    assert asked(float(expected.mid[0]), over=True) is None
    assert asked(0.5 * low, over=False) is None  # it still runs
    assert asked(0.5 * low, over=True) is not None
    made = asked(3.0 * high, over=False)
    assert made is not None
    assert made.budget_s == pytest.approx(0.3 * high)
    assert [each.full for each in made.parameters] == [(384,), (1000,), ("slow",)]
    assert made.parameters[0].small == (16, 32, 64)
    assert np.isfinite(made.budget_s)


def test_what_cannot_be_scaled_down_gives_no_small_campaign() -> None:
    flat = Campaign(
        name="flat", command=("./run", "{n}"), parameters=(Parameter(name="n", full=(1, 2)),)
    )

    with pytest.raises(StewardError, match="nothing of it can be scaled down"):
        narrowed(flat, {"n": 1}, budget_s=10.0)
    with pytest.raises(StewardError, match="the configuration has no n"):
        narrowed(flat, {}, budget_s=10.0)

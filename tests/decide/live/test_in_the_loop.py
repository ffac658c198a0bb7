"""A site that names one of these policies gets its advice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from patience import LONG_S
from steward.clock import ManualClock
from steward.config.assemble import assemble
from steward.config.settings import Settings
from steward.model.decision import Decision, DecisionState
from steward.sim.scenario import demo
from steward.sim.world import World

START_S = 1_800_000_000.0
BUSY = replace(
    demo(), nodes=2, initial_jobs=60, usual_queue=30, groups=demo().groups[3:4], warm_up_s=3600.0
)


def test_commons_advises_in_the_loop_and_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {
            "observe": {"timeout_s": LONG_S},
            "learn": {"estimators": ["similar-jobs", "tenant-use"]},
            "decide": {"policies": ["commons"]},
            "store": {"folder": str(tmp_path)},
            "plugs": {"commons": {"patience": 1.0}},
        }
    )
    clock = ManualClock(START_S)
    loop = assemble(settings, clock=clock, collectors=[World(BUSY, seed=1, start_s=START_S)])
    for _ in range(5):
        loop.turn()
        clock.set(clock.now_s() + 60.0)

    made = [entry.value for entry in loop.journal.read(kinds=("decision",), limit=1000)]
    stories = [story for _, story in loop.journal.stories(limit=100)]
    faults = loop.status.faults
    loop.close()

    assert faults == ()
    assert made
    assert {each.policy for each in made if isinstance(each, Decision)} == {"commons"}
    assert {story.state for story in stories} <= {
        DecisionState.ADVISED,
        DecisionState.EXPIRED,
        DecisionState.HELD,
    }

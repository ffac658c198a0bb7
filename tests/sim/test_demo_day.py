"""What the demo shows of a day: a GPU fails, its node is drained, repaired and used again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import steward
from patience import LONG_S
from steward.clock import ManualClock
from steward.config.assemble import assemble
from steward.config.settings import Settings
from steward.model.outcome import Story
from steward.sim.scenario import demo
from steward.sim.world import World

START_S = 1_800_000_000.0
GPU_SILENT = Path(steward.__file__).parent / "packs" / "telemetry" / "gpu-silent"
FAILING = replace(
    demo(),
    nodes=2,
    initial_jobs=0,
    warm_up_s=0.0,
    groups=demo().groups[3:4],
    failures_per_gpu_hour=0.0,
    first_failure_s=300.0,
    repair_s=1200.0,
)


def test_a_node_is_drained_when_a_gpu_fails_and_comes_back_when_it_is_repaired(
    tmp_path: Path,
) -> None:
    settings = Settings.model_validate(
        {
            "loop": {"autonomy": "auto"},
            "observe": {"timeout_s": LONG_S},
            "decide": {"detectors": [], "policies": ["treat", "undrain-recovered"]},
            "rules": {"packs": False, "paths": [str(GPU_SILENT)]},
            "store": {"folder": str(tmp_path)},
        }
    )
    clock, world = ManualClock(START_S), World(FAILING, seed=0, start_s=START_S)
    loop = assemble(settings, clock=clock, collectors=[world], actuator=world)
    stories: dict[str, Story] = {}
    while not ("undrain" in stories and stories["undrain"].outcomes):
        assert clock.now_s() < START_S + 4 * 3600.0, stories
        for _ in range(20):
            loop.turn()
            clock.set(clock.now_s() + 20.0)
        found = [story for _, story in loop.journal.stories(limit=100)]
        stories = {story.decision.action.type: story for story in found}
    loop.close()

    drain, undrain = stories["drain"], stories["undrain"]
    assert drain.decision.action.node == undrain.decision.action.node  # type: ignore[union-attr]
    assert [outcome.final for outcome in drain.outcomes] == [False, True]
    assert all(outcome.gained.mid < 0 for outcome in drain.outcomes)
    assert [outcome.final for outcome in undrain.outcomes] == [True]

"""What stands under the form of the plan, for what was typed into it."""

from __future__ import annotations

from pathlib import Path

from steward.config.settings import Settings
from steward.service.job_outlook import JobOutlook
from steward.service.pages.planning.page import NOTHING, answered

CATALOG = """
sites:
  - name: mine
    engine: slurm
    source: {text: by hand, as_of: 2026-11-01}
    queues:
      - {name: gpu, cores_per_node: 32, memory_per_node: 256 GB, gpus_per_node: 4,
         gpu_model: V100-PCIE-16GB, charging: {basis: gpu-hour, rate: 1.5}}
"""


def outlook(folder: Path) -> JobOutlook:
    (folder / "sites.yaml").write_text(CATALOG, encoding="utf-8")
    raw = {
        "store": {"folder": str(folder / "data")},
        "planning": {"catalog": [str(folder / "sites.yaml")]},
    }
    return JobOutlook(Settings.model_validate(raw))


def test_a_gpu_that_no_queue_has_is_said_beside_the_plan_of_the_others(tmp_path: Path) -> None:
    shown = str(answered(outlook(tmp_path), {"run_times": "V100=2h..5h, cpu=20h"}))

    assert "Recommended" in shown
    assert "no queue has a GPU called V100" in shown
    assert "V100-PCIE-16GB" in shown


def test_what_is_no_question_is_answered_with_what_to_write(tmp_path: Path) -> None:
    known = outlook(tmp_path)

    assert answered(known, {"run_times": "  "}) == NOTHING
    assert "is not a time" in str(answered(known, {"run_times": "cpu=<b>"}))
    assert "<b>cpu" not in str(answered(known, {"run_times": "cpu=<b>"}))

"""What the service knows of a job before it runs."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from steward.config.settings import Settings
from steward.errors import StewardError
from steward.model.identity import TenantId
from steward.model.job import JobRequest, JobShape
from steward.model.planning.plan import Range
from steward.planning.question import PlanQuestion
from steward.service.job_outlook import JobOutlook

CATALOG = """
sites:
  - name: {name}
    engine: slurm
    source: {{text: by hand, as_of: 2026-11-01}}
    queues:
      - {{name: gpu, cores_per_node: 32, memory_per_node: 256 GB, gpus_per_node: 4,
         gpu_model: A100-SXM4-40GB, charging: {{basis: gpu-hour, rate: 1.5}}}}
"""
ASKED = PlanQuestion(run_times=("4xA100-SXM4-40GB=2h",))


def outlook(folder: Path, *catalogs: Path) -> JobOutlook:
    raw = {
        "store": {"folder": str(folder / "data")},
        "planning": {"catalog": [str(each) for each in catalogs]},
    }
    return JobOutlook(Settings.model_validate(raw))


def written(folder: Path, name: str = "mine") -> Path:
    file = folder / "sites.yaml"
    file.write_text(CATALOG.format(name=name), encoding="utf-8")
    return file


def test_a_question_is_answered_over_the_sites_of_the_configuration(tmp_path: Path) -> None:
    found = outlook(tmp_path, written(tmp_path)).plan(ASKED, 1_795_000_000.0)

    [choice] = found.front
    assert (choice.site, choice.queue) == ("mine", "gpu")
    assert choice.usd is not None
    assert choice.usd.mid == pytest.approx(12.0)


def test_a_changed_catalogue_is_read_anew(tmp_path: Path) -> None:
    file = written(tmp_path)
    known = outlook(tmp_path, file)
    assert known.catalog().sites[0].name == "mine"

    written(tmp_path, "other")
    os.utime(file, ns=(1, 1))

    assert known.catalog().sites[0].name == "other"


def test_without_sites_it_says_where_they_are_written(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="no site is known") as fault:
        outlook(tmp_path).plan(ASKED, 0.0)

    assert "docs/catalog.md" in (fault.value.hint or "")


def test_a_question_without_a_run_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="how long it runs is not said"):
        outlook(tmp_path, written(tmp_path)).plan(PlanQuestion(), 0.0)


def test_where_nothing_has_ended_nothing_is_forecast(tmp_path: Path) -> None:
    asked = JobRequest(shape=JobShape(gpus=1), tenant=TenantId("a"))

    assert outlook(tmp_path).run_times(asked) == ()


def test_the_page_plans_with_the_waits_that_stewards_see_and_says_which_are_missing(
    tmp_path: Path,
) -> None:
    asked = []

    def waits(sites: Any, counts: frozenset[int]) -> Any:
        asked.append((tuple(site.name for site in sites), counts))
        return {"mine": Range(low=3600.0, mid=7200.0, high=10_800.0)}, ("nobody answers at x",)

    raw = {
        "store": {"folder": str(tmp_path / "data")},
        "planning": {"catalog": [str(written(tmp_path))]},
    }
    known = JobOutlook(Settings.model_validate(raw), waits=waits)

    plan, missing = known.planned(ASKED, 1_795_000_000.0)
    known.plan(ASKED, 1_795_000_001.0)

    assert plan.front[0].wait_s.mid == pytest.approx(7200.0, rel=0.05)
    assert missing == ("nobody answers at x",)
    assert asked == [(("mine",), frozenset({4}))]  # once: people type


def test_the_page_plans_with_the_carbon_of_the_hours(tmp_path: Path) -> None:
    now_s = 1_795_000_000.0
    hour = int(now_s // 3600)
    lines = ["region,hour_utc,grams_per_kwh"]
    for ahead in range(48):
        at = datetime.fromtimestamp((hour + ahead) * 3600, tz=UTC)
        lines.append(f"mine,{at:%Y-%m-%dT%H:%MZ},100")
    (tmp_path / "hours.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    planning = {"catalog": [str(written(tmp_path))]}
    store = {"folder": str(tmp_path / "data")}
    without = JobOutlook(Settings.model_validate({"store": store, "planning": planning}))
    planning_too = {**planning, "carbon": str(tmp_path / "hours.csv")}
    known = JobOutlook(Settings.model_validate({"store": store, "planning": planning_too}))

    [choice] = known.plan(ASKED, now_s).front

    assert without.plan(ASKED, now_s).front[0].co2_kg is None
    assert choice.co2_kg is not None
    assert choice.co2_kg.mid == pytest.approx(choice.kwh.mid * 0.1, rel=0.05)

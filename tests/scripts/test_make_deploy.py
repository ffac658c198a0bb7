"""Dashboards and alert rules are written from the table of metrics, and ask for nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steward.model.metrics import METRICS
from steward.observe.translate import exposed_name

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SCRIPT = ROOT / "scripts" / "make_deploy.py"
OURS = {exposed_name(each.name) for each in METRICS}
OWN = re.compile(
    r"steward_(turns_total|faults_total|gpus|queue_jobs|behind_seconds|breaker_open|decisions"
    r"|saved_gpu_seconds|turn_(last|decided)_seconds"
    r"|agent_(clock_offset_seconds|last_heard_seconds|lost_parcels_total|waiting_bytes))$"
)
GATEWAY = "steward_gateway_"  # tests/service/gateway compares these with its own metrics
NAME = re.compile(r"\bsteward_[a-z0-9_]+(?!\.\*)\b")
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))


def make(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--folder", str(folder), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def panels_of(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", ())


def asked_for(text: str) -> set[str]:
    return {name for name in NAME.findall(text) if not name.startswith("steward_job_.")}


def test_what_is_stale_is_named_and_what_is_kept_is_up_to_date(tmp_path: Path) -> None:
    first = make(tmp_path)
    (tmp_path / "grafana" / "gpu.json").write_text("old", encoding="utf-8")
    second = make(tmp_path, "--check")
    kept = make(DEPLOY, "--check")

    assert first.returncode == 0, first.stderr
    assert (second.returncode, second.stdout) == (
        1,
        "grafana/gpu.json: out of date, run `make docs`\n",
    )
    assert kept.returncode == 0, kept.stdout


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_a_dashboard_can_be_imported(file: Path) -> None:
    dashboard = json.loads(file.read_text(encoding="utf-8"))
    panels = list(panels_of(dashboard))

    assert dashboard["schemaVersion"] >= 39
    assert dashboard["id"] is None
    assert dashboard["uid"] == f"steward-{file.stem}"
    assert dashboard["templating"]["list"][0]["type"] == "datasource"
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] != "row":
            assert all(target["expr"] and target["refId"] for target in panel["targets"])
            assert panel["datasource"]["uid"] == "${datasource}"


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_panels_that_are_not_folded_do_not_overlap(file: Path) -> None:
    places = [panel["gridPos"] for panel in json.loads(file.read_text("utf-8"))["panels"]]
    cells = [
        (x, y)
        for each in places
        for x in range(each["x"], each["x"] + each["w"])
        for y in range(each["y"], each["y"] + each["h"])
    ]

    assert len(cells) == len(set(cells))


@pytest.mark.parametrize(
    "file", [*DASHBOARDS, DEPLOY / "prometheus" / "steward.rules.yml"], ids=lambda file: file.stem
)
def test_every_series_that_is_asked_for_exists(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        dashboard = json.loads(text)
        asked = [
            each["expr"] for panel in panels_of(dashboard) for each in panel.get("targets", ())
        ]
        asked += [each.get("definition", "") for each in dashboard["templating"]["list"]]
        text = "\n".join(asked)
    names = {name.rstrip("_") for name in asked_for(text)} - {"steward_job"}

    assert names
    known = OURS | {name for name in names if OWN.match(name) or name.startswith(GATEWAY)}
    assert names - known == set()


def test_every_metric_that_is_kept_has_a_panel() -> None:
    titles = {
        panel["title"]
        for file in DASHBOARDS
        for panel in panels_of(json.loads(file.read_text(encoding="utf-8")))
    }

    assert {each.name for each in METRICS if not each.rate} <= titles


def test_every_alert_is_tested_and_says_what_to_do() -> None:
    rules = (DEPLOY / "prometheus" / "steward.rules.yml").read_text(encoding="utf-8")
    tests = (DEPLOY / "prometheus" / "tests.yml").read_text(encoding="utf-8")
    alerts = re.findall(r"- alert: (\w+)", rules)

    assert len(alerts) == len(set(alerts)) > 15
    assert [name for name in alerts if f"alertname: {name}" not in tests] == []
    assert rules.count("description:") == rules.count("summary:") == len(alerts)


@pytest.mark.real
@pytest.mark.parametrize(
    "args",
    [
        ("check", "rules", "steward.rules.yml"),
        ("test", "rules", "tests.yml"),
        ("check", "config", "--syntax-only", "prometheus.yml"),
    ],
    ids=" ".join,
)
def test_prometheus_takes_them(args: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["promtool", *args],
        cwd=DEPLOY / "prometheus",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr

"""The same expressions over the same samples, asked of a real Prometheus."""

from __future__ import annotations

import math
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import polars as pl
import pytest

from steward.clients.prometheus import PrometheusServer, QuerySeries
from steward.clients.web import Endpoint
from steward.decide.rules.metric import compile_metric
from steward.errors import StewardError
from steward.model.label import entity_of
from steward.model.rules import MetricTerm
from steward.observe.translate.outgoing import series_of
from steward.observe.translate.outgoing_text import text_of

pytestmark = pytest.mark.real

STEP_S = 15
ROWS = 120
PATIENCE_S = 60.0
B, P, T = "steward_gpu_busy_share", "steward_gpu_power_watts", "steward_gpu_temperature_celsius"
H = "steward_host_memory_available_bytes"

EXPRESSIONS = [
    f"{B} < 0.3",
    f"0.3 > {B}",
    f"{B} != 0.5",
    f"{B} * 100 - 3",
    f"-{B} + 2 ^ 3 ^ 0.5",
    f"{P} / {B}",
    f"{P} % 7",
    f"{P} / 0",
    f"{B} > bool 0.5 == 1",
    f"({B} > bool 0.5) + 1",
    f'{B}{{node="n01"}} < 0.5',
    f'{B}{{node!="n01", gpu=~"0|2"}}',
    f'{B}{{gpu!~"0.*"}}',
    f"{B} < 0.5 and {P} > 200",
    f"{B} < 0.2 or {P} > 300",
    f"{B} unless {P} > 250",
    f"{B} < 0.7 and on (node) {H} > 5e10",
    f"{B} unless on (node) {H} > 5e10",
    f"{B} or on (node) {H}",
    f"{B} / on (node) group_left {H}",
    f"{H} * on (node) group_right {B}",
    f"{B} / ignoring (gpu) group_left avg without (gpu) ({B})",
    f"{B} < on (node) group_left 0.5 * avg by (node) ({B})",
    f"rate({P}[5m])",
    f"rate({P}[47s])",
    f"increase({P}[2m])",
    f"delta({P}[3m])",
    f"irate({P}[2m])",
    f"idelta({P}[2m])",
    f"deriv({P}[5m])",
    f"predict_linear({P}[5m], 600)",
    f"changes({B}[4m])",
    f"resets({P}[4m])",
    f"avg_over_time({B}[5m]) < 0.5",
    f"min_over_time({B}[5m])",
    f"max_over_time({B}[90s])",
    f"sum_over_time({B}[2m])",
    f"count_over_time({B}[5m])",
    f"last_over_time({B}[10m])",
    f"present_over_time({B}[2m])",
    f"stddev_over_time({B}[5m])",
    f"stdvar_over_time({B}[5m])",
    f"quantile_over_time(0.9, {B}[5m])",
    f"quantile_over_time(1.5, {B}[5m])",
    f"avg_over_time({B}[5m] offset 2m)",
    f"{B} offset 3m",
    f"abs({B} - 1)",
    f"ceil({P})",
    f"floor({P})",
    f"round({P})",
    f"round({P}, 5)",
    f"sgn({B} - 0.5)",
    f"clamp({P}, 100, 200)",
    f"clamp_min({P}, 150)",
    f"clamp_max({P}, 150)",
    f"ln({P})",
    f"log2({P})",
    f"log10({P})",
    f"exp({B})",
    f"sqrt({P})",
    f"sum by (node) ({B})",
    f"sum({B}) by (node)",
    f"avg without (gpu) ({B})",
    f"min by (node) ({P})",
    f"max by (gpu) ({P})",
    f"count by (node) ({B} < 0.5)",
    f"group by (node) ({B})",
    f"stddev by (node) ({B})",
    f"stdvar by (node) ({B})",
    f"quantile by (node) (0.75, {B})",
    f"topk by (node) (1, {P})",
    f"bottomk by (node) (2, {P})",
    f"max by (node) ({B}) - min by (node) ({B}) > 0.5",
    f"{P} - time() / 1e7",
    f"{B} * on () group_left vector(2)",
    f"sum by (node) (rate({P}[1m])) > 1",
    f"{B} < 0.3 unless on (node) sum by (node) ({P}) > 500",
    f"{B} >= 0.1 <= 0.9",
    f"{T} == 50",
]


def made_up() -> pl.DataFrame:
    """Two nodes of three GPUs; one GPU is silent for a while, counters fall, nothing is even."""
    dice = np.random.default_rng(7)
    now_s = math.floor(time.time() / STEP_S) * STEP_S
    times = now_s - STEP_S * np.arange(ROWS)[::-1].astype(float) - 3600
    parts = []
    for node in ("n01", "n02"):
        for gpu in range(3):
            power = np.cumsum(dice.random(ROWS) * 9)
            power[60:] -= power[60] - 5
            frame = pl.DataFrame(
                {
                    "t_s": times,
                    "entity": f"{node}/gpu{gpu}",
                    "gpu.busy_share": np.round(dice.random(ROWS), 2),
                    "gpu.power_watts": power,
                    "gpu.temperature_celsius": np.where(dice.random(ROWS) < 0.5, 50.0, 60.0),
                }
            )
            quiet = (gpu == 1) & (np.arange(ROWS) > 30) & (np.arange(ROWS) < 70)
            parts.append(frame.filter(~quiet))
        host = {"t_s": times, "entity": node}
        host["host.memory.available_bytes"] = dice.random(ROWS) * 1e11
        parts.append(pl.DataFrame(host))
    return pl.concat(parts, how="diagonal")


@pytest.fixture(scope="module")
def asked(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[PrometheusServer, pl.DataFrame]]:
    folder = tmp_path_factory.mktemp("prometheus")
    frame = made_up()
    series = sorted(series_of(frame), key=lambda each: each.name)
    (folder / "samples.txt").write_text("".join(text_of(series)) + "# EOF\n")
    promtool, program = shutil.which("promtool"), shutil.which("prometheus")
    assert promtool, "promtool is not installed: run scripts/install-real-parts"
    assert program
    making = [promtool, "tsdb", "create-blocks-from", "openmetrics", "samples.txt", "tsdb"]
    subprocess.run(making, cwd=folder, check=True, capture_output=True)
    (folder / "prometheus.yml").write_text("global: {}\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = subprocess.Popen(
        [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(f"http://127.0.0.1:{port}")
        yield PrometheusServer(Endpoint(url=f"http://127.0.0.1:{port}")), frame
    finally:
        started.kill()
        started.wait()


def _wait(address: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        try:
            if httpx.get(f"{address}/-/ready", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    pytest.fail("Prometheus does not start")


def _theirs(found: list[QuerySeries]) -> dict[tuple[str, float], float]:
    return {
        (entity_of(each.labels, of_job=False), t_s): value
        for each in found
        for t_s, value in zip(each.t_s, each.values, strict=True)
        if not math.isnan(value)
    }


def _ours(expr: str, frame: pl.DataFrame) -> dict[tuple[str, float], float]:
    values = compile_metric(MetricTerm(expr=expr)).values(frame)
    return {(entity, t_s): value for t_s, entity, value in values.iter_rows()}


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_an_expression_is_worth_what_prometheus_says(
    expr: str, asked: tuple[PrometheusServer, pl.DataFrame]
) -> None:
    server, frame = asked
    first_s, last_s = float(frame["t_s"].min()), float(frame["t_s"].max())  # type: ignore[arg-type]
    theirs = _theirs(server.query_range(expr, from_s=first_s, to_s=last_s, step_s=STEP_S))

    ours = _ours(expr, frame)

    # An entity by itself is looked at when it says something; Prometheus looks also in between.
    spoke = set(frame.select("entity", "t_s").iter_rows())
    together = {key for key in theirs if key in ours or key in spoke}
    assert theirs
    assert set(ours) == together
    assert ours == pytest.approx({key: theirs[key] for key in together}, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    "expr", [f"{B} / on (node) {H}", f"{H} / on (node) {B}", f"{B} + on (gpu) {P}"]
)
def test_what_prometheus_finds_ambiguous_is_told_and_not_guessed(
    expr: str, asked: tuple[PrometheusServer, pl.DataFrame]
) -> None:
    server, frame = asked
    watch = compile_metric(MetricTerm(expr=expr))

    with pytest.raises(StewardError, match="match"):
        server.query(expr, at_s=float(frame["t_s"].max()))  # type: ignore[arg-type]
    found = watch.take(frame)

    assert found == []
    assert watch.counts.failed == 1
    assert "group_left" in watch.counts.problem

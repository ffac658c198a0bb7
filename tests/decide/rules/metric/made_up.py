"""Samples and expressions for comparison with a real Prometheus.

`make_recording` is run by the test that queries a real one, with STEWARD_RECORD=1 in the
environment.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import polars as pl

from steward.decide.rules.metric import compile_metric
from steward.model.rules import MetricTerm

RECORDED = Path(__file__).parents[3] / "data" / "prometheus-2.42" / "promql.json.gz"
FIRST_S = 1_794_700_800.0
Answer = dict[tuple[str, float], float]

STEP_S = 15
ROWS = 60
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
    """Return samples of two nodes of three GPUs, with gaps, counter resets and uneven times."""
    dice = np.random.default_rng(7)
    times = FIRST_S + STEP_S * np.arange(ROWS).astype(float)
    parts = []
    for node in ("n01", "n02"):
        for gpu in range(3):
            power = np.round(np.cumsum(dice.random(ROWS) * 18), 2)
            power[40:] -= power[40] - 5
            frame = pl.DataFrame(
                {
                    "t_s": times,
                    "entity": f"{node}/gpu{gpu}",
                    "gpu.busy_share": np.round(dice.random(ROWS), 2),
                    "gpu.power_watts": power,
                    "gpu.temperature_celsius": np.where(dice.random(ROWS) < 0.5, 50.0, 60.0),
                }
            )
            quiet = (gpu == 1) & (np.arange(ROWS) > 15) & (np.arange(ROWS) < 38)
            parts.append(frame.filter(~quiet))
        host = {"t_s": times, "entity": node}
        host["host.memory.available_bytes"] = np.round(dice.random(ROWS) * 1e11)
        parts.append(pl.DataFrame(host))
    return pl.concat(parts, how="diagonal")


def ours(expr: str, frame: pl.DataFrame) -> Answer:
    values = compile_metric(MetricTerm(expr=expr)).values(frame)
    return {(entity, t_s): value for t_s, entity, value in values.iter_rows()}


def comparable(theirs: Answer, ours: Answer, frame: pl.DataFrame) -> Answer:
    """Keep the times at which both evaluate: Prometheus also evaluates between samples."""
    spoke = set(frame.select("entity", "t_s").iter_rows())
    return {key: value for key, value in theirs.items() if key in ours or key in spoke}


def record(answers: dict[str, Answer]) -> None:
    text = {
        expr: [[entity, t_s, value] for (entity, t_s), value in sorted(answer.items())]
        for expr, answer in answers.items()
    }
    RECORDED.parent.mkdir(parents=True, exist_ok=True)
    RECORDED.write_bytes(gzip.compress(json.dumps(text).encode(), mtime=0))


def recorded() -> dict[str, Answer]:
    text = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return {
        expr: {(entity, t_s): value for entity, t_s, value in rows} for expr, rows in text.items()
    }

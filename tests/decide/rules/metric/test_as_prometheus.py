"""The same expressions over the same samples, compared with a real Prometheus."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from collections.abc import Iterator
from itertools import groupby

import httpx
import polars as pl
import pytest

from decide.rules.metric.made_up import (
    EXPRESSIONS,
    STEP_S,
    Answer,
    B,
    H,
    P,
    comparable,
    made_up,
    ours,
    record,
    recorded,
)
from patience import LONG_S, free_port, until
from steward.clients.prometheus import PrometheusServer, QuerySeries
from steward.clients.web import Endpoint
from steward.decide.rules.metric import compile_metric
from steward.errors import StewardError
from steward.inspection.series.prometheus_terms import prometheus_compiler
from steward.model.label import entity_of
from steward.model.rules import MetricTerm
from steward.observe.export import text_head, text_lines
from steward.observe.translate.outgoing import series_of

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def asked(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[PrometheusServer, pl.DataFrame]]:
    folder = tmp_path_factory.mktemp("prometheus")
    frame = made_up()
    series = sorted(series_of(frame), key=lambda each: each.name)
    text = ""
    for _, same in groupby(series, key=lambda each: each.name):
        first, *rest = same
        lines = (line for each in (first, *rest) for line in text_lines(each))
        text += text_head(first) + "".join(lines)
    (folder / "samples.txt").write_text(f"{text}# EOF\n")
    promtool, program = shutil.which("promtool"), shutil.which("prometheus")
    assert promtool, "promtool is not installed: run scripts/install-real-parts"
    assert program
    making = [promtool, "tsdb", "create-blocks-from", "openmetrics", "samples.txt", "tsdb"]
    subprocess.run(making, cwd=folder, check=True, capture_output=True)
    (folder / "prometheus.yml").write_text("global: {}\n")
    port = free_port()
    started = subprocess.Popen(
        [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--storage.tsdb.retention.time=100y",
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: _ready(f"http://127.0.0.1:{port}"), why="Prometheus")
        endpoint = Endpoint(url=f"http://127.0.0.1:{port}", timeout_s=LONG_S)
        yield PrometheusServer(endpoint), frame
    finally:
        started.kill()
        started.wait()


def _ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/-/ready", timeout=30).status_code == 200
    except httpx.HTTPError:
        return False


def _theirs(found: list[QuerySeries]) -> Answer:
    return {
        (entity_of(each.labels, of_job=False), t_s): value
        for each in found
        for t_s, value in zip(each.t_s, each.values, strict=True)
        if not math.isnan(value)
    }


def test_expressions_are_worth_what_prometheus_says(
    asked: tuple[PrometheusServer, pl.DataFrame],
) -> None:
    server, frame = asked
    first_s, last_s = float(frame["t_s"].min()), float(frame["t_s"].max())  # type: ignore[arg-type]
    theirs = {
        expr: _theirs(server.query_range(expr, from_s=first_s, to_s=last_s, step_s=STEP_S))
        for expr in EXPRESSIONS
    }
    if os.environ.get("STEWARD_RECORD"):
        record(theirs)

    for expr in EXPRESSIONS:
        found = ours(expr, frame)

        assert theirs[expr], expr
        expected = comparable(theirs[expr], found, frame)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9), expr


def test_what_was_recorded_is_what_it_says_today(
    asked: tuple[PrometheusServer, pl.DataFrame],
) -> None:
    server, frame = asked
    first_s, last_s = float(frame["t_s"].min()), float(frame["t_s"].max())  # type: ignore[arg-type]
    kept = recorded()

    assert {*kept} == {*EXPRESSIONS}
    for expr, answer in kept.items():
        now = _theirs(server.query_range(expr, from_s=first_s, to_s=last_s, step_s=STEP_S))
        assert now == pytest.approx(answer, rel=1e-9, abs=1e-9), expr


def test_a_prometheus_that_is_asked_finds_the_same(
    asked: tuple[PrometheusServer, pl.DataFrame],
) -> None:
    server, frame = asked
    term = MetricTerm(expr=f"min by (node) ({B}) < 0.4", for_s=45, interval_s=15)
    own, theirs = compile_metric(term), prometheus_compiler(server)(term)

    expected = [*own.add(frame), *own.finish()]
    found = [*theirs.add(frame), *theirs.finish()]

    assert [(each.t_ns, each.since_ns, each.entity, each.value) for each in found] == [
        (each.t_ns, each.since_ns, each.entity, each.value) for each in expected
    ]
    assert found


def test_what_prometheus_refuses_is_refused_at_once(
    asked: tuple[PrometheusServer, pl.DataFrame],
) -> None:
    with pytest.raises(StewardError, match="parse error"):
        prometheus_compiler(asked[0])(MetricTerm(expr="sum("))


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
    found = watch.add(frame)

    assert found == []
    assert watch.counts.failed == 1
    assert "group_left" in watch.counts.problem

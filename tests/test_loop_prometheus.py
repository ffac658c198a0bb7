"""Rules in the loop that ask a Prometheus: about nodes that nobody sees here, and beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from beds.prometheus import exporter, prometheus, upstream
from beds.prometheus_double import prometheus_double
from patience import free_port, until
from rule_texts import file
from steward.clock import ManualClock
from steward.config.assemble import assemble
from steward.config.settings import Settings
from steward.loop import Loop
from steward.service.pages.rules.listing import prometheus_note

HOT = "set:\n  match: [{promql: {expr: %s, for: 10s}}]\n"
START_S = 1_700_000_000.0


def hot(folder: Path, expr: str = "DCGM_FI_DEV_GPU_TEMP > 90") -> Path:
    (folder / "hot").mkdir(parents=True)
    (folder / "hot" / "rule.yaml").write_text(file(HOT % f"'{expr}'", rule_id="HOTT-0001"))
    return folder


def settings(folder: Path, url: str, **rules: Any) -> Settings:
    given = {"packs": False, "paths": [str(folder / "rules")], "prometheus": url, **rules}
    return Settings.model_validate(
        {"store": {"folder": str(folder)}, "observe": {"collectors": []}, "rules": given}
    )


def events(loop: Loop, kind: str) -> list[Any]:
    entries = loop.journal.read(kinds=("event",), limit=1000)
    return [each.value for each in entries if getattr(each.value, "kind", "") == kind]


def turning(loop: Loop, clock: ManualClock, done: Callable[[], Any]) -> Callable[[], Any]:
    def turn() -> Any:
        clock.set(clock.now_s() + 10.0)
        loop.turn()
        return done()

    return turn


@pytest.mark.parametrize(
    "expr", ["DCGM_FI_DEV_GPU_TEMP > 90", "holt_winters(mine[9m], 0.5, 0.5) > 90"]
)
def test_what_prometheus_knows_becomes_a_finding_with_its_words(tmp_path: Path, expr: str) -> None:
    hot(tmp_path / "rules", expr)
    clock = ManualClock(START_S)
    with prometheus_double() as double:
        double.series = [{"Hostname": "n9", "gpu": "3"}]
        loop = assemble(settings(tmp_path, double.url), clock=clock)
        (found,) = until(turning(loop, clock, lambda: loop.view.findings))
        loop.close()

    assert (found.rule, found.subject) == ("HOTT-0001", "n9/gpu3")
    (quote,) = found.quotes
    assert (quote.stream, quote.text) == ("Prometheus", f"{expr}: 95")
    assert not loop.status.faults


def test_one_that_hangs_holds_up_no_turn_and_is_told_when_it_is_away(tmp_path: Path) -> None:
    hot(tmp_path / "rules")
    clock, port = ManualClock(START_S), free_port()
    loop = assemble(settings(tmp_path, f"http://127.0.0.1:{port}"), clock=clock)
    assert loop.questions is not None
    until(turning(loop, clock, lambda: events(loop, "rules.prometheus-failed")))
    down = prometheus_note(loop.questions)
    with prometheus_double(port) as double:
        until(turning(loop, clock, lambda: events(loop, "rules.prometheus-works-again")))
        double.go_on.clear()
        asked = len(double.asked)
        until(turning(loop, clock, lambda: len(double.asked) > asked))
        for _ in range(20):
            turning(loop, clock, lambda: None)()  # it would never end
        double.go_on.set()
    loop.close()

    assert len(events(loop, "rules.prometheus-failed")) <= 2
    assert "cannot be reached" in down
    assert "judged as ever" in down
    assert prometheus_note(None) == ""


def test_made_up_worlds_ask_nobody(tmp_path: Path) -> None:
    hot(tmp_path / "rules")
    loop = assemble(
        settings(tmp_path, "http://127.0.0.1:9"), clock=ManualClock(START_S), collectors=[]
    )
    loop.close()

    assert loop.questions is None


SHOWN = b"""# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{Hostname="far",gpu="2"} 97
DCGM_FI_DEV_GPU_TEMP{Hostname="far",gpu="3"} 50
"""


@pytest.mark.real
def test_a_real_steward_asks_a_real_prometheus(tmp_path: Path) -> None:
    from service.browsing import chromium, expect, new_context

    rules = hot(tmp_path / "rules")
    with (
        exporter(SHOWN) as shown,
        prometheus(tmp_path / "prometheus", scrape={"dcgm": shown}) as bed,
        upstream(
            tmp_path / "steward",
            settings=f"[rules]\npacks = false\npaths = ['{rules}']\nprometheus = '{bed.address}'\n",
        ) as up,
    ):

        def found() -> list[Any]:
            answer = httpx.get(
                f"http://{up.steward}/api/v1/findings", headers=up.headers, timeout=60
            )
            return list(answer.json()["items"])

        (first,) = until(found, why="the finding")
        with chromium() as browser:
            token = up.viewer.read_text()
            page = new_context(browser, f"http://{up.steward}", token).new_page()
            page.goto(f"http://{up.steward}/rules")
            queried = f"Metric terms also query {bed.address}"
            expect(page.locator(".st-main")).to_contain_text(queried)

    assert "far/gpu2" in str(first)

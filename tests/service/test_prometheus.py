"""A real Prometheus scrapes a real steward."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from patience import free_port, until
from service.running import running

pytestmark = pytest.mark.real


@contextmanager
def prometheus(folder: Path, target: str, token: str) -> Iterator[str]:
    """Run a Prometheus that scrapes `target` every second."""
    program = shutil.which("prometheus")
    assert program, "prometheus is not installed: run scripts/install-real-parts"
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        f"  - {{job_name: steward, static_configs: [{{targets: ['{target}']}}],"
        f" authorization: {{credentials: '{token}'}}}}\n"
    )
    port = free_port()
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
        yield f"http://127.0.0.1:{port}"
    finally:
        started.kill()
        started.wait()


def ask(address: str, query: str) -> list[dict[str, dict[str, str]]]:
    """Ask until there is an answer."""

    def answer() -> list[dict[str, dict[str, str]]]:
        try:
            said = httpx.get(f"{address}/api/v1/query", params={"query": query}, timeout=30)
            said.raise_for_status()  # 503 while it starts
        except httpx.HTTPError:
            return []
        return list(said.json()["data"]["result"])

    return until(answer, why=query)


def test_prometheus_scrapes_the_loop_and_every_gpu(tmp_path: Path) -> None:
    (tmp_path / "prometheus").mkdir()
    (tmp_path / "steward").mkdir()
    with (
        running(tmp_path / "steward") as steward,
        prometheus(
            tmp_path / "prometheus", steward.address.removeprefix("http://"), steward.token
        ) as address,
    ):
        up = ask(address, "up{job='steward'} == 1")
        turns = ask(address, "steward_turns_total > 0")
        gpus = ask(address, "steward_gpu_busy_share")

    assert up
    assert turns
    assert {(each["metric"]["node"], each["metric"]["gpu"]) for each in gpus} == {
        ("n1", "0"),
        ("n1", "1"),
    }


def test_promtool_finds_no_fault_in_the_metrics(tmp_path: Path) -> None:
    program = shutil.which("promtool")
    assert program, "promtool is not installed: run scripts/install-real-parts"
    with running(tmp_path) as steward:
        headers = {"authorization": f"Bearer {steward.token}"}
        metrics = httpx.get(f"{steward.address}/metrics", headers=headers, timeout=60).text

    checked = subprocess.run(
        [program, "check", "metrics"], input=metrics, capture_output=True, text=True, check=False
    )

    # Our rates end in `_per_s`, which its style guide would spell out. One name everywhere is worth
    # more: what is exposed is our own name with underscores.
    faults = [line for line in checked.stderr.splitlines() if "_per_s metric names" not in line]
    assert faults == []
    assert checked.returncode in (0, 3), checked.stdout + checked.stderr  # 3: style alone

"""A login node with two Slurm controllers and a Kubernetes context: three sites, each by itself."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from beds.kubernetes import kube_double
from beds.kubernetes import node as kube_node
from beds.slurm import SlurmBed, slurm_bed
from patience import LONG_S, until
from steward.clients.site_health import ask_health
from steward.model.site import SiteState

pytestmark = pytest.mark.real

CONFIG = """\
[loop]
every_s = 1.0
[observe]
collectors = ["host"]
timeout_s = 10.0
[learn]
miners = []
estimators = []
[jobs]
enabled = false
[plugs.slurm]
every_s = 1.0
timeout_s = 5.0
[sites.a.observe]
collectors = ["slurm"]
[sites.a.jobs]
engine = "slurm"
[sites.a.plugs.slurm]
conf = "{folder}/slurm.conf"
[sites.hung.observe]
collectors = ["slurm"]
[sites.hung.plugs.slurm]
conf = "{folder}/hung.conf"
[sites.k.observe]
collectors = ["kubernetes"]
[sites.k.plugs.kubernetes]
kubeconfig = "{folder}/kubeconfig"
"""
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: bed
contexts: [{{name: bed, context: {{cluster: bed, user: me}}}}]
clusters: [{{name: bed, cluster: {{server: "{server}"}}}}]
users: [{{name: me, user: {{token: right}}}}]
"""


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SlurmBed]:
    with slurm_bed(tmp_path, nodes=("n1",)) as made:
        yield made


@contextmanager
def silent_controller(bed: SlurmBed) -> Iterator[None]:
    """Write the configuration of a controller that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        text = (bed.folder / "slurm.conf").read_text()
        text = re.sub(r"(?m)^SlurmctldPort=.*$", f"SlurmctldPort={silent.getsockname()[1]}", text)
        (bed.folder / "hung.conf").write_text(text)
        yield


@contextmanager
def running(bed: SlurmBed) -> Iterator[subprocess.Popen[bytes]]:
    command = [*asked(bed, "up"), "--port", "0", "--no-browser", "--json"]
    with (bed.folder / "up.log").open("wb") as log:
        program = subprocess.Popen(command, stdout=log, stderr=log, env=bed.env)
    try:
        yield program
    finally:
        program.kill()
        program.wait()


def asked(bed: SlurmBed, *command: str) -> list[str]:
    where = ("--config", str(bed.folder / "steward.toml"), "--data", str(bed.folder / "data"))
    return [sys.executable, "-m", "steward", *command, *where]


def state(bed: SlurmBed, name: str) -> SiteState:
    return ask_health(name, bed.folder / "data" / "sites" / name / "steward.sock").state


def answered(bed: SlurmBed, *command: str) -> Any:
    done = subprocess.run(
        [*asked(bed, *command), "--json"], env=bed.env, capture_output=True, text=True, check=False
    )
    return json.loads(done.stdout)


@pytest.mark.timeout(6 * LONG_S)
def test_sites_with_controllers_that_hang_go_their_own_ways(bed: SlurmBed) -> None:
    with kube_double() as kube, silent_controller(bed):
        kube.put("nodes", kube_node("k1"))
        (bed.folder / "kubeconfig").write_text(KUBECONFIG.format(server=kube.address))
        (bed.folder / "steward.toml").write_text(CONFIG.format(folder=bed.folder))
        job = bed.submit("sleep 1000", "--job-name=mine")
        with running(bed) as program:
            for name in ("a", "k"):
                until(lambda name=name: state(bed, name) is SiteState.FINE, why=name)
            until(lambda: state(bed, "hung") is SiteState.UNREACHABLE, why="hung")
            listed = answered(bed, "jobs", "list", "--site", "a")

            controller = bed.daemons["slurmctld"].pid
            os.kill(controller, signal.SIGSTOP)
            try:
                until(lambda: state(bed, "a") is SiteState.UNREACHABLE, why="a that hangs")
                during = {each["name"]: each for each in answered(bed, "status")}
            finally:
                os.kill(controller, signal.SIGCONT)
            bed.run("scancel", job)
            until(lambda: state(bed, "a") is SiteState.FINE, why="a that answers again")
            program.terminate()
            code = program.wait(LONG_S)

    assert [each["id"] for each in listed] == [job]
    assert {name: each["state"] for name, each in during.items()} == {
        "this-machine": "fine",
        "a": "unreachable",
        "hung": "unreachable",
        "k": "fine",
    }
    assert during["a"]["since_s"] > during["hung"]["since_s"]
    assert code == 0
    assert [state(bed, name) for name in ("a", "hung", "k")] == [SiteState.STOPPED] * 3

"""What is handed to systemd, Slurm and Kubernetes is well-formed and does what it says."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from steward.config.settings import Settings
from steward.observe.collectors.job_map import JobMap

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
SCRIPTS = sorted((DEPLOY / "slurm").glob("*.sh"))


def test_the_example_configuration_is_valid() -> None:
    said = tomllib.loads((DEPLOY / "systemd" / "agent.toml").read_text())

    assert Settings.model_validate(said).agent.server.startswith("https://")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: str(unit.name))
def test_units_run_without_more_rights_than_they_name(unit: Path) -> None:
    lines = unit.read_text().splitlines()

    for needed in ("NoNewPrivileges=yes", "ProtectSystem=strict", "DynamicUser=yes"):
        assert needed in lines
    assert [line for line in lines if line.startswith("CapabilityBoundingSet=")]
    assert not [line for line in lines if line.startswith("ExecStart=") and "stw_" in line]


def test_a_restart_of_steward_leaves_jobs_running() -> None:
    lines = (DEPLOY / "systemd" / "steward.service").read_text().splitlines()

    assert "KillMode=process" in lines
    assert "Delegate=yes" in lines


def test_for_jobs_every_restriction_of_the_unit_is_lifted_that_jobs_would_inherit() -> None:
    def settings(name: str) -> dict[str, str]:
        lines = (DEPLOY / "systemd" / name).read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line and line[:1] != "#")

    unit, drop_in = settings("steward.service"), settings("jobs.conf")
    inherited = ("Protect", "Private", "Restrict", "SystemCallFilter", "SystemCallArch", "Lock")

    assert drop_in["User"] == "root"
    assert {key for key in unit if key.startswith(inherited)} <= {*drop_in}


def test_the_container_has_an_account_of_its_own() -> None:
    lines = (DEPLOY / "kubernetes" / "Dockerfile").read_text().splitlines()
    last = [line for line in lines if line.startswith("USER ")][-1]

    assert last.split()[1].partition(":")[0] not in ("0", "root")


@pytest.mark.real  # needs systemd-analyze
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: str(unit.name))
def test_systemd_understands_every_line(unit: Path, tmp_path: Path) -> None:
    if unit.name == "steward.service":
        (tmp_path / f"{unit.name}.d").mkdir()
        shutil.copy(unit.with_name("jobs.conf"), tmp_path / f"{unit.name}.d")
    text = unit.read_text().replace("/opt/steward/bin/steward", shutil.which("true") or "")
    (tmp_path / unit.name).write_text(text)

    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / unit.name],
        capture_output=True,
        text=True,
        check=False,
    )

    assert unit.name not in said.stdout + said.stderr
    assert said.returncode == 0, said.stderr


# -- Slurm -------------------------------------------------------------------------------------


def hook(name: str, folder: Path, **environment: str) -> int:
    return subprocess.run(
        ["sh", DEPLOY / "slurm" / name],
        env={"PATH": os.environ["PATH"], "STEWARD_JOBS": str(folder), **environment},
        check=False,
    ).returncode


def jobs(folder: Path) -> dict[str, list[str]]:
    return {file.name: file.read_text().split() for file in folder.glob("[0-9]*")}


def test_the_hooks_say_which_job_holds_which_gpu_and_the_collector_reads_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "jobs"
    hook("prolog.sh", folder, SLURM_JOB_ID="812", SLURM_JOB_GPUS="0,2-3")
    hook("prolog.sh", folder, SLURM_JOB_ID="900", SLURM_JOB_GPUS="3")
    hook("prolog.sh", folder, SLURM_JOB_ID="900", SLURM_JOB_GPUS="3")  # a second step
    collector = JobMap(folder=str(folder), node="n1")

    before = jobs(folder)
    begun = collector.collect(0.0).spans
    hook("epilog.sh", folder, SLURM_JOB_ID="812")
    ended = collector.collect(4e9).spans

    assert before == {"0": ["812"], "2": ["812"], "3": ["812", "900"]}
    assert [(span.entity, span.name) for span in begun] == [
        ("n1/gpu0", "812"),
        ("n1/gpu2", "812"),
        ("n1/gpu3", "812"),
        ("n1/gpu3", "900"),
    ]
    assert [(span.entity, span.name, span.to_s) for span in ended] == [
        ("n1/gpu0", "812", 4e9),
        ("n1/gpu2", "812", 4e9),
        ("n1/gpu3", "812", 4e9),
    ]
    assert jobs(folder) == {"3": ["900"]}
    assert collector.collect(4e9 + 1).spans == ()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.name))
@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"SLURM_JOB_ID": "1"},
        {"SLURM_JOB_ID": "1", "SLURM_JOB_GPUS": "GPU-abc,MIG-1/2/3,x-y,,$(reboot)"},
        {"SLURM_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": "NoDevFiles"},
    ],
    ids=["nothing", "no-gpus", "strange-gpus", "no-devices"],
)
def test_a_hook_never_fails_since_that_would_drain_the_node(
    tmp_path: Path, script: Path, environment: dict[str, str]
) -> None:
    assert hook(script.name, tmp_path, **environment) == 0
    assert jobs(tmp_path) == {}
    assert hook(script.name, Path("/proc/nowhere"), **environment) == 0


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.name))
def test_hooks_can_be_started_and_are_good_shell(script: Path) -> None:
    assert script.stat().st_mode & stat.S_IXUSR
    subprocess.run(["sh", "-n", script], check=True)
    checker = shutil.which("shellcheck")
    if checker:
        subprocess.run([checker, script], check=True)


# -- Kubernetes --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parts() -> dict[str, Any]:
    text = (DEPLOY / "kubernetes" / "agent-daemonset.yaml").read_text()
    return {part["kind"]: part for part in yaml.safe_load_all(text)}


def test_the_agent_may_read_and_nothing_else(parts: dict[str, Any]) -> None:
    verbs = {verb for rule in parts["ClusterRole"]["rules"] for verb in rule["verbs"]}
    (subject,) = parts["ClusterRoleBinding"]["subjects"]
    pod = parts["DaemonSet"]["spec"]["template"]["spec"]

    assert verbs == {"get", "list", "watch"}
    assert subject["name"] == parts["ServiceAccount"]["metadata"]["name"]
    assert pod["serviceAccountName"] == subject["name"]
    assert pod["containers"][0]["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert "privileged" not in pod["containers"][0]["securityContext"]


def test_every_mount_has_its_volume_and_the_pods_labels_are_selected(
    parts: dict[str, Any],
) -> None:
    spec = parts["DaemonSet"]["spec"]
    pod = spec["template"]["spec"]
    mounts = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}

    assert mounts == {volume["name"] for volume in pod["volumes"]}
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert pod["hostPID"] is pod["hostNetwork"] is True


def test_the_configuration_in_the_map_is_valid_and_its_files_are_mounted(
    parts: dict[str, Any],
) -> None:
    said = tomllib.loads(parts["ConfigMap"]["data"]["agent.toml"])
    agent = Settings.model_validate(said).agent
    (container,) = parts["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    places = [mount["mountPath"] for mount in container["volumeMounts"]]

    for path in (agent.ca_file, agent.token_file, agent.folder):
        assert any(path.startswith(place) for place in places), path
    assert container["args"][:2] == ["observe", "agent"]

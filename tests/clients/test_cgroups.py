"""Jobs are distinguished by control groups: v1, v2 and hybrid, of any engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steward.clients.cgroups import UNIFIED, CgroupReader, job_of

UID = "0f5c9d4e-7d2b-4b8f-9a51-3c1f2a6d7e80"
HEX = "3f4c" * 16


@pytest.mark.parametrize(
    ("path", "job"),
    [
        ("/slurm/uid_0/job_123/step_0", "123"),
        ("/slurm_n1/uid_1000/job_7", "7"),
        ("/system.slice/slurmstepd.scope/job_123/step_batch/user/task_0", "123"),
        ("/system.slice/n1_slurmstepd.scope/job_9/step_extern", "9"),
        (f"/kubepods/burstable/pod{UID}/{HEX}", f"pod:{UID}"),
        (f"/kubepods/pod{UID}", f"pod:{UID}"),
        (
            (
                f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
                f"{UID.replace('-', '_')}.slice/cri-containerd-{HEX}.scope"
            ),
            f"pod:{UID}",
        ),
        (
            (
                f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID.replace('-', '_')}"
                ".slice"
            ),
            f"pod:{UID}",
        ),
        (f"/kubepods/besteffort/pod{UID.replace('-', '')}", f"pod:{UID.replace('-', '')}"),
        (f"/docker/{HEX}", f"container:{HEX[:12]}"),
        (f"/system.slice/docker-{HEX}.scope", f"container:{HEX[:12]}"),
        (f"/machine.slice/libpod-{HEX}.scope/container", f"container:{HEX[:12]}"),
        (
            f"/system.slice/containerd.service/kubepods:cri-containerd:{HEX}",
            f"container:{HEX[:12]}",
        ),
        ("/user.slice/user-0.slice/steward-job-train-7.scope", "train-7"),
        (r"/user.slice/steward-job-a\x2db.scope/x", "a-b"),
        # of no job
        ("", None),
        ("/", None),
        ("/system.slice/slurmd.service", None),
        ("/system.slice/slurmstepd.scope/system", None),
        ("/user.slice/user-1000.slice/session-3.scope", None),
        ("/user.slice/run-u12.scope", None),
        (f"/machine.slice/libpod-conmon-{HEX}.scope", None),
        ("/ci/job_12", None),
        (f"/docker/{HEX}f", None),
        # the outer one counts; a Slurm job inside a pod is that job
        ("/slurm/uid_0/job_1/step_0/slurm/job_2", "1"),
        (f"/kubepods/pod{UID}/{HEX}/slurm/uid_0/job_5", "5"),
    ],
)
def test_a_path_reports_its_job(path: str, job: str | None) -> None:
    assert job_of(path) == job


def v1(root: Path, jobs: dict[str, list[str]]) -> Path:
    """Make a hybrid tree: controllers next to a v2 hierarchy, with the groups given for each."""
    (root / "unified").mkdir(parents=True)
    (root / "unified" / "cgroup.controllers").touch()
    for controller in ("cpu,cpuacct", "memory", "freezer"):
        (root / controller).mkdir()
        (root / controller / "cgroup.procs").touch()
    (root / "cpu").symlink_to("cpu,cpuacct")
    for controller, paths in jobs.items():
        for path in paths:
            (root / controller / path).mkdir(parents=True)
    return root


def test_of_several_hierarchies_the_one_with_most_jobs_counts(tmp_path: Path) -> None:
    paths = ["slurm/uid_0/job_1/step_0", "slurm/uid_0/job_2"]
    groups = CgroupReader(v1(tmp_path, {"freezer": paths, "memory": ["slurm/uid_0/job_1"]}))

    assert groups.hierarchy() == "freezer"
    assert groups.paths() == {
        "/slurm/uid_0/job_1": "1",
        "/slurm/uid_0/job_1/step_0": "1",
        "/slurm/uid_0/job_2": "2",
    }


def test_without_any_job_the_hierarchy_is_the_one_that_engines_like_best(tmp_path: Path) -> None:
    assert CgroupReader(v1(tmp_path, {})).hierarchy() == "memory"
    assert CgroupReader(tmp_path / "nothing").hierarchy() == UNIFIED


def test_controllers_that_are_mounted_together_are_one_hierarchy(tmp_path: Path) -> None:
    known = CgroupReader(v1(tmp_path, {})).hierarchies()

    assert set(known) == {"cpu", "cpuacct", "memory", "freezer", UNIFIED}
    assert known["cpuacct"] == tmp_path / "cpu,cpuacct"
    assert known[UNIFIED] == tmp_path / "unified"


def test_ids_are_the_inodes_of_the_folders(tmp_path: Path) -> None:
    job = tmp_path / "system.slice/slurmstepd.scope/job_4/step_batch"
    job.mkdir(parents=True)
    (tmp_path / "cgroup.controllers").touch()
    groups = CgroupReader(tmp_path)

    ids = groups.ids()

    assert groups.hierarchy() == UNIFIED
    assert ids[job.stat().st_ino] == "/system.slice/slurmstepd.scope/job_4/step_batch"
    assert ids[tmp_path.stat().st_ino] == "/"
    assert len(ids) == 5


def test_a_process_is_where_its_job_is(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text(
        f"9:name=systemd:/\n5:pids:/kubepods/pod{UID}/{HEX}\n"
        "4:memory:/slurm/uid_0/job_12/step_0\n0::/\n"
    )
    (tmp_path / "8").mkdir()
    (tmp_path / "8/cgroup").write_text("3:cpuset:/\n2:memory:/a/b\nrubbish\n0::/user.slice\n")
    (tmp_path / "9").mkdir()
    (tmp_path / "9/cgroup").write_text("0::/docker/" + HEX + " (deleted)\n")
    groups = CgroupReader(tmp_path / "none", tmp_path)

    assert groups.of_pid(7) == "/slurm/uid_0/job_12/step_0"
    assert groups.of_pid(8) == "/a/b"
    assert groups.of_pid(9) == f"/docker/{HEX}"
    assert groups.of_pid(4242) == ""


@pytest.mark.parametrize(
    ("environ", "borrower"),
    [
        (b"A=1\0STEWARD_LENT_TO=15\0STEWARD_LENT_STEP=12.3\0", "15"),
        (b"STEWARD_LENT_TO=15\0STEWARD_LENT_STEP=12.4\0", None),  # inherited from elsewhere
        (b"STEWARD_LENT_TO=../15\0STEWARD_LENT_STEP=12.3\0", None),
        (b"\xff\0=\0", None),
    ],
)
def test_a_process_of_a_step_that_borrows_belongs_to_the_borrower(
    tmp_path: Path, environ: bytes, borrower: str | None
) -> None:
    for pid, path in (("7", "/slurm/uid_0/job_12/step_3/user/task_0"), ("8", "/slurm/job_12")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cgroup").write_text(f"0::{path}\n")
        (tmp_path / pid / "environ").write_bytes(environ)
    groups = CgroupReader(tmp_path / "none", tmp_path)

    assert groups.borrower_of_pid(7) == borrower
    assert groups.borrower_of_pid(8) is None
    assert groups.borrower_of_pid(4242) is None


def test_a_machine_without_control_groups_has_no_jobs(tmp_path: Path) -> None:
    groups = CgroupReader(tmp_path / "nothing", tmp_path)

    assert (groups.paths(), groups.ids(), dict(groups.hierarchies())) == ({}, {}, {})


def test_this_process_is_somewhere() -> None:
    assert CgroupReader().of_pid(os.getpid()).startswith("/")

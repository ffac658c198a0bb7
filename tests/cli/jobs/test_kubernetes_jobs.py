"""`steward jobs --engine kubernetes`, as people use it.

The first half runs on the API double, and with `KUBECONFIG` also on a real cluster:
`KUBECONFIG=… pytest -m real tests/cli/jobs/test_kubernetes_jobs.py`, in the namespace of its
context, with the image `$STEWARD_TEST_IMAGE` (busybox).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from beds.kube_user_jobs import UserBed, UserCluster, configured, kubeconfig, serve_trainings
from beds.kubernetes import KubeDouble, kube_double, node
from steward.clients.kubernetes import Api, find_credentials
from steward.clients.kubernetes_jobs.job_lookup import JobLookup
from told import steward

DEPLOY = Path(__file__).parents[3] / "deploy" / "kubernetes"


@pytest.fixture
def double() -> Iterator[KubeDouble]:
    with kube_double() as running:
        running.put("nodes", node("n1", gpus=8))
        running.put("namespaces", {"metadata": {"uid": "ns", "name": "bio"}})
        running.installed = False
        yield running


@pytest.fixture
def cluster(double: KubeDouble) -> UserCluster:
    return UserCluster(double)


@pytest.fixture
def near(double: KubeDouble, tmp_path: Path) -> UserBed:
    """A double in which nothing happens by itself."""
    return UserBed(config=configured(tmp_path, kubeconfig(double, tmp_path / "kubeconfig")))


@pytest.fixture(
    params=[
        "double",
        pytest.param(
            "real",
            marks=[
                pytest.mark.real,
                pytest.mark.skipif("KUBECONFIG" not in os.environ, reason="no real cluster"),
            ],
        ),
    ]
)
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[UserBed]:
    if request.param == "double":
        near = request.getfixturevalue("near")
        with request.getfixturevalue("cluster").ticking():
            yield near
        return
    access = find_credentials()
    assert access is not None
    if JobLookup(Api(access), access.namespace or "default").has_trainings:
        pytest.skip("TrainingJobs are installed there: a steward decides when they start")
    file = os.environ["KUBECONFIG"].partition(":")[0]
    running = UserBed(config=configured(tmp_path, Path(file).absolute()))
    yield running
    for job in running.made:
        running.jobs("cancel", job)


# -- on a double, and on a real cluster -----------------------------------------------------------


def test_a_job_is_submitted_listed_waited_for_and_read(bed: UserBed) -> None:
    job = bed.submit("--job-name", "hello", "--", "sh", "-c", "echo hello; exit 3")

    waited = bed.jobs("wait", job)
    shown = bed.jobs("show", job, "--json").json
    listed = {each["id"]: each for each in bed.jobs("list", "--all", "--json").json}
    log = bed.jobs("logs", job)

    assert (waited.code, log.out) == (3, "hello\n")
    assert (shown["state"], shown["why"]) == ("failed", "it exited with 3")
    assert (listed[job]["name"], listed[job]["exit_code"]) == ("hello", 3)
    assert job not in [each["id"] for each in bed.jobs("list", "--json").json]


def test_a_script_runs_with_its_arguments_and_options(bed: UserBed, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\n#SBATCH --job-name=trained --output=x.log\necho trained\n")

    answer = bed.jobs("submit", "--wait", script, "one")
    job = answer.out.strip()
    bed.made.append(job)

    assert answer.code == 0, answer.err
    assert "these options mean nothing here: output" in answer.err
    assert job.startswith("trained-")
    assert bed.jobs("logs", job).out == "trained\n"


def test_a_held_job_waits_for_its_release(bed: UserBed) -> None:
    job = bed.submit("--hold", "--", "sh", "-c", "echo free")
    held = bed.jobs("show", job, "--json").json

    why = bed.jobs("why", job)
    released = bed.jobs("release", job)
    waited = bed.jobs("wait", job)

    assert held["state"] == "held"
    assert why.out.startswith(f"job {job}: held: held by ")
    assert released.out == f"{job}: waiting (released: Kubernetes starts it when there is room)\n"
    assert waited.code == 0


def test_a_job_that_saves_is_stopped_and_goes_on(bed: UserBed) -> None:
    text = "trap 'exit 143' TERM; echo begun; sleep 600 & wait"
    job = bed.submit("--saves", "5", "--", "sh", "-c", text)
    bed.wait_state(job, "running")

    stopped = bed.jobs("preempt", job)
    bed.wait_state(job, "preempted")
    resumed = bed.jobs("resume", job)
    bed.wait_state(job, "resumed")

    assert (stopped.code, resumed.code) == (0, 0)
    assert "its pods have 30 s to save and end" in stopped.out
    assert bed.jobs("cancel", job).code == 0


def test_a_cancelled_job_is_gone_with_its_pods(bed: UserBed) -> None:
    job = bed.submit("--", "sh", "-c", "trap 'exit 0' TERM; sleep 600 & wait")
    bed.wait_state(job, "running")

    answer = bed.jobs("cancel", job)
    bed.wait_state(job, "gone")
    missing = bed.jobs("show", job)

    assert answer.out.startswith(f"{job}: cancelled (deleted: ")
    assert (missing.code, "Kubernetes has no such job in namespace" in missing.err) == (2, True)


def test_an_array_has_tasks_of_its_own(bed: UserBed) -> None:
    job = bed.submit("--array", "0-2", "--", "sh", "-c", "echo task")

    waited = bed.jobs("wait", job)
    shown = bed.jobs("show", job, "--json").json

    assert waited.code == 0
    assert [each["id"] for each in shown["tasks"]] == [f"{job}_{i}" for i in range(3)]
    assert {each["state"] for each in shown["tasks"]} == {"finished"}
    assert bed.jobs("logs", f"{job}_2").out == "task\n"
    assert bed.jobs("wait", f"{job}_1").code == 0


def test_the_same_token_is_the_same_job(bed: UserBed) -> None:
    token = os.urandom(8).hex()
    once = bed.submit("--token", token, "--hold", "--job-name", "one", "--", "true")

    again = bed.submit("--token", token, "--hold", "--job-name", "other", "--", "true")

    assert again == once


# -- exactly once ---------------------------------------------------------------------------------


def test_an_answer_that_is_lost_leaves_one_job(near: UserBed, double: KubeDouble) -> None:
    double.lost = 1

    job = near.submit("--", "true")

    assert [each["metadata"]["name"] for each in double.all("jobs")] == [job]


def test_a_server_that_is_away_for_a_moment_is_waited_for(
    near: UserBed, double: KubeDouble
) -> None:
    real = double.create

    def away(*args: Any) -> Any:
        double.create = real  # type: ignore[method-assign]
        double.down = 1  # the next request
        return real(*args)

    double.create = away  # type: ignore[method-assign]
    double.lost = 1

    near.submit("--", "true")

    assert len(double.all("jobs")) == 1


# -- on the command line ---------------------------------------------------------------------------


def test_a_dry_run_prints_the_manifest_and_sends_nothing(near: UserBed, double: KubeDouble) -> None:
    answer = near.jobs("submit", "--dry-run", "--gpus", "2", "--", "python", "train.py")

    made = yaml.safe_load(answer.out)
    assert (made["kind"], made["metadata"]["namespace"]) == ("Job", "bio")
    assert double.all("jobs") == []


def test_a_dry_run_of_a_change_prints_what_a_person_types(
    near: UserBed, double: KubeDouble
) -> None:
    job = near.submit("--hold", "--", "true")

    released = near.jobs("release", job, "--dry-run")
    cancelled = near.jobs("cancel", job, "--dry-run", "--json").json

    assert released.out.startswith(f"kubectl -n bio patch job {job} --type=merge -p '")
    assert cancelled["requests"][0]["body"]["propagationPolicy"] == "Foreground"
    assert double.named("jobs", job)["spec"]["suspend"] is True


def test_the_table_and_top_have_a_line_for_each_job(near: UserBed, cluster: UserCluster) -> None:
    job = near.submit("--job-name", "train", "--gpus", "4", "--", "sh", "-c", "sleep 9")
    cluster.tick()

    listed, top = near.jobs("list").out, near.jobs("top", "--once").out

    for text in (listed, top):
        assert job in text
        assert "4@n1" in text


def test_the_answer_says_what_was_made(near: UserBed, double: KubeDouble) -> None:
    plain = near.jobs("submit", "--json", "--", "true").json
    double.installed = True
    ours = near.jobs("submit", "--json", "--", "true").json

    said = near.jobs("submit", "--hold", "--", "true")

    assert (plain["kind"], ours["kind"]) == ("Job", "TrainingJob")
    assert said.err == f"TrainingJob bio/{said.out.strip()}: held\n"
    shown = near.jobs("show", ours["id"])
    assert f"job {ours['id']} (true) of " in shown.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("show", "No_Such"), "is no id of a job"),
        (("show", "nosuch"), "Kubernetes has no such job in namespace bio"),
        (("cost",), "what jobs cost is not kept for Kubernetes"),
        (("submit", "--sbatch=--exclusive", "--", "true"), "are for Slurm"),
        (("submit", "--volume", "data", "--", "true"), "'data' is no volume"),
        (("submit", "--dependency", "afterok:1", "--", "true"), "has no dependencies"),
    ],
)
def test_what_cannot_be_is_answered_with_the_reason(
    near: UserBed, args: tuple[str, ...], said: str
) -> None:
    answer = near.jobs(*args)

    assert answer.code == 2
    assert said in answer.err


@pytest.mark.parametrize("engine", ["local", "slurm"])
def test_images_are_refused_elsewhere(engine: str) -> None:
    answer = steward("jobs", "submit", "--engine", engine, "--image", "x", "--", "true")

    assert (answer.code, "are for Kubernetes" in answer.err) == (2, True)


def test_without_a_cluster_it_is_said_what_to_set() -> None:
    away = {"KUBECONFIG": None, "KUBERNETES_SERVICE_HOST": None}
    answer = steward("jobs", "list", "--engine", "kubernetes", **away)

    assert (answer.code, "no cluster is configured" in answer.err) == (2, True)
    assert "KUBECONFIG" in answer.err


def test_a_volume_is_mounted(near: UserBed, double: KubeDouble) -> None:
    job = near.submit("--volume", "data:/data", "--", "true")

    pod = double.named("jobs", job)["spec"]["template"]["spec"]
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "data"}
    assert pod["containers"][0]["volumeMounts"][0]["mountPath"] == "/data"


def test_who_may_edit_a_namespace_may_do_all_of_it(
    near: UserBed, double: KubeDouble, cluster: UserCluster
) -> None:
    """The role `edit` of Kubernetes, and what deploy/kubernetes/users.yaml adds to it."""
    users = yaml.safe_load_all((DEPLOY / "users.yaml").read_text(encoding="utf-8"))
    ours = [(verb, "trainingjobs", "steward.dev") for x in users for verb in x["rules"][0]["verbs"]]
    core = [("get", "pods/log", ""), ("list", "pods", ""), ("list", "events", "")]
    batch = [(verb, "jobs", "batch") for verb in ("get", "list", "create", "patch", "delete")]
    double.rights = {*ours, *core, *batch}
    double.installed = True

    job = near.submit("--saves", "5", "--", "sh", "-c", "sleep 9")
    serve_trainings(double)
    made = double.all("jobs")[0]["metadata"]["name"]
    double.patch("jobs", "bio", made, {"spec": {"suspend": False}}, manager="steward")
    cluster.tick()
    done = [near.jobs(what, job) for what in ("why", "logs", "preempt")]
    done.append(near.jobs("list"))
    for _ in range(4):
        cluster.tick()
    done += [near.jobs(what, job) for what in ("hold", "release", "resume", "cancel")]

    assert [each.err for each in done if each.code] == []

"""The operator as a process: killed at any time, it leaves one Job of each TrainingJob."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from beds.kube_user_jobs import UserBed, UserCluster, configured, kubeconfig
from beds.kubernetes import KubeDouble, kube_double, node
from beds.training_jobs import Scenario, training
from factories import decision
from patience import LONG_S, until
from steward.act.actuators.kubernetes import Kubernetes
from steward.clients.kubernetes import Api, find_credentials
from steward.clients.kubernetes.batch_job import batch_job_from
from steward.clients.kubernetes.objects import maps_in
from steward.clients.kubernetes_jobs.job_lookup import JobLookup
from steward.model.actions import Start
from steward.model.identity import JobId
from told import steward

JOBS, KILLS = 200, 20
RUNS = 12


@pytest.fixture
def double() -> Iterator[KubeDouble]:
    with kube_double() as running:
        yield running


@pytest.fixture
def operate(double: KubeDouble, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    file = kubeconfig(double, tmp_path / "kubeconfig")
    with operating(file) as begin:
        yield begin


@contextmanager
def operating(file: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Begin operators as processes; they end with the test."""
    begun: list[subprocess.Popen[str]] = []

    def begin(*more: str) -> subprocess.Popen[str]:
        options = ["--kubeconfig", str(file), "--identity", "op", "--every", "0.05"]
        command = [sys.executable, "-m", "steward", "kubernetes", "operator", *options, *more]
        begun.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
            )
        )
        return begun[-1]

    try:
        yield begin
    finally:
        for each in begun:
            if each.poll() is None:
                each.kill()
            each.communicate(timeout=LONG_S)


def test_an_operator_serves_until_it_is_asked_to_end(
    double: KubeDouble, operate: Callable[..., subprocess.Popen[str]]
) -> None:
    double.create("trainingjobs", "bio", training("train"), "ann")
    running = operate("--json")
    until(lambda: double.named("trainingjobs", "train").get("status"), why="the status")

    running.terminate()
    double.cut()  # a watch would hold it up for half a second
    out, err = running.communicate(timeout=LONG_S)

    assert (running.returncode, json.loads(out)["created"]) == (0, 1)
    assert err.startswith("operator op at http://127.0.0.1:")
    assert double.named("leases", "steward-operator")["spec"]["holderIdentity"] == ""


def test_the_operator_keeps_pools_and_answers_kueue_unless_it_is_told_not_to(
    double: KubeDouble, operate: Callable[..., subprocess.Popen[str]]
) -> None:
    double.create("resourcepools", "", {"metadata": {"name": "p"}, "spec": {}}, "ann")
    lend = {"metadata": {"name": "lend"}, "spec": {"controllerName": "steward.dev/lend"}}
    double.create("admissionchecks", "", lend, "ann")

    def active() -> bool:
        return "status" in double.named("admissionchecks", "lend")

    without = operate("--no-kueue")
    until(lambda: "status" in double.named("resourcepools", "p"), why="the pool")
    before = active()
    without.terminate()
    double.cut()
    without.communicate(timeout=LONG_S)
    operate()

    until(active, why="the check")
    assert not before


def test_without_a_cluster_the_operator_says_what_to_set() -> None:
    answer = steward("kubernetes", "operator", "--kubeconfig", "/nonexistent/config")

    assert answer.code == 2
    assert "/nonexistent/config" in answer.err


@pytest.mark.real
def test_two_hundred_jobs_end_once_each_while_the_process_is_killed_twenty_times(
    double: KubeDouble, operate: Callable[..., subprocess.Popen[str]]
) -> None:
    scenario, running = Scenario(double, jobs=JOBS, seed=3), operate()
    kills = passes = 0

    def passed() -> bool:
        return sum("/leases/" in each for each in double.asked) > passes

    while not scenario.over:
        scenario.turn()
        until(passed, why="a pass of the operator")
        passes = sum("/leases/" in each for each in double.asked)
        if kills < KILLS and scenario.turns % 6 == 5:
            running.kill()
            running.communicate(timeout=LONG_S)
            kills += 1
            scenario.decider.restart()
            scenario.turn()  # the cluster goes on meanwhile
            running = operate()

    assert kills == KILLS
    scenario.assert_each_job_ended_once()


# -- what people submit, to its end: on the double, and on a real cluster -------------------------


@pytest.fixture(
    params=[
        "double",
        pytest.param(
            "cluster",
            marks=pytest.mark.skipif("KUBECONFIG" not in os.environ, reason="no real cluster"),
        ),
    ]
)
def kubeconfig_file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    if request.param == "double":
        double = request.getfixturevalue("double")
        double.put("nodes", node("n1"))
        with UserCluster(double).ticking():
            yield kubeconfig(double, tmp_path / "kubeconfig")
        double.cut()
        return
    yield Path(os.environ["KUBECONFIG"].partition(":")[0]).absolute()


@pytest.mark.real
def test_what_people_submit_runs_once_while_the_operator_is_killed(
    kubeconfig_file: Path, tmp_path: Path
) -> None:
    """On a real cluster it needs our resources (deploy/kubernetes), and no other steward."""
    access = find_credentials(str(kubeconfig_file))
    assert access is not None
    api, namespace = Api(access), access.namespace or "default"
    lookup = JobLookup(api, namespace)
    if not lookup.has_trainings:
        pytest.skip("TrainingJobs are not installed there")
    bed, label = UserBed(config=configured(tmp_path, kubeconfig_file)), uuid.uuid4().hex
    engine = Kubernetes(api=api, namespace=namespace, settle_s=0.0)
    options = ("--namespace", namespace, "--lease-namespace", namespace)
    ids: list[str] = []

    def made() -> int:
        """Return how many of them have Jobs."""
        owned = [raw["metadata"]["name"] for raw in api.list(lookup.jobs)[0]]
        return sum(any(name.startswith(id_) for name in owned) for id_ in ids)

    def ended() -> int:
        """Start what waits for steward; return how many jobs are over."""
        for raw in api.list(lookup.jobs)[0]:
            job = batch_job_from(raw)
            if job is not None and job.waits_for_us and job.owner_kind == "TrainingJob":
                start = Start(job=JobId(f"batch:{job.uid}"), gpus=())
                t_s = time.time()
                engine.carry_out(decision(f"d-{job.uid}", action=start, t_s=t_s), t_s)
        listed = {each["id"]: each for each in bed.jobs("list", "--all", "--json").json}
        return sum(listed[id_]["state"] == "finished" for id_ in ids)

    with operating(kubeconfig_file) as begin:
        for round_ in range(4):
            first = begin(*options)
            ids.extend(
                bed.submit("--token", f"{label}-{round_}-{i}", "--", "sh", "-c", "echo ran")
                for i in range(RUNS // 4)
            )
            until(lambda: made() > len(ids) - RUNS // 4, why="the first Job of this round")
            first.kill()
            second = begin(*options)
            until(lambda: ended() == len(ids), why="the end of all")
            second.kill()

    jobs = [job for raw in api.list(lookup.jobs)[0] if (job := batch_job_from(raw)) is not None]
    pods = api.list(f"/api/v1/namespaces/{namespace}/pods", labels="job-name")[0]
    owners = [owner["uid"] for raw in pods for owner in maps_in(raw["metadata"], "ownerReferences")]
    ours = [job for job in jobs if any(job.name.startswith(id_) for id_ in ids)]
    assert len(ours) == RUNS
    assert [owners.count(job.uid) for job in ours] == [1] * RUNS
    assert {bed.jobs("logs", id_).out for id_ in ids} == {"ran\n"}
    for id_ in ids:
        api.delete(f"{lookup.trainings}/{id_}", {"propagationPolicy": "Foreground"})
    api.close()

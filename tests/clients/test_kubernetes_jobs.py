"""Jobs of Kubernetes in the words of every engine: what is sent, what is answered."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from act.actuators.test_kubernetes import T_S, engine, start
from beds.kube_user_jobs import UserCluster, serve_trainings
from beds.kubernetes import KubeDouble, kube_double, node
from steward.clients.kubernetes import Api
from steward.clients.kubernetes.annotations import HELD, HOLD, SAVES
from steward.clients.kubernetes.batch_job import QUEUE, batch_job_from
from steward.clients.kubernetes.faults import ForbiddenError, UnauthorizedError
from steward.clients.kubernetes_jobs.engine import MANAGER, KubernetesJobs
from steward.clients.kubernetes_jobs.job_options import KubeDraft, draft_of
from steward.errors import StewardError, TemporaryError
from steward.model.identity import JobId

IMAGE = "registry.example/train:1"


def drafted(*command: str, script: str = "", image: str = IMAGE, **given: str) -> KubeDraft:
    named = {key.replace("_", "-"): value for key, value in given.items()}
    what = command or ("python", "train.py")
    return draft_of(what, {"token": "t", **named}, script=script, image=image)


@pytest.fixture
def double() -> Iterator[KubeDouble]:
    with kube_double() as running:
        running.put("nodes", node("n1", gpus=8))
        running.put("namespaces", {"metadata": {"uid": "ns", "name": "bio"}})
        yield running


def person(double: KubeDouble, namespace: str = "bio") -> KubernetesJobs:
    api = Api(double.access(), manager=MANAGER)
    double.clients.append(api)
    return KubernetesJobs(api, namespace=namespace)


def changed(jobs: KubernetesJobs, what: str, id_: str, **body: Any) -> dict[str, Any]:
    return jobs.change(what, id_, body)[0]


# -- what is sent ---------------------------------------------------------------------------------


def test_a_pod_has_what_was_asked_for(double: KubeDouble) -> None:
    double.installed = False
    draft = drafted(
        job_name="My Train", gpus="8", nodes="2", cpus_per_task="4", mem="16G", time="2:00:00",
        priority="high", chdir="/work", export="SEED=$3", saves="60",
    )  # fmt: skip

    made = person(double).manifest(draft)

    pod = made["spec"]["template"]["spec"]
    main = pod["containers"][0]
    assert (made["kind"], made["metadata"]["name"][:9]) == ("Job", "my-train-")
    assert main["resources"]["limits"] == {"nvidia.com/gpu": "4", "cpu": "4", "memory": "16384Mi"}
    assert (main["image"], main["workingDir"]) == (IMAGE, "/work")
    assert main["env"][0] == {"name": "SEED", "value": "$$3"}
    assert (pod["activeDeadlineSeconds"], pod["priorityClassName"]) == (7200, "high")
    assert (pod["terminationGracePeriodSeconds"], pod["restartPolicy"]) == (70, "Never")
    assert made["metadata"]["annotations"][SAVES] == "60"
    assert made["spec"]["template"]["metadata"]["annotations"] == {SAVES: "60"}
    assert (made["spec"]["completions"], made["spec"]["parallelism"]) == (2, 2)
    rule = made["spec"]["podFailurePolicy"]["rules"][0]
    assert (rule["action"], rule["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")


def test_other_gpus_have_other_names(double: KubeDouble) -> None:
    api = double.api()
    jobs = KubernetesJobs(api, namespace="bio", gpu_resource="amd.com/gpu")

    made = jobs.manifest(drafted(gpus="2"))

    container = made["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"amd.com/gpu": "2"}


def test_a_training_job_is_made_where_they_are_installed(double: KubeDouble) -> None:
    jobs = person(double)

    made = jobs.submit(drafted(gpus="8", saves="60"))
    array = jobs.submit(draft_of(["true"], {"token": "a", "array": "0-3"}, script="", image="i"))
    queued = jobs.submit(
        draft_of(["true"], {"token": "q", "partition": "lq"}, script="", image="i")
    )

    assert [each["kind"] for each in (made, array, queued)] == ["TrainingJob", "Job", "Job"]
    assert double.named("trainingjobs", made["id"])["spec"]["saveSeconds"] == 60
    task = double.named("jobs", array["id"])["spec"]
    assert (task["backoffLimitPerIndex"], "backoffLimit" in task) == (0, False)
    assert double.named("jobs", queued["id"])["metadata"]["labels"][QUEUE] == "lq"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"dependency": "afterok:1"}, "Kubernetes has no dependencies"),
        ({"slots": "2"}, "Kubernetes counts CPUs"),
        ({"priority": "5"}, "name a class"),
        ({"export": "ALL"}, "mean nothing in an image"),
        ({"saves": "soon"}, "how many seconds"),
        ({"chdir": "work"}, "whole path"),
        ({"array": "1,5"}, "these indices are not possible"),
        ({"nodes": "0"}, "is no number of pods"),
        ({"gpus": "3", "nodes": "2"}, "cannot be divided among 2 pods"),
        ({"image": ""}, "no image is named"),
    ],
)
def test_what_kubernetes_has_no_word_for_is_refused(given: dict[str, str], problem: str) -> None:
    with pytest.raises(StewardError, match=problem):
        drafted(**given)


def test_all_faults_of_a_submission_are_named_at_once() -> None:
    with pytest.raises(StewardError) as refused:
        drafted(dependency="afterok:1", slots="2")

    assert "--dependency" in refused.value.problem
    assert "--slots" in refused.value.problem


def test_the_shell_around_a_script_keeps_its_status_and_its_text(tmp_path: Path) -> None:
    text = '#!/bin/sh\nkept=$(echo "$$" | wc -c)\n[ "$kept" -gt 1 ] && echo "$1 $2"\nexit 7\n'
    draft = drafted("train.sh", "a b", "c", script=text)
    with kube_double() as double:
        made = person(double).manifest(draft)
    command = made["spec"]["template"]["spec"]["containers"][0]["command"]

    run = [each.replace("$$", "$") for each in command]  # as Kubernetes does
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (7, "a b c\n", "")


# -- what is refused ------------------------------------------------------------------------------


def test_who_may_not_is_told_so_at_once(double: KubeDouble) -> None:
    double.forbidden = {"trainingjobs", "jobs"}

    with pytest.raises(ForbiddenError, match="403"):
        person(double).submit(drafted())


def test_a_credential_that_is_refused_is_not_tried_for_minutes(double: KubeDouble) -> None:
    double.refuse()

    with pytest.raises(UnauthorizedError, match="401"):
        person(double).submit(drafted())


def test_a_namespace_that_does_not_exist_is_named(double: KubeDouble) -> None:
    jobs = person(double, "chem")

    for ask in (lambda: jobs.submit(drafted()), lambda: jobs.listed(ended=True, limit=9)):
        with pytest.raises(StewardError, match="there is no namespace chem"):
            ask()


def test_a_server_that_is_away_may_be_asked_again(double: KubeDouble) -> None:
    double.down = 1

    with pytest.raises(TemporaryError, match="503"):
        person(double).listed(ended=False, limit=9)


# -- holding, stopping, going on ------------------------------------------------------------------


def started(double: KubeDouble, jobs: KubernetesJobs, **given: str) -> tuple[str, JobId]:
    """Return a submitted TrainingJob, and its Job as steward calls it."""
    made = jobs.submit(drafted("sh", "-c", "sleep 9", saves="20", **given))
    serve_trainings(double)
    return made["id"], JobId(f"batch:{double.all('jobs')[-1]['metadata']['uid']}")


def test_what_a_person_holds_is_not_started_by_steward(double: KubeDouble) -> None:
    jobs = person(double)
    id_, job = started(double, jobs)

    held = changed(jobs, "hold", id_, note="wait for the data")
    refused = engine(double).carry_out(start(job), T_S)
    state = jobs.show(id_)
    changed(jobs, "release", id_)
    begun = engine(double).carry_out(start(job, "d-2"), T_S)

    assert (held["state"], refused.result, begun.result) == ("held", "failed", "begun")
    assert "wait for the data" in state["why"]


def test_a_training_job_that_is_submitted_held_has_a_held_job(double: KubeDouble) -> None:
    jobs = person(double)
    id_, job = started(double, jobs, hold="")

    refused = engine(double).carry_out(start(job), T_S)

    assert (jobs.show(id_)["state"], refused.result) == ("held", "failed")


def test_a_training_job_is_held_before_it_has_a_job(double: KubeDouble) -> None:
    jobs = person(double)
    id_ = jobs.submit(drafted())["id"]
    before = jobs.show(id_)

    changed(jobs, "hold", id_)
    serve_trainings(double)

    assert before["why"] == "the operator has not made its Job yet"
    assert HELD in double.all("jobs")[0]["metadata"]["annotations"]
    assert jobs.show(id_)["state"] == "held"


def test_a_preempted_training_job_goes_back_to_steward(double: KubeDouble) -> None:
    jobs, cluster = person(double), UserCluster(double)
    id_, job = started(double, jobs)
    engine(double).carry_out(start(job), T_S)
    cluster.tick()
    running = jobs.show(id_)

    stopped = changed(jobs, "preempt", id_)
    saving = jobs.show(id_)["state"]
    for _ in range(4):
        cluster.tick()
    after = jobs.show(id_)
    resumed = engine(double).carry_out(start(job, "d-2"), T_S)

    assert (running["state"], running["nodes"]) == ("running", ["n1"])
    assert (stopped["state"], saving, after["state"]) == ("preempted", "saving", "preempted")
    assert after["why"] == "steward starts it when there is room"
    assert resumed.result == "begun"


def test_what_has_not_said_that_it_saves_is_stopped_by_force_alone(double: KubeDouble) -> None:
    double.installed = False
    jobs, cluster = person(double), UserCluster(double)
    id_ = jobs.submit(drafted("sh", "-c", "sleep 9"))["id"]
    cluster.tick()

    with pytest.raises(StewardError, match="has not said that it can save"):
        changed(jobs, "preempt", id_)
    with pytest.raises(StewardError, match="no file for requests") as refused:
        changed(jobs, "save", id_)
    assert "submit it with --saves" in refused.value.hint
    with pytest.raises(StewardError, match="does not wait"):
        changed(jobs, "hold", id_)
    with pytest.raises(StewardError, match="lengthens no time limit"):
        changed(jobs, "extend", id_)

    assert changed(jobs, "preempt", id_, force=True)["state"] == "preempted"


def test_an_elastic_job_goes_on_with_another_number_of_pods(double: KubeDouble) -> None:
    double.installed = False
    jobs, cluster = person(double), UserCluster(double)
    id_ = jobs.submit(drafted("sh", "-c", "sleep 9", nodes="2"))["id"]
    cluster.tick()
    with pytest.raises(StewardError, match="has not said with how many pods"):
        changed(jobs, "move", id_, to=1)
    raw = double.named("jobs", id_)
    notes = {**raw["metadata"]["annotations"], "steward.dev/elastic": "1-2"}
    double.put("jobs", {**raw, "metadata": {**raw["metadata"], "annotations": notes}})

    with pytest.raises(StewardError, match="chooses nodes and GPUs itself"):
        changed(jobs, "move", id_, to=["n2"])
    moved = changed(jobs, "move", id_, to=1)

    assert (moved["state"], double.named("jobs", id_)["spec"]["completions"]) == ("resized", 1)


def test_a_change_that_is_overtaken_is_made_again(double: KubeDouble) -> None:
    double.installed = False
    jobs = person(double)
    id_ = jobs.submit(drafted(hold=""))["id"]
    real, left = double.patch, [1]

    def overtaken(*args: Any, **options: Any) -> Any:
        if left.pop() if left else 0:
            raw = double.named("jobs", id_)
            double.put("jobs", {**raw, "status": {"active": 0}})
        return real(*args, **options)

    double.patch = overtaken  # type: ignore[method-assign]
    answer = changed(jobs, "release", id_)

    found = batch_job_from(double.named("jobs", id_))
    assert found is not None
    assert (answer["state"], found.suspended, found.suspended_by) == ("waiting", False, {MANAGER})
    assert HOLD not in found.annotations


def test_a_single_task_is_looked_at_and_not_changed(double: KubeDouble) -> None:
    jobs = person(double)
    made = jobs.submit(draft_of(["true"], {"token": "a", "array": "0-1"}, script="", image="i"))

    with pytest.raises(StewardError, match="does not change a single task"):
        changed(jobs, "cancel", f"{made['id']}_0")
    with pytest.raises(StewardError, match="it has no such task"):
        jobs.status(f"{made['id']}_2")
    assert jobs.status(f"{made['id']}_1") is None


# -- looking --------------------------------------------------------------------------------------


def test_why_has_the_scheduler_and_the_warnings(double: KubeDouble) -> None:
    double.installed = False
    jobs, cluster = person(double), UserCluster(double)
    id_ = jobs.submit(drafted(gpus="9"))["id"]
    about = {"kind": "Job", "name": id_, "uid": "x"}
    event = {"type": "Warning", "reason": "FailedCreate", "message": "exceeded quota: gpus"}
    meta = {"uid": "e", "name": "e", "namespace": "bio"}
    double.put("events", {"metadata": meta, "involvedObject": about, **event})
    cluster.tick()

    found = jobs.why(id_)

    assert found["summary"].startswith("waiting: no room for it now: 0/1 nodes are available")
    assert found["limits"] == ["FailedCreate: exceeded quota: gpus"]


def test_why_has_what_kueue_says(double: KubeDouble) -> None:
    jobs = person(double)
    id_ = jobs.submit(draft_of(["true"], {"token": "q", "partition": "lq"}, script="", image="i"))[
        "id"
    ]
    none = jobs.why(id_)
    owner = {"kind": "Job", "uid": double.named("jobs", id_)["metadata"]["uid"]}
    said = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "no flavor"}
    meta = {"uid": "w", "name": "w", "namespace": "bio", "ownerReferences": [owner]}
    double.put("workloads", {"metadata": meta, "status": {"conditions": [said]}})

    found = jobs.why(id_)

    assert "Kueue has made no Workload" in " ".join(none["limits"])
    assert found["summary"] == "waiting: in queue lq of Kueue"
    assert "Kueue has no quota for it: Pending: no flavor" in found["limits"]
    with pytest.raises(StewardError, match="it waits in queue lq"):
        changed(jobs, "hold", id_)


def test_a_job_that_somebody_suspended_says_who(double: KubeDouble) -> None:
    double.installed = False
    jobs = person(double)
    id_ = jobs.submit(drafted())["id"]
    double.patch("jobs", "bio", id_, {"spec": {"suspend": True}}, manager="kubectl-edit")

    assert jobs.show(id_)["why"] == "suspended by kubectl-edit"
    assert changed(jobs, "release", id_)["state"] == "waiting"


def test_a_job_beside_a_training_job_of_the_same_name_has_its_own_id(double: KubeDouble) -> None:
    jobs = person(double)
    id_ = jobs.submit(drafted())["id"]
    serve_trainings(double)
    pod = {"containers": [{"name": "main"}]}
    same = {"metadata": {"name": id_}, "spec": {"template": {"spec": pod}}}
    double.create("jobs", "bio", same, "ann")

    ids = {each["id"] for each in jobs.listed(ended=True, limit=9)}

    assert ids == {id_, f"job/{id_}"}
    kinds = [jobs.show(each)["spec"]["kind"] for each in (id_, f"job/{id_}")]
    assert kinds == ["TrainingJob", "Job"]
    assert jobs.show(f"trainingjob/{id_}")["spec"]["kind"] == "TrainingJob"
    assert jobs.show(double.all("jobs")[0]["metadata"]["name"])["id"] == id_


def test_a_log_that_begins_anew_is_read_from_its_beginning(double: KubeDouble) -> None:
    double.installed = False
    jobs, cluster = person(double), UserCluster(double)
    id_ = jobs.submit(drafted("sh", "-c", "echo hello; sleep 9"))["id"]
    log = jobs.log(id_)
    waiting = log.read()
    cluster.tick()
    pod = double.all("pods")[0]["metadata"]["name"]

    first = log.read()
    double.logs[pod] = "new\n"  # rotated

    assert (waiting.text, waiting.over) == ("", False)
    assert first.text == "hello\n"
    assert log.read().text == "new\n"


def test_who_waits_for_a_job_that_is_deleted_is_told_that_it_failed(double: KubeDouble) -> None:
    double.installed = False
    jobs, cluster = person(double), UserCluster(double)
    id_ = jobs.submit(drafted("sh", "-c", "sleep 9"))["id"]

    before = jobs.status(id_)
    changed(jobs, "cancel", id_)
    leaving = jobs.show(id_)["state"]
    for _ in range(4):
        cluster.tick()

    assert leaving == "cancelled"
    assert (before, jobs.status(id_)) == (None, 1)
    with pytest.raises(StewardError, match="no such job"):
        person(double).status(id_)


def test_the_log_is_that_of_the_first_container(double: KubeDouble) -> None:
    jobs = person(double)
    containers = [{"name": "main", "command": ["sh", "-c", "echo main; sleep 9"]}, {"name": "side"}]
    spec = {"completions": 1, "template": {"spec": {"containers": containers}}}
    double.create("jobs", "bio", {"metadata": {"name": "two"}, "spec": spec}, "ann")
    UserCluster(double).tick()

    assert jobs.log("two").read().text == "main\n"


def test_what_waits_for_room_is_held_and_not_preempted(double: KubeDouble) -> None:
    double.installed = False
    jobs = person(double)
    id_ = jobs.submit(drafted(gpus="9", saves="5"))["id"]
    UserCluster(double).tick()

    with pytest.raises(StewardError, match="it is waiting, not running"):
        changed(jobs, "preempt", id_)
    assert changed(jobs, "hold", id_)["state"] == "held"


def test_an_image_that_cannot_be_pulled_is_the_reason(double: KubeDouble) -> None:
    double.installed = False
    jobs, cluster = person(double), UserCluster(double)
    id_ = jobs.submit(drafted("sh", "-c", "sleep 9"))["id"]
    cluster.tick()
    raw = double.all("pods")[0]
    waits = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    status = {"phase": "Pending", "containerStatuses": [{"state": waits}]}
    double.put("pods", {**raw, "status": status})

    shown = jobs.show(id_)

    assert (shown["state"], shown["why"]) == ("starting", "ImagePullBackOff: not found")


@pytest.mark.parametrize(
    ("status", "why", "code"),
    [
        ({"reason": "DeadlineExceeded"}, "it reached its time limit", 1),
        ({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, "it used more memory", 137),
        ({"reason": "Evicted", "message": "disk"}, "Evicted: disk", 1),
    ],
)
def test_a_failure_is_said_in_words(
    double: KubeDouble, status: dict[str, Any], why: str, code: int
) -> None:
    double.installed = False
    jobs, cluster = person(double), UserCluster(double)
    id_ = jobs.submit(drafted("sh", "-c", "exit 1"))["id"]
    for _ in range(2):
        cluster.tick()
    raw = double.all("pods")[0]
    ended = {"containerStatuses": [{"state": {"terminated": status.get("terminated", {})}}]}
    double.put("pods", {**raw, "status": {"phase": "Failed", **ended, **status}})

    shown = jobs.show(id_)

    assert (shown["state"], shown["exit_code"]) == ("failed", code)
    assert shown["why"].startswith(why)

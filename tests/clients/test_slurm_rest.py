"""What slurmrestd answers is read and changed as what Slurm's commands print is."""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from factories import decision
from fake_slurmrestd import FakeSlurmrestd, recorded, slurmrestd
from patience import LONG_S
from steward.act.actuators.slurm import Slurm as SlurmActuator
from steward.clients.slurm import (
    RestSettings,
    SlurmCommands,
    SlurmError,
    SlurmRest,
    changes,
    slurm_reader,
)
from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm.rest import RestServer
from steward.clients.slurm.rest_control import RestControl
from steward.clients.slurm.rest_token import RestToken
from steward.clients.slurm.rights import Level, probe_rights
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.model.actions import Drain, Preempt, Resize
from steward.model.identity import NodeId
from steward.observe.collectors.slurm import Slurm

NOWHERE = "/nonexistent"  # a folder without Slurm's commands


@pytest.fixture(params=["tcp", "socket"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeSlurmrestd]:
    path = tmp_path / "sock" if request.param == "socket" else None
    with slurmrestd(socket=path) as fake:
        yield fake


@pytest.fixture
def fake() -> Iterator[FakeSlurmrestd]:
    with slurmrestd() as running:
        yield running


def reader(address: str, *, timeout_s: float = LONG_S) -> SlurmRest:
    settings = RestSettings(address=address)
    made = slurm_reader(settings, folder=NOWHERE, conf="", timeout_s=timeout_s)
    assert isinstance(made, SlurmRest)
    return made


def control(fake: FakeSlurmrestd, folder: str = NOWHERE, **options: str) -> RestControl:
    rest = RestServer(RestSettings(address=fake.address, **options), timeout_s=LONG_S)
    return RestControl(rest, SlurmControl(folder=folder))


def token_of(user: str, *, expires_s: float) -> str:
    claims = json.dumps({"exp": int(expires_s), "sun": user}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"


def document(**methods: dict[str, object]) -> dict[str, object]:
    """Return an API of v0.0.40, with its slashes at the end."""
    paths = {f"/slurm/v0.0.40/{name}/": {"get": {}} for name in ("ping", "jobs", "nodes")}
    return {"paths": {**paths, "/slurm/v0.0.40/job/{job_id}": methods.get("job", {})}}


# -- reading -------------------------------------------------------------------------------------


def test_jobs_nodes_and_reservations_are_read_over_tcp_and_over_a_socket(
    server: FakeSlurmrestd,
) -> None:
    slurm = reader(server.address)

    jobs, nodes = {job.id: job for job in slurm.jobs()}, slurm.nodes()

    assert (jobs["1"].states, jobs["1"].gpus, jobs["1"].nodes) == (("RUNNING",), 2, ("n1",))
    assert jobs["3"].array == "3_[0-5%2]"
    assert (jobs["6"].exit_code, jobs["7"].signal, jobs["2"].exclusive) == (3, 11, True)
    assert {node.name: node.reason for node in nodes}["n4"] == "bad ECC on gpu3"
    assert [(each.name, each.maintenance) for each in slurm.reservations()] == [("m", True)]
    assert slurm.answers()


def test_the_collector_sees_a_cluster_that_only_slurmrestd_shows(fake: FakeSlurmrestd) -> None:
    slurm = Slurm(rest=fake.address, folder=NOWHERE)

    seen = slurm.collect(time.time())

    found = slurm.available()
    assert (found.status, "v0.0.38" in found.reason) == ("ok", True)
    assert "without accounting" not in found.reason  # it serves that of slurmdbd
    assert len(seen.jobs) == 7
    assert seen.cluster is not None
    assert len(seen.cluster.gpus) == 32


def test_the_newest_version_that_both_know_is_asked_with_its_own_spelling(
    fake: FakeSlurmrestd,
) -> None:
    fake.speaks({"paths": {**document()["paths"], "/slurm/v0.0.99/jobs/": {"get": {}}}})  # type: ignore[dict-item]
    fake.says("GET /slurm/v0.0.40/jobs/", recorded("jobs"))

    jobs = reader(fake.address).jobs()

    assert len(jobs) == 7
    assert fake.requests[-1][1] == "/slurm/v0.0.40/jobs/"


def test_a_server_with_unknown_versions_alone_is_refused_with_their_names(
    fake: FakeSlurmrestd,
) -> None:
    fake.speaks({"paths": {"/slurm/v0.0.99/jobs": {"get": {}}}})

    with pytest.raises(SlurmError, match=r"v0\.0\.99") as caught:
        reader(fake.address).jobs()

    assert "v0.0.38 to" in caught.value.hint


def test_a_server_that_was_upgraded_is_asked_anew_which_versions_it_has(
    fake: FakeSlurmrestd,
) -> None:
    slurm = reader(fake.address)
    slurm.jobs()
    fake.answers.clear()
    fake.speaks(document())
    fake.says("GET /slurm/v0.0.40/jobs/", recorded("jobs"))

    with pytest.raises(SlurmError, match="no such path"):
        slurm.jobs()

    assert len(slurm.jobs()) == 7


def test_errors_of_a_controller_that_is_down_are_no_empty_queue(fake: FakeSlurmrestd) -> None:
    fake.says("GET /slurm/v0.0.38/jobs", recorded("down"), code=500)
    fake.says("GET /slurm/v0.0.38/ping", recorded("down"), code=500)
    slurm = reader(fake.address)

    with pytest.raises(SlurmError, match="Failed while looking for jobs") as caught:
        slurm.jobs()

    assert caught.value.where == fake.address
    assert "slurmctld" in caught.value.hint
    assert not slurm.answers()


@pytest.fixture
def accounted(fake: FakeSlurmrestd) -> FakeSlurmrestd:
    """Return one that has accounting, too."""
    for path, name in (("jobs", "past-jobs"), ("associations", "associations"), ("qos", "qos")):
        fake.says(f"GET /slurmdb/v0.0.38/{path}", recorded(name))
    return fake


def test_ended_jobs_are_read_from_slurmdbd_where_no_sacct_is(accounted: FakeSlurmrestd) -> None:
    slurm = reader(accounted.address)

    every = slurm.ended(past_s=3600.0, up_to_s=60.0, every_run=True)
    last = {job.id: job for job in slurm.ended(past_s=3600.0)}

    assert sorted((job.id, *job.states) for job in every) == [
        ("1", "FAILED"),
        ("2", "FAILED"),
        ("3", "COMPLETED"),
        ("4", "CANCELLED"),
        ("4", "REQUEUED"),
        ("5", "FAILED"),
        ("6", "CANCELLED"),
        ("7", "COMPLETED"),
    ]
    assert last["4"].states == ("CANCELLED",)
    gpus = last["1"]
    assert (gpus.gpus, gpus.cpus, gpus.nodes, gpus.limit_s) == (2, 1, ("n1",), 525_600 * 60.0)
    assert (gpus.submit_s, gpus.start_s, gpus.end_s) == (1795038020, 1795038021, 1795038021)
    assert (last["2"].signal, last["6"].limit_s) == (11, 600.0)
    assert (last["7"].array, last["1"].array) == ("3_0", "")
    asked = [path for _, path, _, _ in accounted.requests if "slurmdb" in path]
    assert "start_time=now-3601seconds&end_time=now-60seconds&skip_steps=true" in asked[0]


def test_accounts_and_limits_are_read_from_slurmdbd(accounted: FakeSlurmrestd) -> None:
    found = reader(accounted.address).accounting()

    assert {each.name: (each.parent, each.gpu_limit, each.qos) for each in found.accounts} == {
        "root": ("", None, ("normal",)),
        "bio": ("root", 16, ("normal",)),
        "vision": ("root", None, ("boost", "normal")),
    }
    assert found.qos_gpu_limits == (("boost", 4),)


def test_no_jobs_in_a_span_are_no_fault(accounted: FakeSlurmrestd) -> None:
    accounted.says("GET /slurmdb/v0.0.38/jobs", recorded("nothing"))

    assert reader(accounted.address).ended(past_s=60.0) == []


def test_where_slurmdbd_does_not_answer_accounting_is_missing(fake: FakeSlurmrestd) -> None:
    fake.says("GET /slurmdb/v0.0.38/jobs", recorded("down"), code=500)

    with pytest.raises(SlurmError) as fault:
        reader(fake.address).ended(past_s=60.0)

    assert "AuthAltTypes" in fault.value.hint


NEWER = {  # as the documentation of v0.0.41 has it; not recorded
    "job_id": 12,
    "name": "train",
    "user": "ada",
    "account": "bio",
    "partition": "gpu",
    "state": {"current": ["NODE_FAIL"], "reason": "None"},
    "exit_code": {
        "status": ["ERROR"],
        "return_code": {"set": True, "infinite": False, "number": 3},
        "signal": {"id": {"set": False, "infinite": False, "number": 0}, "name": ""},
    },
    "time": {
        "submission": 100,
        "start": 200,
        "end": 300,
        "limit": {"set": True, "infinite": False, "number": 60},
    },
    "priority": {"set": True, "infinite": False, "number": 7},
    "nodes": "n[1-2]",
    "array": {"job_id": 11, "task_id": {"set": True, "infinite": False, "number": 4}, "task": ""},
    "tres": {
        "requested": [{"type": "gres", "name": "gpu:a100", "id": 1002, "count": 8}],
        "allocated": [
            {"type": "cpu", "name": "", "id": 1, "count": 64},
            {"type": "mem", "name": "", "id": 2, "count": 1024},
            {"type": "energy", "name": "", "id": 3, "count": -2},
            {"type": "gres", "name": "gpu", "id": 1001, "count": 8},
            {"type": "gres", "name": "gpu:a100", "id": 1002, "count": 8},
        ],
    },
}


def test_the_documented_shape_of_newer_versions_is_read(fake: FakeSlurmrestd) -> None:
    flags = {"parameters": [{"name": "flags"}, {"name": "skip_steps"}]}
    get: dict[str, object] = {"get": {"parameters": []}}
    paths = {"slurm/v0.0.41/jobs/": get, "slurmdb/v0.0.41/jobs/": {"get": flags}}
    paths |= {"slurmdb/v0.0.41/associations/": get, "slurmdb/v0.0.41/qos/": get}
    fake.speaks({"paths": {f"/{path}": methods for path, methods in paths.items()}})
    endless = {**NEWER, "job_id": 13, "time": {**NEWER["time"], "limit": {"infinite": True}}}
    fake.says("GET /slurmdb/v0.0.41/jobs/", json.dumps({"jobs": [NEWER, endless, {}]}).encode())
    account = {
        "account": "bio",
        "cluster": "c",
        "parent_account": "root",
        "user": "",
        "partition": "",
        "shares_raw": 5,
        "qos": ["normal"],
        "default": {"qos": ""},
        "max": {"tres": {"total": [{"type": "gres", "name": "gpu", "count": 4}]}},
    }
    user = {**account, "user": "ada"}
    fake.says(
        "GET /slurmdb/v0.0.41/associations/", json.dumps({"associations": [account, user]}).encode()
    )
    qos = {"name": "boost", "limits": {"max": {"tres": {"total": []}}}}
    fake.says("GET /slurmdb/v0.0.41/qos/", json.dumps({"qos": [qos]}).encode())
    slurm = reader(fake.address)

    job, other = slurm.ended(past_s=60.0, every_run=True)
    found = slurm.accounting()

    assert (job.states, job.exit_code, job.signal, job.array) == (("NODE_FAIL",), 3, 0, "11_4")
    assert (job.gpus, job.gpu_types, job.cpus, job.memory_bytes) == (8, ("a100",), 64, 2**30)
    assert (job.nodes, job.limit_s, job.priority) == (("n1", "n2"), 3600.0, 7)
    assert (other.limit_s, slurm.refused) == (None, 1)
    assert "flags=DUPLICATES" in next(p for _, p, _, _ in fake.requests if "slurmdb" in p)
    assert [(each.name, each.parent, each.shares, each.gpu_limit) for each in found.accounts] == [
        ("bio", "root", 5, 4)
    ]
    assert found.qos_gpu_limits == ()


def test_without_an_address_the_commands_are_asked() -> None:
    settings = RestSettings(address="")

    made = slurm_reader(settings, folder=NOWHERE, conf="", timeout_s=1.0)

    assert isinstance(made, SlurmCommands)


@pytest.mark.parametrize("body", [b"[]", b"no JSON", b'{"jobs": [{"job_id": 1'])
def test_nonsense_is_an_error_that_names_the_server(fake: FakeSlurmrestd, body: bytes) -> None:
    fake.says("GET /slurm/v0.0.38/jobs", body)

    with pytest.raises(SlurmError) as caught:
        reader(fake.address).jobs()

    assert caught.value.where == fake.address


def test_a_server_that_does_not_answer_is_left_at_its_deadline(tmp_path: Path) -> None:
    path = tmp_path / "sock"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen(8)

        with pytest.raises(SlurmError, match=r"no answer within 0\.2 s"):
            reader(f"unix:{path}", timeout_s=0.2).jobs()


def test_a_server_that_drips_is_left_at_its_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as dripping:
        over = threading.Event()
        thread = threading.Thread(target=_drip, args=(dripping, over), daemon=True)
        thread.start()
        try:
            with pytest.raises(SlurmError, match=r"no answer within 0\.5 s"):
                reader(f"http://127.0.0.1:{dripping.getsockname()[1]}", timeout_s=0.5).jobs()
        finally:
            over.set()
            thread.join()


def _drip(listening: socket.socket, over: threading.Event) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        while not over.wait(0.05):
            try:
                connection.sendall(b" ")
            except OSError:
                return


def test_a_server_that_is_not_there_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(SlurmError, match="cannot be reached") as caught:
        reader(f"unix:{tmp_path}/none").jobs()

    assert "plugs.slurm.rest" in caught.value.hint


# -- who asks ------------------------------------------------------------------------------------


def test_plain_http_to_another_machine_needs_a_word() -> None:
    with pytest.raises(StewardError, match="plain HTTP"):
        Slurm(rest="http://n1:6820")

    assert Slurm(rest="http://n1:6820", rest_plain_http=True).name == "slurm"


@pytest.mark.parametrize("address", ["unix:", "unix:relative", "n1:6820"])
def test_what_is_no_address_is_refused_at_once(address: str) -> None:
    with pytest.raises(StewardError):
        Slurm(rest=address)


def test_a_token_is_read_again_when_its_file_changes(fake: FakeSlurmrestd, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(token_of("ada", expires_s=1e10))
    rest = RestServer(RestSettings(address=fake.address, token_file=str(file)), timeout_s=LONG_S)
    rest.api()
    new = token_of("eve", expires_s=2e10)
    (tmp_path / "new").touch(mode=0o600)
    (tmp_path / "new").write_text(f"SLURM_JWT={new}\n")
    os.replace(tmp_path / "new", file)  # noqa: PTH105 - as who writes tokens does

    rest.ask("GET", "slurm/ping")

    sent = [headers.get("x-slurm-user-name") for _, _, headers, _ in fake.requests]
    assert sent == ["ada", "eve"]
    assert fake.requests[-1][2]["x-slurm-user-token"] == new


def test_a_token_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    file.chmod(0o640)

    with pytest.raises(SlurmError, match="only its owner") as caught:
        RestToken(str(file)).headers()

    assert caught.value.hint == f"chmod 600 {file}"


def test_no_error_and_no_description_shows_the_token(fake: FakeSlurmrestd, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text("secret with spaces\n")
    rest = RestServer(RestSettings(address=fake.address, token_file=str(file)), timeout_s=LONG_S)

    with pytest.raises(SlurmError, match="holds no token") as caught:
        rest.api()

    told = f"{caught.value} {caught.value.hint} {rest._token!r}"
    assert "secret" not in told


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("", "needs a token, and none is given"),
        (token_of("ada", expires_s=1.0), "the token expired"),
        (token_of("ada", expires_s=1e10), "refuses the account (401)"),
    ],
)
def test_a_refusal_says_what_is_wrong_with_the_token(
    fake: FakeSlurmrestd, monkeypatch: pytest.MonkeyPatch, token: str, words: str
) -> None:
    monkeypatch.setenv("SLURM_JWT", token)
    fake.says("GET /openapi/v3", b"Authentication failure", code=401, kind="text/plain")

    found = Slurm(rest=fake.address).available()

    assert found.status == "missing"
    assert words in found.reason
    assert "scontrol token" in found.hint


def test_a_socket_is_shown_no_token_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JWT", token_of("ada", expires_s=1e10))
    with slurmrestd(socket=tmp_path / "sock") as fake:
        RestServer(RestSettings(address=fake.address), timeout_s=LONG_S).api()

    assert "x-slurm-user-token" not in fake.requests[0][2]  # rest_auth/local would refuse it


# -- changing ------------------------------------------------------------------------------------


def test_entries_have_what_squeue_shows(fake: FakeSlurmrestd) -> None:
    over = {"array_job_id": 5, "array_task_string": "", "job_state": "CANCELLED"}
    changed = {"4": {"nice": 4294967291, "state_description": "in words"}, "5": over}
    with_jobs(fake, changed)

    found = control(fake).jobs({"1", "3", "4", "5"})

    assert (found["3"].held_by, found["3"].mark.save_s, found["3"].nice) == ("user", 60.0, 50)
    assert (found["3"].address, found["3"].is_many) == ("3_[0-5]", True)
    assert (found["4"].nice, found["4"].requeue, found["4"].reason) == (-5, True, "in words")
    assert found["1"].end_s is not None
    assert found["5"].address == "5"  # an array that was cancelled while it waited
    assert (found["3"].end_s, found["4"].end_s, found["1"].nice) == (None, None, 0)


def with_jobs(fake: FakeSlurmrestd, changed: dict[str, dict[str, object]]) -> None:
    """Answer with the recorded jobs, some of their fields changed."""
    answer = json.loads(recorded("jobs"))
    answer["jobs"] = [{**job, **changed.get(str(job["job_id"]), {})} for job in answer["jobs"]]
    fake.says("GET /slurm/v0.0.38/jobs", json.dumps(answer).encode())


def test_a_node_tells_who_drained_it_and_why(fake: FakeSlurmrestd) -> None:
    slurm = control(fake)

    node = slurm.node("n4")

    assert (node.drains, node.reason, node.set_by) == (True, "bad ECC on gpu3", "root")
    with pytest.raises(PermanentError, match="no node n9"):
        slurm.node("n9")


def test_tasks_that_wait_are_listed_one_by_one(fake: FakeSlurmrestd) -> None:
    slurm = control(fake)

    found = slurm.array_tasks("3")

    assert [each.address for each in found] == [f"3_{index}" for index in range(6)]
    task = slurm.task("3_3")
    assert task is not None
    assert (task.id, task.address) == ("3", "3_3")


def test_a_job_is_released_and_changed_by_requests(fake: FakeSlurmrestd) -> None:
    fake.says("POST /slurm/v0.0.38/job/8", recorded("ping"))
    slurm = control(fake)

    slurm.change(changes.release("8"))
    slurm.change(changes.update_job("8", nice=-7, start_in_s=5, comment="steward:saves=60 a"))

    assert fake.changes() == [
        ("POST", "/slurm/v0.0.38/job/8", {"hold": False}),
        (
            "POST",
            "/slurm/v0.0.38/job/8",
            {"nice": -7, "begin_time": "now+5", "comment": "steward:saves=60 a"},
        ),
    ]


def test_slurms_refusal_is_told_in_its_words(fake: FakeSlurmrestd) -> None:
    fake.says("POST /slurm/v0.0.38/job/99999", recorded("no-job"), code=500)

    with pytest.raises(PermanentError, match="Invalid job id specified") as caught:
        control(fake).change(changes.release("99999"))

    assert "MinJobAge" in caught.value.hint


def test_a_controller_that_is_down_is_a_temporary_error(fake: FakeSlurmrestd) -> None:
    fake.says("GET /slurm/v0.0.38/ping", recorded("down"), code=500)

    with pytest.raises(TemporaryError):
        control(fake).change(changes.release("8"))

    assert fake.changes() == []


@pytest.mark.parametrize(
    "command",
    [
        changes.requeue("1", hold=False),
        changes.signal_batch("1", "USR2"),
        changes.drain("n1", "steward d-1: ECC"),
        changes.update_job("1", nodes=["n1"]),
        changes.notify("1", "hello"),
        changes.hold("8"),
        changes.release("3_3"),  # one of many in a record of the array
    ],
)
def test_what_22_05_cannot_do_is_refused_and_never_half_done(
    fake: FakeSlurmrestd, command: changes.Command
) -> None:
    with pytest.raises(PermanentError, match=r"slurmrestd v0\.0\.38 cannot do"):
        control(fake).change(command)

    assert fake.changes() == []


def test_a_task_with_a_number_of_its_own_is_changed_by_that(fake: FakeSlurmrestd) -> None:
    fake.says("POST /slurm/v0.0.38/job/5", recorded("ping"))
    task = {"array_job_id": 3, "array_task_string": ""}
    with_jobs(fake, {"3": {**task, "array_task_id": 0}, "5": {**task, "array_task_id": 1}})
    slurm = control(fake)
    assert [*slurm.jobs({"3"})] == ["3", "5"]

    slurm.change(changes.release("3_1"))

    assert fake.changes() == [("POST", "/slurm/v0.0.38/job/5", {"hold": False})]
    with pytest.raises(PermanentError):  # 3 is the whole array, too
        slurm.change(changes.release("3_0"))


def test_commands_of_this_machine_do_what_slurmrestd_cannot(
    fake: FakeSlurmrestd, tmp_path: Path
) -> None:
    script = f'#!/bin/sh\n[ "$1" = ping ] && echo "a is UP" || echo "$@" >> {tmp_path}/calls\n'
    (tmp_path / "scontrol").write_text(script)
    (tmp_path / "scontrol").chmod(0o755)

    control(fake, folder=f"{tmp_path}:/bin").change(changes.requeue("1", hold=False))

    assert (tmp_path / "calls").read_text() == "requeue Incomplete 1\n"


def test_a_newer_slurmrestd_signals_batch_shells_and_drains(fake: FakeSlurmrestd) -> None:
    made = document(job={"post": {}, "delete": {"parameters": [{"name": "flags"}]}})
    paths = {**made["paths"], "/slurm/v0.0.40/node/{node_name}": {"post": {}}}  # type: ignore[dict-item]
    fake.speaks({"paths": paths})
    fake.says("GET /slurm/v0.0.40/ping/", recorded("ping"))
    for what in ("DELETE /slurm/v0.0.40/job/1", "POST /slurm/v0.0.40/node/n1"):
        fake.says(what, recorded("ping"))
    slurm = control(fake)

    slurm.change(changes.signal_batch("1", "USR2"))
    slurm.change(changes.drain("n1", "steward d-1: ECC"))

    assert fake.changes() == [
        ("DELETE", "/slurm/v0.0.40/job/1?signal=USR2&flags=BATCH_JOB", None),
        (
            "POST",
            "/slurm/v0.0.40/node/n1",
            {"state": ["DRAIN"], "reason": "steward d-1: ECC"},
        ),
    ]
    assert "drains" not in slurm.not_served()


def test_rights_are_those_of_the_account_in_the_token(fake: FakeSlurmrestd) -> None:
    user = {"users": [{"name": "mail", "administrator_level": "Operator"}], "errors": []}
    fake.says("GET /slurmdb/v0.0.38/user/mail", json.dumps(user).encode())
    denied = {"errors": [{"error": "Protocol authentication error"}]}
    fake.says("GET /slurmdb/v0.0.38/user/ada", json.dumps(denied).encode(), code=500)

    assert probe_rights(control(fake, user="root")).level is Level.ADMINISTRATOR
    assert probe_rights(control(fake, user="mail")).level is Level.OPERATOR
    ada = probe_rights(control(fake, user="ada"))
    assert (ada.user, ada.level) == ("ada", Level.OWNER)
    assert "accounting does not answer" in ada.why


def test_an_account_keeps_its_rights_while_accounting_does_not_answer(
    fake: FakeSlurmrestd,
) -> None:
    user = {"users": [{"name": "mail", "administrator_level": "Operator"}], "errors": []}
    fake.says("GET /slurmdb/v0.0.38/user/mail", json.dumps(user).encode())
    slurm = control(fake, user="mail")
    assert slurm.admin_level("mail") == "Operator"
    away = {"errors": [{"error": "Unable to contact slurm database"}]}
    fake.says("GET /slurmdb/v0.0.38/user/mail", json.dumps(away).encode(), code=500)

    assert slurm.admin_level("mail") == "Operator"


def test_rights_are_not_judged_while_slurm_itself_does_not_answer(fake: FakeSlurmrestd) -> None:
    away = json.dumps({"errors": [{"error": "Unable to contact slurm controller"}]}).encode()
    slurm = control(fake, user="ada")
    slurm.version()  # it has answered once
    fake.says("GET /slurmdb/v0.0.38/user/ada", away, code=500)
    fake.says("GET /slurm/v0.0.38/ping", away, code=500)

    with pytest.raises(TemporaryError):
        slurm.admin_level("ada")


def test_a_list_of_tasks_that_is_cut_or_has_steps_hides_no_other_array(
    fake: FakeSlurmrestd,
) -> None:
    body = json.loads(recorded("jobs"))
    (array,) = [each for each in body["jobs"] if "%" in str(each.get("array_task_string"))]
    cut = {**array, "job_id": 2, "array_job_id": 2, "array_task_string": "1,3,5,..."}
    by_five = {**array, "job_id": 90, "array_job_id": 90, "array_task_string": "0-20:5"}
    body["jobs"] = [cut, *body["jobs"], by_five]
    fake.says("GET /slurm/v0.0.38/jobs", json.dumps(body).encode())
    slurm = control(fake)

    task = slurm.task("3_3")

    assert task is not None
    assert task.id == "3"
    assert [each.address for each in slurm.array_tasks("2")] == ["2_1", "2_3", "2_5"]
    found = [each.address for each in slurm.array_tasks("90")]
    assert found == ["90_0", "90_5", "90_10", "90_15", "90_20"]


def test_where_slurmrestd_serves_no_accounting_the_level_is_not_assumed(
    fake: FakeSlurmrestd,
) -> None:
    fake.speaks(document())

    assert "serves no accounting" in probe_rights(control(fake, user="ada")).why


def test_the_actuator_offers_only_what_slurmrestd_can_do(fake: FakeSlurmrestd) -> None:
    slurm = SlurmActuator(rest=fake.address, rest_user="root", folder=NOWHERE)

    found = slurm.available()

    assert found.status == "limited"
    assert "requeue" in found.reason
    assert "not in slurmrestd, refused" in found.reason
    assert {Preempt, Resize, Drain}.isdisjoint(slurm.actions())
    with pytest.raises(PermanentError, match="slurmrestd cannot drain"):
        slurm.carry_out(decision("d-1", action=Drain(node=NodeId("n1"), gpus=())), time.time())

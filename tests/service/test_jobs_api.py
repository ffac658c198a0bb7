"""Jobs over the API: who submits, who sees what, who changes what."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from managed_jobs import spec
from service.bed import Client, ServiceBed, build_bed
from steward.config.local_jobs import LocalJobRunner
from steward.config.settings import Settings
from steward.model.identity import JobId
from steward.model.managed_job import LifeState
from steward.service.app import create_api
from steward.service.live_state import LiveState
from steward.service.local_users import PeerCredentials
from steward.store.tokens import Role

ME = pwd.getpwuid(os.getuid()).pw_name
OTHER_UID = 65534
OTHER = pwd.getpwuid(OTHER_UID).pw_name
BODY = {"argv": ["true"], "folder": "/", "hold": True}
SECRET = "s3cret"  # noqa: S105 - what must not be shown


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBed:
    """A service with the local engine, and a way to speak to it as any account."""

    bed: ServiceBed
    runner: LocalJobRunner
    app: Any

    def peer(self, uid: int) -> Client:
        """Return a client at the other end of the Unix socket."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            scope["state"] = {"peer": PeerCredentials(pid=1, uid=uid, gid=uid)}
            await self.app(scope, receive, send)

        return Client(app, "http://localhost:8787")  # type: ignore[arg-type]

    def token(self, name: str, role: Role) -> Client:
        token = self.bed.tokens.make(name, role)
        return Client(self.app, "http://localhost:8787", token=token)

    def add(self, uid: int, **given: Any) -> JobId:
        """Put a job of an account into the store that failed and said why."""
        named = {"user": pwd.getpwuid(uid).pw_name, "uid": uid, "gid": uid, "name": "train"}
        (job,) = self.runner.store.submit([spec(**{**named, **given})], 1.0)
        job = job.moved(2.0, LifeState.WAITING, "it may start")
        job = job.moved(3.0, LifeState.STARTING, "on n1/cpu0")
        detail = f"/home/{SECRET}: no such file"
        job = job.moved(4.0, LifeState.FAILED, "it could not be started", detail=detail)
        return self.runner.store.put(job).id


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., JobBed]]:
    runners: list[LocalJobRunner] = []

    def made(**given: Any) -> JobBed:
        bed = build_bed(tmp_path / "bed")
        settings = Settings.model_validate(
            {
                "store": {"folder": str(tmp_path / "data")},
                "jobs": {"slots": 2, **given.get("jobs", {})},
                "access": {"users": given.get("users", {})},
            }
        )
        runner = LocalJobRunner.open(settings, clock=bed.clock)
        assert runner is not None
        runners.append(runner)
        live = LiveState(bed.loop, settings)
        return JobBed(bed=bed, runner=runner, app=create_api(live, bed.access, jobs=runner))

    yield made
    for runner in runners:
        with closing(runner.store):
            pass


def test_an_account_submits_a_job_and_the_kernel_says_whose_it_is(
    make: Callable[..., JobBed],
) -> None:
    jobs = make()

    answer = jobs.peer(os.getuid()).post("/api/v1/jobs", json=BODY)

    assert answer.status_code == 201
    made = jobs.runner.store.job(answer.json()["id"]).spec
    assert (made.user, made.uid) == (ME, os.getuid())


@pytest.mark.parametrize("by", ["socket", "token"])
def test_others_see_that_a_job_is_there_and_not_what_it_runs(
    make: Callable[..., JobBed], by: str
) -> None:
    jobs = make(users={OTHER: "viewer"})
    hidden = {
        "argv": ("run", SECRET),
        "script": f"#!{SECRET}",
        "environment": (("KEY", SECRET),),
        "folder": f"/{SECRET}",
        "output": f"/{SECRET}/log",
        "token": SECRET,
    }
    id_ = jobs.add(os.getuid(), **hidden)
    client = jobs.peer(OTHER_UID) if by == "socket" else jobs.token("eve", Role.VIEWER)

    shown = client.get(f"/api/v1/jobs/{id_}")
    listed = client.get("/api/v1/jobs", params={"ended": True})
    log = client.get(f"/api/v1/jobs/{id_}/log")

    assert SECRET not in shown.text + listed.text + log.text
    said = shown.json()
    assert (said["name"], said["user"], said["state"], said["gpus"]) == ("train", ME, "failed", [])
    assert said["events"][-1]["why"] == said["why"] == "it could not be started"
    assert [each["id"] for each in listed.json()] == [id_]
    assert log.status_code == 403


@pytest.mark.parametrize("by", ["owner", "operator"])
def test_owners_and_operators_see_what_a_job_runs(make: Callable[..., JobBed], by: str) -> None:
    jobs = make(users={OTHER: "viewer"})
    id_ = jobs.add(OTHER_UID, argv=("run", SECRET), environment=(("KEY", SECRET),))
    client = jobs.peer(OTHER_UID) if by == "owner" else jobs.token("olga", Role.OPERATOR)

    shown = client.get(f"/api/v1/jobs/{id_}").json()

    assert shown["command"] == ["run", SECRET]
    assert shown["spec"]["environment"] == {"KEY": SECRET}
    assert shown["why"] == f"it could not be started: /home/{SECRET}: no such file"
    assert shown["log"].endswith("output.log")
    assert client.get(f"/api/v1/jobs/{id_}/log").status_code == 200


def test_others_change_nothing(make: Callable[..., JobBed]) -> None:
    jobs = make(users={OTHER: "viewer"})
    (job,) = jobs.runner.store.submit([spec()], 1.0)
    client = jobs.peer(OTHER_UID)
    changes = ("cancel", "hold", "release", "save", "preempt", "resume")

    refused = [client.post(f"/api/v1/jobs/{job.id}/{what}", json={}) for what in changes]

    assert {each.status_code for each in refused} == {403}
    assert {each.json()["error"]["problem"] for each in refused} == {f"it belongs to {ME}"}
    assert len(jobs.runner.store.job(job.id).events) == 1


def test_operators_change_all_jobs(make: Callable[..., JobBed]) -> None:
    jobs = make()
    (job,) = jobs.runner.store.submit([spec(uid=OTHER_UID, user=OTHER)], 1.0)

    done = jobs.token("olga", Role.OPERATOR).post(f"/api/v1/jobs/{job.id}/cancel", json={})

    assert done.status_code == 202
    assert jobs.runner.store.job(job.id).events[-1].why == "olga asked for it"


def test_only_operators_raise_a_priority_and_everybody_may_lower_it(
    make: Callable[..., JobBed],
) -> None:
    user = make(users={ME: "viewer"})

    given = [{"priority": 1}, {"deadline_s": 9e9}, {"priority": -5}, {"priority": -500}]

    def answers(jobs: JobBed) -> list[int]:
        client = jobs.peer(os.getuid())
        return [client.post("/api/v1/jobs", json={**BODY, **each}).status_code for each in given]

    assert answers(user) == [403, 403, 201, 201]
    assert [each.spec.priority for each in user.runner.store.open()] == [-5, -10]
    assert answers(make()) == [201] * 4


def test_a_viewers_token_submits_nothing_wherever_it_is_shown(
    make: Callable[..., JobBed],
) -> None:
    jobs = make(jobs={"token_accounts": {"eve": ME}})
    token = jobs.bed.tokens.make("eve", Role.VIEWER)
    shown = {"Authorization": f"Bearer {token}"}
    over_http = Client(jobs.app, "http://localhost:8787")
    with_cookie = jobs.peer(os.getuid())
    assert with_cookie.post("/login", data={"token": token}).status_code == 303

    answers = [
        over_http.post("/api/v1/jobs", json=BODY, headers=shown),
        jobs.peer(os.getuid()).post("/api/v1/jobs", json=BODY, headers=shown),
        with_cookie.post("/api/v1/jobs", json=BODY),
    ]

    assert [each.status_code for each in answers] == [403] * 3
    assert jobs.runner.store.open() == ()


def test_an_operators_token_submits_as_the_account_that_the_settings_name(
    make: Callable[..., JobBed],
) -> None:
    jobs = make(jobs={"token_accounts": {"olga": ME}})

    known = jobs.token("olga", Role.OPERATOR).post("/api/v1/jobs", json=BODY)
    unknown = jobs.token("oleg", Role.OPERATOR).post("/api/v1/jobs", json=BODY)

    assert jobs.runner.store.job(known.json()["id"]).spec.user == ME
    assert unknown.status_code == 403
    assert "token_accounts" in unknown.json()["error"]["hint"]


def test_the_token_of_a_submission_is_its_accounts_alone(make: Callable[..., JobBed]) -> None:
    jobs = make()
    theirs = jobs.add(OTHER_UID, token="once")  # noqa: S106
    body = {**BODY, "token": "once"}
    client = jobs.peer(os.getuid())

    mine = [client.post("/api/v1/jobs", json=body).json()["id"] for _ in "ab"]

    assert mine[0] == mine[1] != theirs
    assert jobs.runner.store.job(mine[0]).spec.uid == os.getuid()


def test_what_is_no_id_of_a_job_is_refused(make: Callable[..., JobBed]) -> None:
    client = make().peer(os.getuid())

    for id_ in ("..", "%2e%2e", "..%2f..%2fetc", "1/../2", "1_", "x", "1%0a", "9" * 99):
        answers = [
            client.get(f"/api/v1/jobs/{id_}/log"),
            client.post(f"/api/v1/jobs/{id_}/cancel", json={}),
        ]
        assert all(each.status_code in (404, 405, 422) for each in answers), id_


def test_a_task_that_is_not_there_is_not_another_array(make: Callable[..., JobBed]) -> None:
    jobs = make()
    for _ in range(12):
        jobs.add(os.getuid())
    (task,) = jobs.runner.store.submit([spec(index=0)], 1.0)
    assert task.id == "13_0"

    missing = jobs.peer(os.getuid()).post("/api/v1/jobs/1_3/cancel", json={})

    assert missing.status_code == 404
    assert jobs.runner.store.job("13_0").state is LifeState.SUBMITTED


def test_a_job_that_would_wait_for_one_that_never_was_is_refused(
    make: Callable[..., JobBed],
) -> None:
    jobs = make()
    first = jobs.add(os.getuid())
    client = jobs.peer(os.getuid())

    def after(id_: str) -> dict[str, Any]:
        return {**BODY, "dependencies": [{"job": id_, "when": "afterok"}]}

    refused = client.post("/api/v1/jobs", json=after("999"))
    taken = client.post("/api/v1/jobs", json=after(first))

    assert refused.status_code == 422
    assert refused.json()["error"]["problem"] == "there is no job 999"
    assert taken.status_code == 201
    assert {each.id for each in jobs.runner.store.newest(9)} == {first, taken.json()["id"]}


def test_an_array_that_would_fill_the_store_is_refused(make: Callable[..., JobBed]) -> None:
    body = {**BODY, "script": "#!/bin/sh\n" + "x" * 100_000, "indices": [*range(9000)]}

    client = make().peer(os.getuid())
    refused = client.post("/api/v1/jobs", json=body)
    negative = client.post("/api/v1/jobs", json={**BODY, "indices": [-1]})

    assert (refused.status_code, negative.status_code) == (422, 422)
    assert "--export=NONE" in refused.json()["error"]["hint"]


def test_a_refusal_begins_with_what_is_wrong(make: Callable[..., JobBed]) -> None:
    refused = make().peer(os.getuid()).post("/api/v1/jobs", json={**BODY, "argv": ["a\0b"]})

    problem = refused.json()["error"]["problem"]
    assert problem.startswith("body.argv")
    assert ": it has a NUL character in it" in problem


def test_a_list_is_had_page_by_page_and_by_what_one_looks_for(
    make: Callable[..., JobBed],
) -> None:
    jobs = make()
    for name in ("train", "eval", "train"):
        jobs.add(os.getuid(), name=name)
    client = jobs.peer(os.getuid())

    def ask(**query: Any) -> tuple[list[str], str]:
        answer = client.get("/api/v1/jobs", params=query)
        ids = [each["id"] for each in answer.json()]
        return ids, answer.headers["X-Total-Count"]

    assert ask() == ([], "0")
    assert ask(ended=True, limit=2) == (["3", "2"], "3")
    assert ask(ended=True, limit=2, offset=2) == (["1"], "3")
    assert ask(state="failed", text="train") == (["3", "1"], "2")
    assert ask(ended=True, user="nobody-such") == ([], "0")
    assert client.get("/api/v1/jobs", params={"state": "sleepy"}).status_code == 422


FORM = {"command": "python3 train.py --lr 0.1", "gpus": "2", "time": "1:30:00", "memory": "4G"}


def test_a_form_is_checked_and_its_reply_can_be_submitted(make: Callable[..., JobBed]) -> None:
    jobs = make()
    client = jobs.peer(os.getuid())

    draft = client.post("/api/v1/jobs/draft", json={**FORM, "array": "0-2", "folder": "/tmp"})

    said = draft.json()
    assert draft.status_code == 200
    assert (said["would_run"], said["account"], said["tasks"]) == (FORM["command"], ME, 3)
    assert said["body"]["time_limit_s"] == 5400.0
    assert said["expected"] == []  # nothing like it has ended here
    assert jobs.runner.store.open() == ()
    made = client.post("/api/v1/jobs", json={**said["body"], "hold": True})
    assert len(made.json()["jobs"]) == 3
    assert jobs.runner.store.job(made.json()["jobs"][0]).spec.shape.memory_bytes == 4 << 30


def test_the_lines_of_a_script_hold_where_a_form_says_nothing(
    make: Callable[..., JobBed],
) -> None:
    script = "#!/bin/sh\n#SBATCH --time=10 --mem=1G -p long --export=ALL,A=1\ntrue\n"
    body = {"script": script, "memory": "2G"}

    said = make().peer(os.getuid()).post("/api/v1/jobs/draft", json=body).json()

    assert (said["body"]["time_limit_s"], said["body"]["memory_bytes"]) == (600.0, 2 << 30)
    assert said["body"]["environment"] == {"A": "1"}
    assert (said["ignored"], said["would_run"]) == (["p"], "the script")
    assert said["body"]["folder"] == pwd.getpwuid(os.getuid()).pw_dir


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"command": " "}, "command", "nothing to run"),
        ({"command": "a 'b"}, "command", "no closing quotation"),
        ({"command": "make && make test"}, "command", "'&&' is for a shell"),
        ({"command": "", "script": "echo"}, "script", "interpreter"),
        ({"command": "", "script": "#!/bin/sh\n#SBATCH --spam=1\n"}, "script", "spam"),
        ({"memory": "", "script": "#!/bin/sh\n#SBATCH --mem=x\n"}, "script", "'x' is no size"),
        ({"memory": "much"}, "memory", "'much' is no size"),
        ({"time": "soon"}, "time", "'soon' is no time"),
        ({"gpus": "two"}, "gpus", "no number of GPUs"),
        ({"gpus": "9"}, "gpus", "this machine has 2"),
        ({"array": "0-9%2"}, "array", "no range"),
        ({"dependency": "12"}, "dependency", "no dependency"),
        ({"priority": "high"}, "priority", "no whole number"),
        ({"priority": "-99999999"}, "priority", "greater than"),
        ({"folder": "here"}, "folder", "'here' is no absolute path"),
    ],
)
def test_what_is_wrong_in_a_form_is_said_at_its_field(
    make: Callable[..., JobBed], change: dict[str, str], field: str, words: str
) -> None:
    refused = make().peer(os.getuid()).post("/api/v1/jobs/draft", json={**FORM, **change})

    error = refused.json()["error"]
    assert refused.status_code == 422
    assert (error["where"], bool(error["hint"])) == (field, True)
    assert words in error["problem"]


def test_quotes_make_signs_of_the_shell_plain_words(make: Callable[..., JobBed]) -> None:
    body = {"command": "sh -c 'a && b; c' '<x>'"}

    said = make().peer(os.getuid()).post("/api/v1/jobs/draft", json=body).json()

    assert said["body"]["argv"] == ["sh", "-c", "a && b; c", "<x>"]


def test_a_form_of_somebody_without_an_account_or_rights_is_refused_as_its_submission_is(
    make: Callable[..., JobBed],
) -> None:
    jobs = make(users={OTHER: "viewer"}, jobs={"token_accounts": {"vic": ME}})
    unknown = jobs.token("oleg", Role.OPERATOR).post("/api/v1/jobs/draft", json=FORM)
    viewer = jobs.token("vic", Role.VIEWER).post("/api/v1/jobs/draft", json=FORM)

    assert (unknown.status_code, viewer.status_code) == (403, 403)
    assert "token_accounts" in unknown.json()["error"]["hint"]


UNUSABLE = {
    "half a character in the program": '{"argv": ["\\ud800"]}',
    "half a character in a variable": '{"environment": {"A": "\\ud800"}}',
    "NUL in an argument": '{"argv": ["true", "a\\u0000b"]}',
    "NUL in the script": '{"script": "#!/bin/sh\\u0000"}',
    "NUL in the path of the log": '{"output": "a\\u0000b"}',
    "a variable without a name": '{"environment": {"": "x"}}',
    "a variable with = in its name": '{"environment": {"A=B": "x"}}',
    "an endless time limit": '{"time_limit_s": Infinity}',
    "a time limit beyond all clocks": '{"time_limit_s": 1e308}',
    "a warning long before": '{"warn_before_s": Infinity}',
    "a deadline that never is": '{"deadline_s": Infinity}',
    "more memory than can be counted": '{"memory_bytes": 1000000000000000000000000000000}',
    "a name that draws on the terminal": '{"name": "a\\u001b[31m"}',
    "a name of two lines": '{"name": "a\\n  exit status: 0"}',
    "a name that turns text around": '{"name": "a\\u202eb"}',
}


@pytest.mark.parametrize("sent", UNUSABLE.values(), ids=UNUSABLE)
def test_what_no_process_can_be_given_or_no_answer_can_carry_is_refused(
    make: Callable[..., JobBed], sent: str
) -> None:
    jobs = make()
    body = json.dumps(BODY)[:-1] + ", " + sent[1:]  # of a name that is there twice, the last holds
    client = jobs.peer(os.getuid())

    answer = client.post("/api/v1/jobs", content=body, headers={"content-type": "application/json"})

    assert answer.status_code == 422, answer.json()
    assert answer.json()["error"]["where"].startswith("body.")
    assert client.get("/api/v1/jobs?ended=true").json() == []


def test_a_name_that_is_taken_from_the_program_is_short_and_plain(
    make: Callable[..., JobBed],
) -> None:
    jobs = make()
    client = jobs.peer(os.getuid())
    body = {**BODY, "argv": ["/bin/\x1b[31m" + "x" * 100_000]}

    id_ = client.post("/api/v1/jobs", json=body).json()["id"]

    (line,) = client.get("/api/v1/jobs").json()
    assert line["id"] == id_
    assert line["name"].startswith("?[31mxxx")
    assert len(line["name"]) == 200


def test_an_account_has_so_many_open_jobs_and_others_are_not_counted(
    make: Callable[..., JobBed],
) -> None:
    jobs = make(jobs={"max_open_per_account": 3})
    jobs.add(os.getuid())  # it is over
    jobs.runner.store.submit([spec(uid=OTHER_UID, index=each) for each in range(9)], 1.0)
    client = jobs.peer(os.getuid())
    three = {**BODY, "indices": [0, 1, 2], "token": "a"}

    first = client.post("/api/v1/jobs", json=three)
    again = client.post("/api/v1/jobs", json=three)
    fourth = client.post("/api/v1/jobs", json=BODY)

    assert (first.status_code, again.json()) == (201, first.json())
    assert fourth.status_code == 409
    assert fourth.json()["error"]["where"] == "jobs.max_open_per_account"
    client.post(f"/api/v1/jobs/{first.json()['id']}/cancel", json={})
    assert client.post("/api/v1/jobs", json=BODY).status_code == 201


def test_what_some_tasks_of_an_array_cannot_do_the_others_do(make: Callable[..., JobBed]) -> None:
    jobs = make()
    client = jobs.peer(os.getuid())
    body = {**BODY, "hold": False, "indices": [0, 1, 2]}
    array = client.post("/api/v1/jobs", json=body).json()["id"]
    client.post(f"/api/v1/jobs/{array}_0/cancel", json={})

    held = client.post(f"/api/v1/jobs/{array}/hold", json={})
    none = client.post(f"/api/v1/jobs/{array}_0/hold", json={})

    assert [each["id"] for each in held.json()["jobs"]] == [f"{array}_1", f"{array}_2"]
    assert {each["state"] for each in held.json()["jobs"]} == {"held"}
    assert none.status_code == 409


def test_an_array_is_changed_in_one_transaction(make: Callable[..., JobBed]) -> None:
    jobs = make()
    client = jobs.peer(os.getuid())
    array = client.post("/api/v1/jobs", json={**BODY, "indices": [*range(50)]}).json()["id"]
    statements: list[str] = []

    jobs.runner.store._database.set_trace_callback(statements.append)
    client.post(f"/api/v1/jobs/{array}/cancel", json={})
    jobs.runner.store._database.set_trace_callback(None)

    assert statements.count("COMMIT") == 1
    assert jobs.runner.store.open() == ()


def test_the_log_of_an_array_is_not_that_of_its_first_task(make: Callable[..., JobBed]) -> None:
    jobs = make()
    client = jobs.peer(os.getuid())
    array = client.post("/api/v1/jobs", json={**BODY, "indices": [0, 1]}).json()["id"]

    answer = client.get(f"/api/v1/jobs/{array}/log")

    assert answer.status_code == 409
    assert f"{array}_0" in answer.json()["error"]["hint"]


def test_a_log_that_its_owner_has_emptied_is_read_from_its_new_beginning(
    make: Callable[..., JobBed],
) -> None:
    jobs = make()
    client = jobs.peer(os.getuid())
    id_ = client.post("/api/v1/jobs", json=BODY).json()["id"]
    log = jobs.runner.engine.work_folder(id_) / "output.log"
    log.parent.mkdir(parents=True)
    log.write_text("a long first part\n")
    first = client.get(f"/api/v1/jobs/{id_}/log").json()

    same = client.get(f"/api/v1/jobs/{id_}/log?offset={first['offset']}").json()
    log.write_text("new\n")
    second = client.get(f"/api/v1/jobs/{id_}/log?offset={first['offset']}").json()

    assert (same["text"], same["offset"]) == ("", 18)
    assert (second["text"], second["offset"]) == ("new\n", 4)


def test_a_character_that_is_written_in_two_parts_is_read_as_one(
    make: Callable[..., JobBed],
) -> None:
    jobs = make()
    client = jobs.peer(os.getuid())
    id_ = client.post("/api/v1/jobs", json=BODY).json()["id"]
    log = jobs.runner.engine.work_folder(id_) / "output.log"
    log.parent.mkdir(parents=True)
    euro = "€".encode()

    log.write_bytes(b"5 " + euro[:1])
    first = client.get(f"/api/v1/jobs/{id_}/log").json()
    log.write_bytes(b"5 " + euro + b"\xff" + euro[:2])
    second = client.get(f"/api/v1/jobs/{id_}/log?offset={first['offset']}").json()
    client.post(f"/api/v1/jobs/{id_}/cancel", json={})
    last = client.get(f"/api/v1/jobs/{id_}/log?offset={second['offset']}").json()

    assert (first["text"], first["offset"]) == ("5 ", 2)
    assert second["text"] == "€\ufffd"
    assert last["text"] == "\ufffd"  # it never came

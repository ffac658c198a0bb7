"""Many real jobs of two accounts, random preemptions, and steward killed in between."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from patience import LONG_S, until
from steward.clients.local_service import LocalService
from steward.errors import StewardError

JOBS = int(os.environ.get("STEWARD_JOBS", "300"))
KILLS = int(os.environ.get("STEWARD_KILLS", "30"))
WITHIN_S = 3000.0  # on a machine that has ten times as much to do as it can
SLOTS, OTHER = 8, 65534
FIRST = "first"
PREEMPTIONS = JOBS // 10  # at least
LAST = 4  # jobs that end only after the last kill and preemption, however quick the others were
GUARANTEES = {"lab": 3, "guests": 3}
MOST_TOLD = 5  # jobs whose whole story is in the report of a failure
JOB = r"""
import json, os, pathlib, sys, time
folder, place = pathlib.Path(os.environ["STEWARD_JOB_FOLDER"]), pathlib.Path(sys.argv[1])
me, saves, steps = os.environ["STEWARD_JOB_ID"], sys.argv[2] == "1", int(sys.argv[3])
gate = pathlib.Path(sys.argv[4])  # it goes on until this is there
taken = [place / slot for slot in os.environ["STEWARD_SLOTS"].split(",")]
for slot in taken:
    try:
        slot.mkdir()
    except FileExistsError:
        (place / f"two-owners-{me}-{slot.name}").touch()
def put(name, **record):
    (folder / ("." + name)).write_text(json.dumps(record))
    (folder / ("." + name)).rename(folder / name)
def leave(code):
    for slot in taken:
        slot.rmdir()
    sys.exit(code)
at, old = folder / "at", folder / "answer.json"
step = int(at.read_text()) if at.exists() else 0
seen = json.loads(old.read_text())["id"] if old.exists() else ""
if saves:
    put("can_save.json", can=True, seconds=0.01)
while step < steps or not gate.exists():
    step += 1
    time.sleep(0.05)
    if not place.exists():
        sys.exit(1)  # the test was interrupted
    if saves and (folder / "request.json").exists():
        request = json.loads((folder / "request.json").read_text())
        if request["id"] != seen:
            seen = request["id"]
            at.write_text(str(step))
            put("answer.json", id=seen, result="saved", step=step, checkpoint=str(at))
            if request["do"] == "save-and-stop":
                leave(0)
with (folder / "ends").open("a") as file:
    file.write(me + "\n")
put("done.json", step=step)
leave(0)
"""


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "data" / "steward.sock"
        self.log = folder / "up.log"
        self.steward: subprocess.Popen[bytes] | None = None
        tenants = "".join(
            f"[tenants.{name}]\nguaranteed_gpus = {count}\n" for name, count in GUARANTEES.items()
        )
        (folder / "steward.toml").write_text(
            f'[store]\nfolder = "{folder / "data"}"\n[loop]\nevery_s = 0.5\nautonomy = "auto"\n'
            # A job that has saved is ended after the grace; on a machine that is busy enough,
            # that could be before it has left its slot, and the next one would call it an owner.
            f"[jobs]\nslots = {SLOTS}\ngrace_s = 60.0\n"
            '[jobs.tenants]\nroot = "lab"\nnobody = "guests"\n'
            '[access]\ngroup = "nogroup"\n[observe]\ncollectors = []\n'
            f"[rules]\non = false\n[service]\nrequests_per_minute = 100000\n{tenants}"
        )

    def up(self) -> None:
        command = [sys.executable, "-m", "steward", "up", "--port", "0", "--no-browser"]
        # With its bytecode kept, as where it is installed: a start takes half as long.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with self.log.open("ab") as log:
            self.steward = subprocess.Popen(
                [*command, "--config", str(self.folder / "steward.toml")],
                stdout=log,
                stderr=log,
                env=environment,
            )
        until(lambda: self.ask() is not None, why="steward up")

    def ask(self, *path: str, **query: Any) -> Any:
        assert self.steward is not None
        assert self.steward.poll() is None, self.log.read_text()[-3000:]
        try:
            return LocalService(self.socket).get("jobs", *path, query=query)
        except StewardError:
            return None

    def compile(self) -> None:
        """Run one job to its end: the first decision on a machine takes minutes, not one of these.

        A steward that is killed meanwhile begins to compile anew.
        """
        body = {"argv": ["true"], "folder": "/", "name": FIRST}
        self.post_as(0, [body])
        end_s = time.monotonic() + WITHIN_S
        while until(lambda: self.ask(limit=1, ended=True), why="an answer")[0]["exit_code"] is None:
            assert time.monotonic() < end_s, "the first job was not started"
            time.sleep(0.2)

    def jobs(self) -> list[dict[str, Any]]:
        found = until(lambda: self.ask(limit=10_000, ended=True), why="an answer")
        return [each for each in found if each["name"] != FIRST]

    def output(self, id_: str) -> str:
        log = self.folder / "data" / "jobs" / id_ / "work" / "output.log"
        return log.read_text()[-1000:] if log.exists() else ""

    def kill(self, number: int = signal.SIGKILL) -> None:
        assert self.steward is not None
        self.steward.send_signal(number)
        self.steward.wait(LONG_S)

    def post_as(self, uid: int, bodies: list[dict[str, Any]]) -> None:
        """Submit from a child with another account, as the kernel will report it."""
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
                for body in bodies:
                    assert LocalService(self.socket).post("jobs", body=body) is not None
                os._exit(0)
            except BaseException as fault:  # noqa: BLE001 - a copy of pytest must not go on
                os.write(2, f"{fault!r} {getattr(fault, 'hint', '')}\n".encode())
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    # -- what a failure tells ------------------------------------------------------------------

    def report(self) -> str:
        """Return what is known of the jobs that are not as they should be, and of steward."""
        jobs = self.rows("jobs.sqlite3", "SELECT id, state FROM job ORDER BY number")
        odd = [id_ for id_, state in jobs if state != "finished" or len(self.ends(id_)) != 1]
        return "\n".join(
            [
                f"states: {dict(Counter(state for _, state in jobs))}",
                f"slots: {sorted(each.name for each in (self.folder / 'slots').iterdir())}",
                f"not finished, or not once: {odd}",
                *(line for id_ in odd[:MOST_TOLD] for line in self.story(id_)),
                "steward's last lines:",
                self.log.read_text()[-3000:],
            ]
        )

    def story(self, id_: str) -> list[str]:
        """Return the events, files and decisions of a job."""
        events = self.rows("jobs.sqlite3", "SELECT event FROM life WHERE job = ?", id_)
        attempts = self.rows("jobs.sqlite3", "SELECT rest FROM job WHERE id = ?", id_)
        about = (f'%"job": "{id_}"%', f'%"job":"{id_}"%', f"%job {id_} %")
        journal = self.rows(
            "journal.sqlite3",
            "SELECT seq, kind, id, cause, body FROM entries "
            "WHERE body LIKE ? OR body LIKE ? OR body LIKE ? ORDER BY seq",
            *about,
        )
        files = sorted((self.folder / "data" / "jobs" / id_).glob("*/*.json"))
        return [
            f"job {id_}: ends {self.ends(id_)}, output {self.output(id_)!r}",
            *(f"  event {each[0]}" for each in events),
            *(f"  attempts {each[0]}" for each in attempts),
            *(f"  {each.parent.name}/{each.name} {each.read_text()[:400]}" for each in files),
            *(f"  journal {str(each)[:600]}" for each in journal[-20:]),
        ]

    def ends(self, id_: str) -> list[str]:
        """Return a line for each time that a job has come to its end."""
        file = self.folder / "data" / "jobs" / id_ / "work" / "ends"
        return file.read_text().split() if file.exists() else []

    def rows(self, file: str, query: str, *values: str) -> list[tuple[Any, ...]]:
        path = self.folder / "data" / file
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return database.execute(query, values).fetchall()


@pytest.fixture
def site() -> Iterator[Site]:
    folder = Path(tempfile.mkdtemp(prefix="steward-real-", dir="/var/tmp"))
    folder.chmod(0o755)
    (folder / "data").mkdir(mode=0o711)
    (folder / "slots").mkdir()
    (folder / "slots").chmod(0o777)
    made = Site(folder)
    yield made
    if made.steward is not None and made.steward.poll() is None:
        made.kill(signal.SIGTERM)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.real
@pytest.mark.timeout(WITHIN_S + 600.0)
@pytest.mark.skipif(os.getuid() != 0, reason="needs two accounts")
def test_every_job_ends_once_and_no_slot_has_two_owners(site: Site) -> None:
    try:
        _disturb(site)
        _check_ends(site)
    except BaseException as fault:
        fault.add_note(site.report())
        raise


def _disturb(site: Site) -> None:
    """Submit all jobs, and preempt some and kill steward until they have ended."""
    chance = random.Random(7)  # noqa: S311
    script = site.folder / "job.py"
    script.write_text(JOB)
    script.chmod(0o755)
    place = str(site.folder / "slots")

    def body(number: int) -> dict[str, Any]:
        saves, steps = str(number % 2), str(chance.randrange(2, 50))
        opened = site.folder / ("go" if number >= JOBS - LAST else "slots")
        argv = ["/usr/bin/python3", str(script), place, saves, steps, str(opened)]
        return {
            "argv": argv,
            "folder": "/",
            "slots": chance.choice((1, 1, 2)),
            "token": f"t{number}",
        }

    site.up()
    site.compile()
    bodies = [body(number) for number in range(JOBS)]
    site.post_as(0, bodies[::2])
    site.post_as(OTHER, bodies[1::2])

    preempted = kills = 0
    short_since: dict[str, float] = {}
    starved: list[str] = []
    end_s = time.monotonic() + WITHIN_S
    while (found := site.jobs()) and any(each["exit_code"] is None for each in found):
        assert time.monotonic() < end_s, "not all jobs ended"
        _check_guarantees(found, short_since, starved)
        runs = [each for each in found if each["state"] in ("running", "resumed")]
        for each in chance.sample(runs, min(2, len(runs))):
            try:
                LocalService(site.socket).post("jobs", each["id"], "preempt", body={})
                preempted += 1
            except StewardError:
                pass  # it cannot save, or has just ended
        if kills == KILLS and preempted >= PREEMPTIONS:
            (site.folder / "go").touch()
        elif kills < KILLS and chance.random() < 0.9:
            site.kill()
            kills += 1
            short_since.clear()
            site.up()
        time.sleep(chance.choice((0.05, 0.3, 1.0, 3.0)))  # killed while it starts, and at work

    print(f"{preempted} preemptions, {kills} kills")  # noqa: T201
    assert not starved
    assert kills == KILLS
    assert preempted >= PREEMPTIONS


def _check_ends(site: Site) -> None:
    ended = site.jobs()
    assert len(ended) == JOBS
    assert not [each for each in ended if each["state"] != "finished"]
    assert not [each["id"] for each in ended if site.ends(each["id"]) != [each["id"]]]
    assert not list((site.folder / "slots").glob("two-owners-*"))


def _check_guarantees(
    found: list[dict[str, Any]], short_since: dict[str, float], starved: list[str]
) -> None:
    """A tenant that waits gets its guarantee as soon as others can be stopped or have ended."""
    held: dict[str, int] = defaultdict(int)
    waits: set[str] = set()
    for each in found:
        held[each["tenant"]] += len(each["gpus"])
        if each["state"] in ("waiting", "preempted"):
            waits.add(each["tenant"])
    for tenant, count in GUARANTEES.items():
        if tenant in waits and held[tenant] < count - 1:  # a job of two slots may not fit the rest
            since = short_since.setdefault(tenant, time.monotonic())
            if time.monotonic() - since > LONG_S:
                starved.append(f"{tenant} held {held[tenant]} of {count}")
        else:
            short_since.pop(tenant, None)

"""`steward up` and `steward jobs` as people run them: real programs, a real socket."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from job_bed import SAVES
from patience import LONG_S, until
from steward.cli.options import open_store
from steward.clients.local_service import LocalService
from steward.model.event import Event
from told import Answer, steward


class Site:
    """One store folder with a steward that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "steward.toml"
        self.config.write_text(
            f'[store]\nfolder = "{folder / "data"}"\n[jobs]\nslots = 4\ngrace_s = 0.5\n'
            "log_max_bytes = 1048576\n"
            "[loop]\nevery_s = 0.5\n"
            "[observe]\ncollectors = []\n[rules]\non = false\n"
        )
        self.steward: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        command = [sys.executable, "-m", "steward", "up", "--port", "0", "--no-browser"]
        with (self.folder / "up.log").open("ab") as log:
            self.steward = subprocess.Popen(
                [*command, "--config", str(self.config)], stdout=log, stderr=log
            )
        until(self.answers, why="steward up: " + (self.folder / "up.log").read_text()[-500:])

    def answers(self) -> bool:
        assert self.steward is not None
        assert self.steward.poll() is None, (self.folder / "up.log").read_text()[-2000:]
        socket = self.folder / "data" / "steward.sock"
        return LocalService(socket).get("jobs") is not None

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.steward is not None:
            self.steward.send_signal(number)
            self.steward.wait(LONG_S)
            self.steward = None

    def run(self, what: str, *words: str, check: bool = True) -> Answer:
        """Run the command line in this process: a program of its own takes a second to begin."""
        said = steward("jobs", what, "--config", self.config, *words)
        assert not check or said.code == 0, said.err + said.out
        return said

    def submit(self, *words: str) -> str:
        return str(self.run("submit", "--json", *words).json["id"])

    def end_all(self) -> None:
        def none_left() -> bool:
            found = self.run("list", "--json").json
            for each in found:
                self.run("cancel", each["id"])
            return not found

        until(none_left)

    def journal(self, id_: str) -> dict[str, str]:
        """Return the events of a job that are in the journal, each kind with its text."""
        with open_store(self.config, None) as store:
            found = store.journal.read(kinds=("event",), limit=10_000)
        events = [each.value for each in found if isinstance(each.value, Event)]
        return {each.kind: each.text for each in events if each.subject == f"job:{id_}"}

    def show(self, id_: str) -> dict[str, Any]:
        found = LocalService(self.folder / "data" / "steward.sock").get("jobs", id_)
        assert isinstance(found, dict)
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    made.up()
    made.run("submit", "--wait", "--", "true")  # the first decision compiles: minutes, maybe
    yield made
    made.end_all()
    made.kill(signal.SIGTERM)


def test_a_job_is_run_waited_for_and_shown_across_a_kill_of_steward(site: Site) -> None:
    go = site.folder / "go"
    code = f"echo out; while [ ! -e {go} ]; do sleep 0.1; done; echo done; exit 3"
    id_ = site.submit("--", "sh", "-c", code)
    until(lambda: site.show(id_)["state"] == "running")
    site.kill()
    go.touch()
    site.up()

    assert site.run("wait", id_, check=False).code == 3
    shown = site.run("show", id_, "--json").json
    assert (shown["state"], shown["exit_code"], shown["gpus"]) == ("failed", 3, [])
    assert len(shown["attempts"]) == 1
    assert site.run("logs", id_).out == "out\ndone\n"

    long = site.submit("--", "sleep", "1000")
    until(lambda: site.show(long)["state"] == "running")
    site.run("cancel", long)
    assert site.run("wait", long, check=False).code != 0
    assert site.show(long)["state"] == "cancelled"

    held = site.submit("--hold", "--", "true")
    until(lambda: site.show(held)["state"] == "held")
    site.run("release", held)
    assert site.run("wait", held).code == 0

    array = site.submit("--array", "0-2", "--", "sh", "-c", "exit $STEWARD_ARRAY_TASK_ID")
    assert site.run("wait", array, check=False).code == 2

    twice = {site.submit("--token", "once", "--", "true") for _ in "ab"}
    assert len(twice) == 1


def test_a_waiting_job_says_who_holds_what_it_needs_and_what_would_start_it(site: Site) -> None:
    site.end_all()
    wide = site.submit("--slots", "3", "--time", "1:00:00", "--", "sleep", "1000")
    until(lambda: site.show(wide)["state"] == "running")
    first = site.submit("--slots", "2", "--time", "30:00", "--", "sleep", "1000")
    second = site.submit("--slots", "2", "--", "sleep", "1000")

    def seen() -> Any:
        found = site.run("why", second, "--json").json
        free = "it asks for 2 GPUs, and 1 of 4 are free"  # once the start of the wide one is over
        return found["eta"] and found["limits"][0] == free and found

    why = until(seen)
    assert [each["id"] for each in why["holders"]] == [wide]
    assert [each["id"] for each in why["ahead"]] in ([], [first])  # both fit when the wide one ends
    changes = {each["what"]: each["value"] for each in why["changes"]}
    assert (changes["gpus"], changes["cancel"]) == ("1", wide)
    assert why["eta"]["high_s"] <= why["now_s"] + 3600.0
    said = site.run("why", second).out
    assert "ask for 1 GPUs" in said
    assert "starts: likely in" in said

    top = site.run("top", "--once").out.splitlines()
    assert top[1].split()[0] == wide
    held = site.submit("--hold", "--", "true")
    until(lambda: site.show(held)["state"] == "held")
    assert f"steward jobs release {held}" in site.run("why", held).out
    after = site.submit("--dependency", f"afterok:{wide}", "--", "true")
    assert f"afterok:{wide}, which is running" in site.run("why", after).out


@pytest.mark.parametrize(
    ("words", "code", "state", "reason"),
    [
        (("--", "/nowhere/train"), 127, "failed", "/nowhere/train: no such file"),
        (("--", "/etc/passwd"), 126, "failed", "/etc/passwd: permission denied"),
        (("--", "sh", "-c", "exit 5"), 5, "failed", "exit status 5"),
        (("--", "sh", "-c", "kill -SEGV $$"), 139, "failed", "ended by signal 11"),
        (("--chdir", "/nowhere", "--", "true"), 127, "failed", "folder /nowhere: no such file"),
        (("--output", "/proc/x", "--", "true"), 127, "failed", "the log /proc/x cannot be opened"),
        (
            ("--time", "3s", "--", "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"),
            137,
            "failed",
            "time limit reached",
        ),
        (("--", "sh", "-c", "setsid sleep 1000 & exit 0"), 0, "finished", "exit status 0"),
        (
            ("--", "sh", "-c", "head -c 3000000 /dev/zero"),
            0,
            "finished",
            "bytes of its output were dropped: the log has reached its size limit",
        ),
    ],
)
def test_what_went_wrong_is_in_the_journal_and_where_the_job_is_shown(
    site: Site, words: tuple[str, ...], code: int, state: str, reason: str
) -> None:
    id_ = site.submit(*words)

    assert site.run("wait", id_, check=False).code == code
    shown = site.run("show", id_, "--json").json
    assert (shown["state"], len(shown["attempts"])) == (state, 1)
    text = site.run("show", id_).out
    assert reason in text
    kinds = [f"job.{state}", *("job.noted" for _ in shown["notes"])]
    for kind in kinds:
        assert until(lambda k=kind: site.journal(id_).get(k)) in text  # type: ignore[misc]


def test_what_a_job_cost_is_told_for_one_and_for_all(site: Site) -> None:
    site.end_all()
    good, bad = (site.submit("--", "sh", "-c", f"sleep 0.2; exit {code}") for code in (0, 1))
    for each in (good, bad):
        site.run("wait", each, check=False)

    one = site.run("cost", good, "--json").json["total"]
    assert one["paid_gpu_s"] == one["productive_gpu_s"] > 0
    lost = site.run("cost", bad, "--json").json["total"]
    assert lost["lost_gpu_s"] == lost["paid_gpu_s"] > 0
    everything = site.run("cost", "--json").json
    assert everything["total"]["paid_gpu_s"] >= one["paid_gpu_s"] + lost["paid_gpu_s"]
    assert site.run("cost").out.splitlines()[-1].startswith("all")


def test_a_running_job_is_moved_and_resized_and_says_what_it_cannot_do(site: Site) -> None:
    site.end_all()
    code = SAVES.replace("STEPS", "100000")
    id_ = site.submit("--max-gpus", "2", "--", sys.executable, "-c", code)
    plain = site.submit("--", "sleep", "1000")
    until(lambda: site.show(id_)["can_save"] and site.show(plain)["state"] == "running")
    free = sorted({f"cpu{n}" for n in range(4)} - {name(site, id_), name(site, plain)})

    site.run("move", id_, "--to", free[0], "--note", "nearer")
    until(lambda: site.show(id_)["state"] == "migrated")
    assert name(site, id_) == free[0]
    assert any("nearer" in each["why"] for each in site.show(id_)["events"])
    site.run("move", id_, "--to", "2")
    until(lambda: site.show(id_)["state"] == "resized")
    assert len(site.show(id_)["gpus"]) == 2
    assert [len(each["gpus"]) for each in site.show(id_)["attempts"]] == [1, 1, 2]

    for words, problem in [
        ((id_, "--to", "3"), "it runs on 1 to 2 GPUs, not on 3"),
        ((id_, "--to", "9"), "only 3 of 9 can be had now"),
        ((id_, "--to", "gpu7"), "'gpu7' is not here"),
        ((id_, "--to", name(site, plain)), "held: "),
        ((id_, "--to", ","), "no GPU is named"),
        ((plain, "--to", free[1]), "it cannot save its work"),
        (("99", "--to", "cpu0"), "there is no job '99'"),
    ]:
        said = site.run("move", *words, check=False)
        assert (said.code, problem in said.err) == (2, True), said.err
    site.end_all()


def test_a_log_has_all_runs_of_a_job_that_was_preempted_also_while_it_is_followed(
    site: Site,
) -> None:
    site.end_all()
    code = f"import os\nprint('run', os.environ['STEWARD_RESTART_COUNT'], flush=True)\n{SAVES}"
    id_ = site.submit("--", sys.executable, "-c", code.replace("STEPS", "100000"))
    command = [sys.executable, "-m", "steward", "jobs", "logs", "--follow", id_]
    with subprocess.Popen(
        [*command, "--config", str(site.config)], stdout=subprocess.PIPE, text=True
    ) as follow:
        assert follow.stdout is not None
        try:
            assert follow.stdout.readline() == "run 0\n"
            until(lambda: site.show(id_)["can_save"])
            site.run("preempt", id_)  # nobody else waits: it goes on at once
            assert follow.stdout.readline() == "run 1\n"
        finally:
            site.run("cancel", id_)
        rest = follow.stdout.read()

    assert (rest, follow.returncode) == ("", 0)
    assert site.run("logs", id_).out == "run 0\nrun 1\n"


def name(site: Site, id_: str) -> str:
    return str(site.show(id_)["gpus"][0]).rpartition("/")[2]


@pytest.mark.parametrize("what", ["cancel", "hold", "release", "save", "resume", "preempt"])
def test_a_dry_run_prints_the_request_and_sends_nothing(tmp_path: Path, what: str) -> None:
    made = Site(tmp_path)  # where no steward runs: nothing could be sent

    said = made.run(what, "--dry-run", "--note", "it's late", "7")
    found = made.run(what, "--dry-run", "--json", "7").json

    assert said.out.startswith(f"curl --unix-socket {tmp_path}/data/steward.sock")
    assert said.out.rstrip().endswith(f"http://localhost/api/v1/jobs/7/{what}")
    assert (found["method"], found["body"]["note"]) == ("POST", "")


def test_a_dry_run_of_a_move_prints_where_to(tmp_path: Path) -> None:
    made = Site(tmp_path)

    body = made.run("move", "--dry-run", "--json", "7", "--to", "gpu1,gpu2").json["body"]
    assert body["to"] == ["gpu1", "gpu2"]
    assert made.run("move", "--dry-run", "--json", "7", "--to", "2").json["body"]["to"] == 2


@pytest.mark.parametrize("how", [(), ("--dry-run",)])
def test_a_job_of_this_machine_is_not_extended(tmp_path: Path, how: tuple[str, ...]) -> None:
    done = Site(tmp_path).run("extend", *how, "7", "--time", "+30", check=False)

    assert done.code == 2
    assert "fixed when it is submitted" in done.err
    assert "submit it again" in done.err


def test_without_a_steward_the_message_says_how_to_start_it(tmp_path: Path) -> None:
    made = Site(tmp_path)

    done = made.run("submit", "--", "true", check=False)

    assert done.code == 2
    assert "no steward runs here" in done.err
    assert "steward up" in done.err


def test_a_command_stands_after_two_dashes_and_a_script_keeps_its_own(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\n#SBATCH --job-name=mine\n")

    as_command = steward("jobs", "submit", "--dry-run", "--json", "--", "run.sh", "--", "x").json
    as_script = steward("jobs", "submit", "--dry-run", "--json", script, "--", "x").json

    assert (as_command["argv"], as_command["script"]) == (["run.sh", "--", "x"], "")
    assert (as_script["argv"], as_script["name"]) == (["--", "x"], "mine")


@pytest.mark.parametrize("id_", ["x", "../../etc", "", "1\n2", "1_"])
def test_what_is_no_id_is_refused_in_our_own_words(tmp_path: Path, id_: str) -> None:
    made = Site(tmp_path)

    for what in ("show", "logs", "wait", "cancel", "why", "cost"):
        done = made.run(what, "--", id_, check=False)

        assert done.code == 2
        assert "is no id of a job" in done.err
        assert "jobs list --all" in done.err

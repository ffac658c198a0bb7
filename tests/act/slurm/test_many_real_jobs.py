"""Hundreds of jobs on a real Slurm; steward and slurmctld are killed meanwhile."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beds.slurm import SlurmBed, slurm_bed
from beds.slurm_load import (
    ACCOUNTS,
    GUARANTEES,
    LoadJob,
    Written,
    mixed_load,
    submit,
    written,
)
from beds.slurm_steward import SlurmSteward
from patience import LONG_S, until
from steward.errors import StewardError

pytestmark = pytest.mark.real

JOBS = int(os.environ.get("STEWARD_JOBS", "200"))
KILLS = int(os.environ.get("STEWARD_KILLS", "20"))
SEED = int(os.environ.get("STEWARD_SEED", "5"))
WITHIN_S = 600.0  # for any one step, on a machine that has much else to do
NODES = tuple(f"n{number}" for number in range(1, 9))
BROKEN = "n8"  # which steward drains, and a person brings back
STEWARDS_PART = 0.7  # of the kills; the others are slurmctld's
PLAIN = 4  # one job in so many is not held for steward: Slurm may start it by itself
MARGIN = 8  # GPUs that a wide job may have to wait for, below a guarantee
REQUEUED = {"REQUEUED", "PREEMPTED"}
# slurmctld writes its state down some seconds late. What happened to a job in the last of them
# before a kill -9, Slurm itself forgets, with or without steward: one that has ended counts as
# running until its time limit; one that was started is started again, which its node refuses, and
# Slurm then cancels it, or requeues and holds it if that is allowed.
UNWRITTEN_S = 8.0
# After a kill -9, Slurm 22.05 may lose count of the GPUs in use ("gres count underflow" in its
# log): nodes are idle and jobs wait for resources until slurmctld is restarted in good order.
STILL_S = 90.0


class Site:
    """A Slurm, its steward, and what was submitted to them."""

    def __init__(self, bed: SlurmBed) -> None:
        self.bed = bed
        self.jobs_folder = bed.folder / "jobs"
        self.jobs_folder.mkdir()
        self.steward = SlurmSteward(bed, bed.folder / "steward", GUARANTEES)
        self.submitted: dict[str, LoadJob] = {}  # by the name of each task
        self.held: set[str] = set()
        self.kills: Counter[str] = Counter()
        self.accepted_s = 0.0
        self.controller_killed_s: list[float] = []
        self.short_since: dict[str, float] = {}
        self.lines_seen = 0  # that jobs have written
        self.still_since_s = time.monotonic()  # when they last wrote one

    # -- jobs ----------------------------------------------------------------------------------

    def submit(self, job: LoadJob, *, held: bool) -> None:
        submit(self.bed, job, self.jobs_folder, "--time=1", *(["--hold"] if held else []))
        self.accepted_s = time.time()
        self.submitted |= dict.fromkeys(job.names, job)
        self.held |= {*job.names} if held else set()

    def lines(self) -> dict[str, Sequence[Written]]:
        return written(self.jobs_folder, self.submitted)

    def unfinished(self) -> list[str]:
        found = self.lines().items()
        return [name for name, lines in found if "end" not in [each.what for each in lines]]

    def compile(self) -> None:
        """Run one job to its end: the first decision on a machine may take minutes of compiling."""
        self.submit(_small("first"), held=True)
        patiently(lambda: not self.unfinished(), why="the first job")

    def accounted(self) -> dict[str, list[str]]:
        """Return the states of all runs of each task, by name, as accounting has them."""
        found = defaultdict(list)
        for id_, _, name, state in self._rows():
            task = id_.partition("_")[2]
            found[f"{name}_{task}" if task else name].append(state.split(" ")[0])
        return found

    def raw_ids(self) -> dict[str, str]:
        """Return the name of each task by the id that steward knows it by."""
        found = {}
        for id_, raw, name, _ in self._rows():
            task = id_.partition("_")[2]
            found[raw] = f"{name}_{task}" if task else name
        return found

    def _rows(self) -> list[list[str]]:
        how = ("-a", "-X", "-D", "-n", "-P", "-S", "now-1days")
        said = self.bed.run("sacct", *how, "-o", "JobID,JobIDRaw,JobName,State")
        return [line.split("|") for line in said.splitlines()]

    def forgotten(self) -> set[str]:
        """Return the tasks to which something happened that slurmctld may not have written down."""
        return {
            name
            for name, lines in self.lines().items()
            for line in lines
            for killed_s in self.controller_killed_s
            if 0.0 <= killed_s - line.t_s < UNWRITTEN_S
        }

    def cancelled(self) -> set[str]:
        """Return the tasks that Slurm cancelled because it had forgotten that they ran."""
        found = self.accounted().items()
        return {name for name, states in found if states[-1] == "CANCELLED"} & self.forgotten()

    def release_refused(self) -> None:
        """Release what Slurm holds because a node refused it, as an operator would."""
        for line in self.bed.run("squeue", "-h", "-r", "-t", "PD", "-o", "%i|%r").splitlines():
            id_, _, reason = line.partition("|")
            if reason.replace("_", " ") == "launch failed requeued held":
                self.bed.run("scontrol", "release", id_)

    def recount_gpus(self) -> None:
        """Restart slurmctld if it has lost count of its GPUs and starts nothing any more."""
        lines = sum(len(each) for each in self.lines().values())
        if lines != self.lines_seen:
            self.lines_seen, self.still_since_s = lines, time.monotonic()
        states = {*self.bed.run("sinfo", "-h", "-N", "-o", "%T").split()} - {"drained"}
        log = (self.bed.folder / "slurmctld.log").read_text(errors="replace")
        still = time.monotonic() - self.still_since_s > STILL_S and states == {"idle"}
        if still and "gres count underflow" in log:
            self.bed.stop("slurmctld")
            self.bed.start_controller()
            patiently(self.bed.controller_answers, why="slurmctld")
            self.still_since_s = time.monotonic()

    # -- kills ---------------------------------------------------------------------------------

    def kill(self, chance: random.Random) -> None:
        (self.kill_steward if chance.random() < STEWARDS_PART else self.kill_controller)()
        self.short_since.clear()

    def kill_steward(self) -> None:
        self.steward.kill()
        self.kills["steward"] += 1
        self.steward.start()

    def kill_controller(self) -> None:
        """Kill slurmctld just after it wrote its state down, with all that it has accepted.

        What it forgets itself, nobody else can keep: see `UNWRITTEN_S`.
        """
        patiently(lambda: self._written_s() > self.accepted_s, why="the state of slurmctld")
        before_s, end_s = self._written_s(), time.monotonic() + UNWRITTEN_S
        while self._written_s() <= before_s and time.monotonic() < end_s:  # else nothing is new
            time.sleep(0.01)
        self.bed.kill_controller()
        self.controller_killed_s.append(time.time())
        self.kills["slurmctld"] += 1
        self.bed.start_controller()
        patiently(self.bed.controller_answers, why="slurmctld")

    def _written_s(self) -> float:
        """Return when slurmctld wrote its state down; 0 while it puts a new file in place."""
        try:
            return (self.bed.folder / "state" / "job_state").stat().st_mtime
        except FileNotFoundError:
            return 0.0

    # -- nodes ---------------------------------------------------------------------------------

    def break_node(self) -> None:
        """Let slurmctld's log say that three jobs failed on a node: a rule drains it.

        A steward that is killed between these lines and its decision reads none of them again.
        """
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
        with self.steward.told.open("a") as log:
            for number in range(3):
                log.write(
                    f"[{stamp}.{number:03d}] error: slurmd error running JobId={9000 + number} "
                    f"on node(s)={BROKEN}: Slurmd could not execve job\n"
                )

    def drain(self) -> str:
        """Return the decision that drained the node; empty if it is not drained."""
        said = self.bed.run("sinfo", "-h", "-N", "-n", BROKEN, "-o", "%E").partition("\n")[0]
        return said.removeprefix("steward ").partition(":")[0] if "steward d-" in said else ""

    def bring_back(self, decision: str) -> bool:
        """Undo the drain as a person does; False while steward does not answer."""
        try:
            return (
                self.steward.service.post("decisions", decision, "undo", body={"note": "repaired"})
                is not None
            )
        except StewardError:
            return False

    # -- guarantees ----------------------------------------------------------------------------

    def starved(self) -> list[str]:
        """Return accounts that have waited for their guarantee for too long."""
        rows = [
            line.split("|")
            for line in self.bed.run("squeue", "-h", "-r", "-o", "%a|%T|%b|%D").splitlines()
        ]
        held: Counter[str] = Counter()
        for account, state, gres, nodes in rows:
            if state == "RUNNING":
                held[account] += int(gres.rpartition(":")[2]) * int(nodes)
        wait = {account for account, state, _, _ in rows if state == "PENDING"}
        for account, count in GUARANTEES.items():
            if account in wait and held[account] < count - MARGIN:
                self.short_since.setdefault(account, time.monotonic())
            else:
                self.short_since.pop(account, None)
        late = time.monotonic() - LONG_S
        return [f"{each} has {held[each]}" for each, s in self.short_since.items() if s < late]

    # -- what a failure tells ------------------------------------------------------------------

    def report(self) -> str:
        odd = self.unfinished()[:5]
        return "\n".join(
            [
                f"kills: {dict(self.kills)}; unfinished: {len(self.unfinished())}",
                f"accounted otherwise: {_wrongly_accounted(self, {*self.submitted})}",
                f"forgotten by slurmctld: {len(self.forgotten())}",
                *(f"{name}: {list(self.lines()[name])}" for name in odd),
                self.bed.run("squeue", "-r", "-o", "%i %j %T %r %k")[-3000:],
                self.bed.run("sinfo", "-N", "-o", "%N %T %E"),
                f"steward: {self.steward.log.read_text()[-2000:]}",
            ]
        )


def patiently(ask: Callable[[], object], *, why: str) -> None:
    """Wait for much longer than `until`: for compiling, and for a machine with much to do."""
    end_s = time.monotonic() + WITHIN_S
    while not ask():
        assert time.monotonic() < end_s, f"waited in vain for {why}"
        time.sleep(0.2)


def _small(name: str) -> LoadJob:
    return LoadJob(name=name, account="bio", arrive_s=0.0, run_s=0.1, gpus=1)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with slurm_bed(tmp_path, nodes=NODES, accounts=ACCOUNTS) as bed:
        made = Site(bed)
        try:
            yield made
        finally:
            made.steward.kill()


@pytest.mark.timeout(3 * WITHIN_S)
def test_every_job_ends_once_whoever_is_killed_meanwhile(site: Site) -> None:
    try:
        _disturb(site)
        _check_ends(site)
        _check_continuations(site)
        _check_journal(site)
    except BaseException as fault:
        fault.add_note(site.report())
        raise


def _call_back(site: Site) -> int:
    """Fill the cluster with jobs that save, and let another account ask for what is guaranteed it.

    Return how many jobs that took, once one of them has saved.
    """
    fill = [replace(_small(f"fill{i}"), account="vision", run_s=45.0, gpus=4) for i in range(16)]
    for each in fill:
        site.submit(replace(each, saves=True), held=False)
    patiently(lambda: all(site.lines().values()), why="a full cluster")
    asking = [replace(_small(f"asks{i}"), run_s=3.0, gpus=4) for i in range(4)]
    for each in asking:
        site.submit(each, held=True)
    said = site.lines
    patiently(lambda: any(x.what == "saved" for y in said().values() for x in y), why="a save")
    return len(fill) + len(asking)


def _disturb(site: Site) -> None:
    """Submit all jobs in portions, and kill and drain in between."""
    chance = random.Random(SEED)  # noqa: S311
    site.steward.up()
    site.compile()
    waiting = mixed_load(jobs=JOBS - _call_back(site), pace=2.0, seed=SEED)
    portion = -(-len(waiting) // (KILLS // 2))
    drained = ""
    starved: list[str] = []
    for turn in range(KILLS):
        for job in [waiting.pop(0) for _ in range(min(portion, len(waiting)))]:
            site.submit(job, held=chance.randrange(PLAIN) > 0)
        time.sleep(chance.choice((0.1, 0.5, 1.0, 2.0, 4.0)))
        site.kill(chance)
        starved += site.starved()
        if turn == KILLS // 4:
            site.break_node()
        if turn == KILLS // 2:
            drained = _drained(site)
    patiently(lambda: site.bring_back(drained), why="an answer to the undo")
    patiently(lambda: not site.drain(), why="the end of the drain")
    while {*site.unfinished()} - site.cancelled():
        starved += site.starved()
        assert not starved, starved
        site.release_refused()
        site.recount_gpus()
        time.sleep(1.0)
    patiently(lambda: not site.bed.run("squeue", "-h"), why="an empty queue")
    assert site.kills.total() == KILLS
    assert {*site.kills} == {"steward", "slurmctld"}


def _drained(site: Site) -> str:
    """Return the decision that drains the node, on which jobs go on to fail."""
    end_s = time.monotonic() + WITHIN_S
    while not (found := site.drain()):
        assert time.monotonic() < end_s, "waited in vain for a drain"
        site.break_node()
        site.recount_gpus()
        time.sleep(5.0)
    return found


def _check_ends(site: Site) -> None:
    said = {name: [each.what for each in found] for name, found in site.lines().items()}
    surely = {name: words for name, words in said.items() if name not in site.forgotten()}
    assert len(said) == JOBS + 1
    assert {name for name, words in said.items() if "end" not in words} <= site.cancelled()
    assert len(site.cancelled()) < JOBS // 10
    assert not {name: words for name, words in said.items() if "twice" in words}
    assert not {name: words for name, words in surely.items() if words.count("end") != 1}
    assert sum(words.count("end") == 1 for words in said.values()) > JOBS * 9 // 10
    until(lambda: not _wrongly_accounted(site, {*surely}), why="accounting, which comes later")


def _wrongly_accounted(site: Site, names: set[str]) -> dict[str, list[str]]:
    """Return tasks of which accounting does not have exactly one end, the right one."""
    found = site.accounted()
    wanted = {name: "FAILED" if site.submitted[name].fails else "COMPLETED" for name in names}
    return {
        name: found.get(name, [])
        for name, end in wanted.items()
        if [each for each in found.get(name, []) if each not in REQUEUED] != [end]
    }


def _check_continuations(site: Site) -> None:
    """Each run of a job that saves begins where it saved last."""
    saved_runs = 0
    for name, lines in site.lines().items():
        saved_s = 0.0
        for line in lines:
            if line.what == "saved":
                saved_s = line.at_s
                saved_runs += 1
            if line.what == "begin":
                assert line.at_s - saved_s == pytest.approx(0.0, abs=0.5), (name, list(lines))
    assert saved_runs > 0


def _check_journal(site: Site) -> None:
    """Each change that a job or node shows was decided, with a reason."""
    decisions = [json.loads(body) for _, _, body in site.steward.journal("decision")]
    about = defaultdict(set)
    names = site.raw_ids()
    for each in decisions:
        assert each["because"]
        job = names.get(each["action"].get("job", ""), "")
        about[each["action"]["type"]].add(job)
    runs = {name: [x for x in lines if x.what == "begin"] for name, lines in site.lines().items()}
    restarted = {name for name, begun in runs.items() if len(begun) > 1}
    assert restarted
    assert restarted - about["preempt"] - site.forgotten() == set()
    started = {site.submitted[name].name for name in about["start"] | about["resume"] if name}
    held = {site.submitted[name].name for name in site.held}  # an array that waits is one job
    assert held - started == set()
    assert {"drain", "undrain"} <= {*about}
    results = Counter(json.loads(body)["result"] for _, _, body in site.steward.journal("receipt"))
    text = f"{dict(site.kills)} kills, {len(restarted)} jobs restarted, {_sorted(results)}"
    print(text, f"{len(site.forgotten())} may be forgotten, {len(site.cancelled())} were")  # noqa: T201


def _sorted(counted: Counter[Any]) -> dict[Any, int]:
    return dict(sorted(counted.items()))

"""The tool `jobs`: one job of the moment, or those of one user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isnan
from typing import Literal

from pydantic import Field

from steward.decide.scheduling.prospects import Prospect, prospect_of
from steward.errors import StewardError
from steward.model.cluster_snapshot import GpuRow, QueuedJob, RunningJobRow
from steward.model.forecast import RUN_LEFT_S, About
from steward.model.identity import JobId
from steward.model.view import ClusterView
from steward.questions.facts import Fact, Reply, Sentence, say, unknown
from steward.questions.records import JobRecord, Records
from steward.questions.tools.shapes import Arguments
from steward.questions.tools.sources import fact_at, journal_source, no_such

__all__ = ["JobArguments", "jobs"]

MOST_NAMED = 5
STEPS_AHEAD = 12  # ends of other jobs: an answer takes milliseconds, the job's page looks further

AboutJob = Literal["status", "why", "start", "finish", "use", "place", "list"]


class JobArguments(Arguments):
    """Which job, or whose, and what about it."""

    job: str = Field("", max_length=200, description="a job's id")
    user: str = Field("", max_length=200, description="an account, for `list`")
    about: AboutJob = Field(
        "status",
        description="status; why it waits; when it starts; when it finishes; use of its GPUs; "
        "place: its nodes and GPUs; list: the jobs of a user",
    )


def jobs(records: Records, asked: JobArguments) -> Reply:
    """Answer about one job, or list those of a user."""
    if asked.about == "list" or (asked.user and not asked.job):
        return _of_user(records, asked.user)
    if not asked.job:
        return unknown("Which job is meant is not said.")
    if records.view is None or records.cluster is None:
        return _over(records, asked.job) or unknown(
            f"No steward runs here now, and the store has no job {asked.job}."
        )
    about = _About(records, records.view, asked.job)
    if about.row is None:
        return _over(records, asked.job) or no_such(
            "job", asked.job, [str(each) for each in records.view.jobs.ids], records.now_s
        )
    return _TOLD[asked.about](about)


class _About:
    """One job of the moment, and facts about it."""

    def __init__(self, records: Records, view: ClusterView, id_: str) -> None:
        self.records = records
        self.view = view
        self.id = id_
        rows: tuple[QueuedJob | RunningJobRow, ...] = ()
        self.gpus: list[GpuRow] = []
        if records.cluster is not None:
            rows = (*records.cluster.queue, *records.cluster.running)
            self.gpus = [g for g in records.cluster.gpus if id_ in (g.owner, g.borrower)]
        self.row = next((row for row in rows if row.id == id_), None)

    def fact(self, label: str, value: str | float, unit: str = "name") -> Fact:
        return fact_at("job", self.id, self.view.t_s, label, value, unit)

    @property
    def named(self) -> Fact:
        return self.fact("job", self.id)

    @property
    def waits(self) -> bool:
        return isinstance(self.row, QueuedJob)


def _status(about: _About) -> Reply:
    row = about.row
    assert row is not None  # noqa: S101 - jobs() has looked
    facts = {
        "job": about.named,
        "user": about.fact("user", row.user or "unknown"),
        "gpus": about.fact("GPUs of the job", row.gpus, "GPUs"),
    }
    if isinstance(row, QueuedJob):
        waited = about.fact("time it has waited", row.waiting_s, "s")
        first = say(
            "Job {job} of {user} waits for {gpus}, for {waited} so far.", **facts, waited=waited
        )
    else:
        ran = about.fact("time it has run", row.ran_s, "s")
        first = say("Job {job} of {user} runs on {gpus}, for {ran} so far.", **facts, ran=ran)
    return Reply(sentences=(first, *_called(about), *_findings(about)))


def _called(about: _About) -> Iterator[Sentence]:
    row = about.row
    if row is not None and row.name:
        yield say("It is called {name}.", name=about.fact("name of the job", row.name, "text"))


def _findings(about: _About) -> Iterator[Sentence]:
    """Say which findings about it hold now."""
    for each in [f for f in about.records.open_findings if f.job == about.id][:MOST_NAMED]:
        source, link = journal_source("finding", each.id)
        facts = {
            "id": Fact(label="finding", value=each.id, source=source, link=link),
            "title": Fact(label="title", value=each.title, unit="text", source=source, link=link),
            "since": Fact(label="since", value=each.since_s, unit="time", source=source, link=link),
        }
        yield say("Finding {id} is open since {since}: {title}.", **facts)


def _place(about: _About) -> Reply:
    row = about.row
    if not isinstance(row, RunningJobRow):
        return Reply(sentences=(say("Job {job} runs nowhere: it waits.", job=about.named),))
    shown = row.nodes[:MOST_NAMED]
    nodes = {f"node{i}": about.fact("node", each) for i, each in enumerate(shown)}
    fields = ", ".join(f"{{{key}}}" for key in nodes)
    count = about.fact("nodes of the job", len(row.nodes), "nodes")
    some = " among them" if len(row.nodes) > len(shown) else ""
    if not nodes:
        return unknown(say("Job {job} runs, and its nodes are not known.", job=about.named))
    first = say(
        f"Job {{job}} runs on {{count}},{some} {fields}.", job=about.named, count=count, **nodes
    )
    gpus = {f"gpu{i}": about.fact("GPU", g.id) for i, g in enumerate(about.gpus[: 2 * MOST_NAMED])}
    held = about.fact("GPUs held or borrowed", len(about.gpus), "GPUs")
    names = ", ".join(f"{{{key}}}" for key in gpus)
    more = [say(f"It has {{held}}: {names}.", held=held, **gpus)] if gpus else []
    if len(about.gpus) > len(gpus):
        more = [say(f"It has {{held}}, among them {names}.", held=held, **gpus)]
    return Reply(sentences=(first, *more))


def _why(about: _About) -> Reply:
    if not about.waits:
        return Reply(sentences=(say("Job {job} does not wait: it runs.", job=about.named),))
    found = _prospect(about)
    if isinstance(found, str):
        return Reply(sentences=(*_status(about).sentences[:1], Sentence(text=found)))
    return Reply(sentences=(_summary(about, found), *_limits(about, found)))


def _prospect(about: _About) -> Prospect | str:
    policy = about.records.scheduler
    if policy is None:
        return (
            "Why is not known: steward's own policies start no jobs here, the site's engine does."
        )
    try:
        return prospect_of(
            policy,
            about.view,
            JobId(about.id),
            stops=about.records.stops,
            most_steps=STEPS_AHEAD,
            with_changes=False,
        )
    except StewardError as fault:
        return f"Why is not known: {fault.problem}."


def _summary(about: _About, found: Prospect) -> Sentence:
    job = about.named
    if found.reserved:
        return say("A decision about job {job} is under way.", job=job)
    if found.starts_now:
        return say("Job {job} starts with the next decision.", job=job)
    if found.room_by:
        room = {f"j{i}": about.fact("makes room", id_) for i, id_ in enumerate(found.room_by[:5])}
        names = ", ".join(f"{{{key}}}" for key in room)
        text = f"Job {{job}} would start if {names} made room, which a person has to approve."
        return say(text, job=job, **room)
    if found.ahead:
        ahead = about.fact("jobs ahead of it", len(found.ahead), "jobs")
        word = "at least " if found.starts.beyond else ""
        return say(f"Job {{job}} waits behind {word}{{ahead}}.", job=job, ahead=ahead)
    return say("Job {job} waits for GPUs that others hold.", job=job)


def _limits(about: _About, found: Prospect) -> Iterator[Sentence]:
    for each in () if found.starts_now else found.limits:
        limit = about.fact("limit", each, "statement")
        yield Sentence(text=f"{limit.text[:1].upper()}{limit.text[1:]}.", facts=(limit,))
    first = [about.fact("ahead of it", id_) for id_ in found.ahead[:MOST_NAMED]]
    if first:
        names = ", ".join(each.text for each in first)
        yield Sentence(text=f"First in line before it: {names}.", facts=tuple(first))


def _start(about: _About) -> Reply:
    row = about.row
    if isinstance(row, RunningJobRow):
        begun = about.fact("time it has run", row.ran_s, "s")
        text = "Job {job} runs already, for {begun}."
        return Reply(sentences=(say(text, job=about.named, begun=begun),))
    found = _prospect(about)
    if isinstance(found, str):
        return unknown(f"When job {about.id} starts is not known. {found}")
    starts = found.starts
    if starts.mid_s is None:
        return unknown(*_unknown_start(about, found))
    mid = about.fact("likely start", starts.mid_s, "time")
    word = "later than" if starts.beyond else "around"
    told = [say(f"Job {{job}} likely starts {word} {{mid}}.", job=about.named, mid=mid)]
    if starts.low_s is not None and starts.high_s is not None and not starts.beyond:
        low, high = (
            about.fact("start at the earliest", starts.low_s, "time"),
            about.fact("start at the latest", starts.high_s, "time"),
        )
        told.append(
            say(
                "It is between {low} and {high}, by run times of jobs like those ahead.",
                low=low,
                high=high,
            )
        )
    return Reply(sentences=tuple(told))


def _unknown_start(about: _About, found: Prospect) -> Iterator[Sentence]:
    yield say("When job {job} starts is not known.", job=about.named)
    if found.starts.unknown:
        names = tuple(about.fact("end unknown", id_) for id_ in found.starts.unknown[:MOST_NAMED])
        text = f"The ends of these jobs would have to be known: {', '.join(f.text for f in names)}."
        yield Sentence(text=text, facts=names)


def _finish(about: _About) -> Reply:
    row = about.row
    if isinstance(row, QueuedJob):
        text = "Job {job} has not started: when it ends is not known before it runs."
        return unknown(say(text, job=about.named))
    told = [*_forecast_end(about), *_time_limit(about)]
    if not told:
        return unknown(
            say("Nobody knows when job {job} ends: no forecast and no time limit.", job=about.named)
        )
    return Reply(sentences=tuple(told))


def _forecast_end(about: _About) -> Iterator[Sentence]:
    column = about.view.forecast(About.JOBS, RUN_LEFT_S)
    place = next((i for i, id_ in enumerate(about.view.jobs.ids) if id_ == about.id), None)
    if column is None or place is None or isnan(float(column.mid[place])):
        return
    low, mid, high = (float(each[place]) for each in (column.low, column.mid, column.high))
    facts = {
        "job": about.named,
        "mid": about.fact("likely time left", mid, "s"),
        "low": about.fact("time left at least", low, "s"),
        "high": about.fact("time left at most", high, "s"),
        "end": about.fact("likely end", about.view.t_s + mid, "time"),
        "basis": about.fact("estimator", column.basis),
    }
    yield say(
        "Job {job} likely ends around {end}, in {mid} ({low} to {high}; by {basis}).", **facts
    )


def _time_limit(about: _About) -> Iterator[Sentence]:
    row = about.row
    if isinstance(row, RunningJobRow) and row.time_limit_s is not None:
        left = about.fact("time until its limit", max(0.0, row.time_limit_s - row.ran_s), "s")
        yield say(
            "Its time limit ends job {job} in {left} at the latest.", job=about.named, left=left
        )


def _use(about: _About) -> Reply:
    if about.waits:
        return Reply(sentences=(say("Job {job} waits: it uses no GPU yet.", job=about.named),))
    known = [gpu.busy_share for gpu in about.gpus if gpu.busy_share is not None]
    if not known:
        return unknown(say("How busy the GPUs of job {job} are is not known.", job=about.named))
    facts = {
        "job": about.named,
        "busy": about.fact("mean use of its GPUs now", sum(known) / len(known), "share"),
        "gpus": about.fact("GPUs that report it", len(known), "GPUs"),
    }
    told = [
        say("The GPUs of job {job} are busy {busy} of the time now ({gpus} report it).", **facts)
    ]
    idle = [gpu for gpu in about.gpus if gpu.state.value == "idle" and gpu.idle_s is not None]
    if idle:
        longest = max(gpu.idle_s or 0.0 for gpu in idle)
        text = "{idle} of them are idle, the longest for {longest}."
        told.append(
            say(
                text,
                idle=about.fact("GPUs it does not use", len(idle), "GPUs"),
                longest=about.fact("longest idle time", longest, "s"),
            )
        )
    why = tuple(_findings(about))
    if not why:
        told.append(Sentence(text="No finding about it is open, so a cause is not known."))
    return Reply(sentences=(*told, *why))


_TOLD: Mapping[str, Callable[[_About], Reply]] = {
    "status": _status,
    "why": _why,
    "start": _start,
    "finish": _finish,
    "use": _use,
    "place": _place,
}


# -- jobs that are not in the moment ---------------------------------------------------------------


def _over(records: Records, id_: str) -> Reply | None:
    found = records.jobs(id_=id_)
    return Reply(sentences=tuple(_record(records, each) for each in found[:1])) if found else None


def _record(records: Records, job: JobRecord) -> Sentence:
    def fact(label: str, value: str | float, unit: str = "name") -> Fact:
        return fact_at("job", job.id, records.now_s, label, value, unit)

    facts = {
        "job": fact("job", job.id),
        "user": fact("user", job.user),
        "state": fact("state", job.state),
        "since": fact("since", job.since_s, "time"),
    }
    code = ""
    if job.exit_code is not None:
        facts["code"] = fact("exit code", job.exit_code, "")
        code = ", with exit code {code}"
    return say(f"Job {{job}} of {{user}} is {{state}} since {{since}}{code}.", **facts)


def _of_user(records: Records, user: str) -> Reply:
    if not user:
        return unknown("Whose jobs are meant is not said.")
    shown = records.cluster
    queue = [j for j in shown.queue if j.user == user] if shown else []
    running = [j for j in shown.running if j.user == user] if shown else []
    if not queue and not running:
        past = records.jobs(user=user)
        if past:
            told = tuple(_record(records, each) for each in past[:MOST_NAMED])
            return Reply(sentences=(Sentence(text="None waits or runs now."), *told))
        return unknown(f"No job of a user {user} waits or runs here.")

    def fact(label: str, value: str | float, unit: str = "name") -> Fact:
        return fact_at("user", user, records.now_s, label, value, unit)

    facts = {
        "user": fact("user", user),
        "run": fact("jobs that run", len(running), "jobs"),
        "wait": fact("jobs that wait", len(queue), "jobs"),
        "gpus": fact("GPUs in use", sum(j.gpus for j in running), "GPUs"),
    }
    first = say("{user}: {run} running on {gpus}, {wait} waiting.", **facts)
    return Reply(
        sentences=(first, *_named(fact, "Running", running), *_named(fact, "Waiting", queue))
    )


def _named(
    fact: Callable[[str, str, str], Fact], word: str, rows: list[RunningJobRow] | list[QueuedJob]
) -> Iterator[Sentence]:
    named = tuple(fact(f"{word.lower()} job", each.id, "name") for each in rows[:MOST_NAMED])
    if named:
        first = "the first are " if len(rows) > len(named) else ""
        yield Sentence(text=f"{word}: {first}{', '.join(f.text for f in named)}.", facts=named)

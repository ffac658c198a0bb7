"""Which entries of the journal become messages, and in what words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from steward.errors import StewardError
from steward.model.actions import Tell
from steward.model.actions.tell import OPERATORS
from steward.model.decision import Decision, Receipt, Ruling, Verdict
from steward.model.event import Event
from steward.model.finding import Finding, Severity
from steward.model.identity import DecisionId, JobId
from steward.model.job import Job, JobState
from steward.model.message import Message
from steward.store.journal import Journal, JournalEntry

__all__ = ["ALERT_EVENTS", "JobOwner", "JournalMessages", "ended_jobs", "failed_job", "job_path"]

ALERT_EVENTS = ("alert.firing", "alert.resolved")
FAULT_EVENT = "steward.fault"
FAILED_EVENT = "job.failed"
_KINDS = ("event", "finding", "verdict", "receipt")
# What the owner of a job hears of, with what to do about it. A start is no news.
_OWNERS_HEAR = {
    "preempt": "nothing to do: it goes on from its last checkpoint when there is room",
    "resume": "",
    "lend": "nothing to do: the GPUs come back when the job needs them",
    "call-back": "",
    "migrate": "",
    "move-job": "",
    "resize": "",
    "right-size": "ask for as much yourself next time",
    "reprioritise": "",
    "cap-power": "nothing to do: the limit is lifted if the job gets slower than you allow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOwner:
    """Whose a job is."""

    user: str = ""
    tenant: str = ""
    name: str = ""


class JournalMessages:
    """Turns entries into messages. `owner_of` knows jobs; what it does not know has no owner."""

    kinds = _KINDS

    def __init__(self, journal: Journal, owner_of: Callable[[JobId], JobOwner]) -> None:
        self._journal = journal
        self._owner_of = owner_of

    def of(self, entry: JournalEntry) -> Iterator[Message]:
        """Yield what people should know of an entry."""
        match entry.value:
            case Finding() as finding:
                yield self._of_finding(finding)
            case Verdict(ruling=Ruling.ASK) as verdict:
                yield from self._waiting(verdict, entry)
            case Receipt() as receipt if receipt.result != "begun":
                yield from self._carried_out(receipt, entry)
            case Event(kind=kind) as event if kind in ALERT_EVENTS:
                yield _alert(event, entry)
            case Event(kind=kind) as event if kind == FAULT_EVENT:
                yield _own_fault(event, entry)
            case Event(kind=kind) as event if kind == FAILED_EVENT:
                job = JobId(event.subject.removeprefix("job:"))
                yield failed_job(job, self._owner_of(job), event.t_s, event.text, source=entry.id)

    def _of_finding(self, finding: Finding) -> Message:
        owner = self._owner_of(finding.job) if finding.job is not None else JobOwner()
        advice = finding.treatment.advice if finding.treatment is not None else ""
        return Message(
            key=f"finding/{finding.rule}/{finding.subject}",
            t_s=finding.t_s,
            kind="finding",
            severity=finding.severity,
            title=finding.title,
            text="; ".join(each.says for each in finding.evidence),
            advice=advice,
            subject=finding.subject,
            job=finding.job,
            tenant=finding.tenant,
            user=owner.user,
            source=finding.id,
            path=f"/findings/{finding.id}",
        )

    def _waiting(self, verdict: Verdict, entry: JournalEntry) -> Iterator[Message]:
        decision = self._decision(verdict.decision)
        if decision is None:
            return
        yield Message(
            key=f"approval/{decision.id}",
            t_s=entry.t_s,
            kind="approval",
            severity=Severity.NOTE,
            title=f"waits for approval: {decision.action.sentence}",
            text=decision.because,
            advice=f"steward decisions approve {decision.id} (or reject)",
            subject=decision.subject,
            job=decision.action.affects,
            tenant=decision.tenant,
            source=decision.id,
            path=f"/decisions/{decision.id}",
        )

    def _carried_out(self, receipt: Receipt, entry: JournalEntry) -> Iterator[Message]:
        decision = self._decision(receipt.decision)
        if decision is None:
            return
        action, failed = decision.action, receipt.result == "failed"
        job = receipt.job or action.affects
        if isinstance(action, Tell) and not failed:
            yield self._advice(decision, action, entry)
        elif failed or (job is not None and action.type in _OWNERS_HEAR):
            owner = self._owner_of(job) if job is not None else JobOwner()
            yield Message(
                key=f"decision/{decision.id}/{receipt.result}",
                t_s=entry.t_s,
                kind="decision",
                severity=Severity.FAULT if failed else Severity.NOTE,
                title=f"{'failed: ' if failed else ''}{action.sentence}",
                text="; ".join(each for each in (receipt.text, decision.because) if each),
                advice="" if failed else _OWNERS_HEAR.get(action.type, ""),
                subject=decision.subject or (f"job:{job}" if job is not None else ""),
                job=job,
                tenant=decision.tenant,
                user=owner.user,
                source=decision.id,
                path=f"/decisions/{decision.id}",
            )

    def _advice(self, decision: Decision, action: Tell, entry: JournalEntry) -> Message:
        return Message(
            key=f"advice/{action.to}/{action.about}/{action.text}",
            t_s=entry.t_s,
            kind="advice",
            severity=Severity.NOTE,
            title=f"{action.about}: {action.text}",
            text=decision.because,
            subject=action.about,
            job=action.job,
            tenant=decision.tenant,
            user="" if action.to == OPERATORS else action.to,
            source=decision.id,
            path=f"/decisions/{decision.id}",
        )

    def _decision(self, id_: DecisionId) -> Decision | None:
        try:
            return self._journal.story(id_).decision
        except StewardError:  # lost to damage of the journal, which the journal itself reports
            return None


def failed_job(job: JobId, owner: JobOwner, t_s: float, why: str, *, source: str = "") -> Message:
    """Return what the owner of a failed job should know."""
    name = f" ({owner.name})" if owner.name else ""
    return Message(
        key=f"job/{job}/failed",
        t_s=t_s,
        kind="job",
        severity=Severity.FAULT,
        title=f"job {job}{name} failed",
        text=why,
        advice=f"steward jobs why {job}; steward jobs logs {job}",
        subject=f"job:{job}",
        job=job,
        tenant=owner.tenant or None,  # type: ignore[arg-type]  # a TenantId by its origin
        user=owner.user,
        source=source or f"job:{job}",
        path=job_path(job),
    )


def ended_jobs(jobs: tuple[Job, ...]) -> Iterator[Message]:
    """Yield what the owners of jobs that failed should know."""
    for job in jobs:
        if job.state is JobState.FAILED:
            why = job.history[-1].why if job.history else ""
            owner = JobOwner(user=job.user, tenant=job.tenant, name=job.name)
            yield failed_job(job.id, owner, job.end_s or 0.0, why)


def job_path(job: JobId) -> str:
    """Return the dashboard's page of a job."""
    return f"/jobs/{job}"


def _alert(event: Event, entry: JournalEntry) -> Message:
    over = event.kind == ALERT_EVENTS[1]
    return Message(
        key=f"alert/{event.subject}/{event.text}",
        t_s=event.t_s,
        kind="alert",
        severity=Severity.NOTE if over else Severity.FAULT,
        title=f"{'over: ' if over else ''}{event.text}",
        subject=event.subject,
        source=entry.id,
        resolved=over,
    )


def _own_fault(event: Event, entry: JournalEntry) -> Message:
    return Message(
        key=f"steward/{event.subject}/{event.text}",
        t_s=event.t_s,
        kind="steward",
        severity=Severity.FAULT,
        title=f"steward could not do something: {event.subject}",
        text=event.text,
        subject=event.subject,
        source=entry.id,
    )

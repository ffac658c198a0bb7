"""Questions to a running steward, and to the store of one that rests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import steward
from steward import __version__
from steward.config.ask_model import chat_model
from steward.config.local_jobs import LocalJobRunner
from steward.config.plugs import schedulers
from steward.config.settings import Settings
from steward.model.decision import Autonomy
from steward.model.managed_job import ManagedJob
from steward.model.planning.plan import Plan
from steward.model.view import ClusterView
from steward.planning.question import PlanQuestion
from steward.ports import Policy
from steward.questions.asking import answer_by_grammar
from steward.questions.documentation import Section, read_sections
from steward.questions.facts import Answer
from steward.questions.ledger import Ledger
from steward.questions.records import Gateway, JobRecord, Records
from steward.questions.writing import Assistant
from steward.service.job_outlook import JobOutlook
from steward.service.live_state import LiveState
from steward.store.job_search import JobQuery
from steward.store.journal import Journal
from steward.store.telemetry import Telemetry

__all__ = ["LiveQuestions", "Questions", "resting_questions"]

_JOBS_OF_USER = 5
_DOCS = Path(steward.__file__).parents[2] / "docs"  # beside the sources; a wheel has none


class Questions:
    """Answers questions over records that are looked up for each; for any thread."""

    def __init__(self, settings: Settings, records: Callable[[], Records]) -> None:
        self._records = records
        model = chat_model(settings.ask)
        self._assistant = (
            None if model is None else Assistant(model=model, within_s=settings.ask.within_s)
        )

    def records(self) -> Records:
        """Return what is known at this moment."""
        return self._records()

    def ask(self, question: str) -> Answer:
        """Return an answer with its sources."""
        records = self.records()
        if self._assistant is None:
            return answer_by_grammar(records, question)
        return self._assistant.answer(records, question)


class LiveQuestions(Questions):
    """Questions to the steward of this process."""

    def __init__(
        self, live_state: LiveState, outlook: JobOutlook, jobs: LocalJobRunner | None = None
    ) -> None:
        super().__init__(live_state.settings, self._now)
        self._live_state = live_state
        self._outlook = outlook
        self._jobs = jobs
        self._lock = threading.Lock()
        assumptions = live_state.settings.savings.assumptions
        self._ledger = Ledger(live_state.loop.journal, assumptions)
        self._documentation: Sequence[Section] | None = None

    def warm_up(self) -> None:
        """Read the journal's past, so that the first question need not wait for it."""
        self._ledger.catch_up()

    def _now(self) -> Records:
        live = self._live_state
        snapshot, view = live.refresh(), live.loop.view
        self._ledger.catch_up()
        return Records(
            site=live.settings.site.name,
            now_s=view.t_s,
            ledger=self._ledger,
            telemetry=live.loop.telemetry,
            view=view,
            cluster=snapshot.cluster,
            scheduler=_scheduler(live),
            stops=live.settings.loop.autonomy is Autonomy.AUTO,
            status=snapshot.status,
            version=__version__,
            rules=tuple((row.standing, row.stats) for row in snapshot.rules),
            gateways=tuple(
                Gateway(url=each.url, snapshot=each.snapshot, fault=each.fault)
                for each in live.serving.gateways
            ),
            jobs=self._found,
            plan=lambda asked: self._planned(asked, view.t_s),
            documentation=self._sections(),
            simulated=live.simulated,
        )

    def _planned(self, asked: PlanQuestion, now_s: float) -> tuple[Plan, tuple[str, ...]]:
        return self._outlook.planned(asked, now_s)

    def _found(self, *, id_: str = "", user: str = "") -> Sequence[JobRecord]:
        if self._jobs is None:
            return ()
        store = self._jobs.store
        if id_:
            job = store.find(id_)
            return () if job is None else (_record(job),)
        found, _ = store.search(JobQuery(user=user, limit=_JOBS_OF_USER))
        return tuple(map(_record, found))

    def _sections(self) -> Sequence[Section]:
        with self._lock:
            if self._documentation is None:
                self._documentation = read_sections(_DOCS)
            return self._documentation


def resting_questions(settings: Settings, journal: Journal, now_s: float) -> Questions:
    """Return questions to a store: of the moment nothing is known, of the past all."""
    ledger = Ledger(journal, settings.savings.assumptions)
    ledger.catch_up()
    outlook = JobOutlook(settings)
    folder = settings.store.telemetry_folder
    records = Records(
        site=settings.site.name,
        now_s=now_s,
        ledger=ledger,
        telemetry=Telemetry(folder, keep_days=None) if folder.is_dir() else None,
        version=__version__,
        plan=lambda asked: outlook.planned(asked, now_s),
        documentation=read_sections(_DOCS),
    )
    return Questions(settings, lambda: records)


def _scheduler(live: LiveState) -> Policy[ClusterView] | None:
    names = schedulers()
    return next((each for each in live.loop.stages.policies if each.name in names), None)


def _record(job: ManagedJob) -> JobRecord:
    return JobRecord(
        id=job.id,
        name=job.spec.name,
        user=job.spec.user,
        tenant=job.spec.tenant,
        state=job.state.value,
        since_s=job.events[-1].t_s,
        gpus=job.spec.shape.gpus,
        exit_code=job.exit_code,
    )

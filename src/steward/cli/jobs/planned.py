"""`steward jobs submit --plan`: what a plan chose, and a record by which the job is followed."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from steward.cli.jobs.engines import JobEngine, SubmitRequest, Submitted
from steward.cli.jobs.submission import read_script
from steward.cli.options import choose_site, read_main_draft
from steward.cli.output import print_note
from steward.cli.words import span
from steward.clients.job_directives import exported, sbatch_directives
from steward.errors import StewardError, TemporaryError

if TYPE_CHECKING:
    from steward.store.followed_jobs import FollowedJobs, Program

__all__ = ["Planned", "by_plan", "steps_of"]

OLD_S = 6 * 3600.0  # after this, queues and the deadline are others than the plan thought


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A choice of a plan: where it is submitted, with what, and where its job is followed."""

    file: Path
    choice: int
    engine: str
    options: dict[str, str]
    store: FollowedJobs

    def submit(
        self, engine: JobEngine, request: SubmitRequest, *, steps: float | None
    ) -> Submitted:
        """Write the job down, submit it, and note what it is called there.

        Whatever ends this in between, the job is submitted once: its token is written down first.
        """
        from steward.planning.following.submitted import followed_from
        from steward.planning.submission import read_plan, read_submission

        id_ = _new_id()
        made = read_submission(self.file, self.choice)
        job, catalog = followed_from(read_plan(self.file), self.choice, made, id_=id_, steps=steps)
        token = request.given.get("token") or job.runs[0].token
        job = job.with_run(0, replace(job.runs[0], token=token))
        self.store.add(job, _program(request), catalog)
        given = {**request.given, "token": token}
        try:
            done = engine.submit(replace(request, given=given), dry_run=False)
        except TemporaryError as fault:
            hint = f"it is followed as {id_}, and submitted when its site answers"
            raise TemporaryError(fault.problem, where=fault.where, hint=hint) from fault
        except StewardError:
            self.store.drop(id_)
            raise
        self.store.note_submitted(id_, str(done.record["id"]))
        done.record["followed"] = id_
        print_note(f"followed as {id_}: `steward jobs plans` shows how it does")
        if not self.store.is_followed():
            print_note("nobody follows it now: `steward up` does, or `steward jobs follow`")
        return done


def by_plan(
    file: Path, choice: int, engine: str | None, config: Path | None, data: Path | None
) -> Planned:
    """Return a choice of a plan, and make its site the one of this command."""
    from steward.planning.submission import read_submission
    from steward.store.followed_jobs import FollowedJobs

    found = read_submission(file, choice)
    if engine is not None and engine != found.engine:
        raise StewardError(
            f"choice {choice}, {found.place}, is for the engine {found.engine}",
            where=f"--engine {engine}",
            hint="leave --engine out, or choose another by --choice",
        )
    folder = read_main_draft(config, data).settings.store.path / "followed"
    choose_site(found.site)
    old_s = time.time() - found.planned_s
    if old_s > OLD_S:
        print_note(f"the plan is {span(old_s)} old: plan anew if queues or prices have changed")
    print_note(f"choice {choice} of the plan: {found.place}")
    return Planned(
        file=file,
        choice=choice,
        engine=found.engine,
        options=dict(found.options),
        store=FollowedJobs(folder),
    )


def steps_of(text: str | None) -> float | None:
    """Return how many steps all of the work is."""
    if text is None:
        return None
    try:
        steps = float(text)
    except ValueError:
        steps = -1.0
    if not 0 < steps < float("inf"):
        hint = "write how many steps all of the work is, as 100000"
        raise StewardError(f"'{text}' is no number of steps", where="--steps", hint=hint)
    return steps


def _new_id() -> str:
    """Return an id; of two jobs, the later one's is the greater."""
    return f"p{int(time.time() * 1000):011x}{secrets.token_hex(2)}"


def _program(request: SubmitRequest) -> Program:
    from steward.store.followed_jobs import Program

    given: Mapping[str, str] = request.given
    script, argv = "", list(request.command)
    options = dict(given)
    if not request.as_command:
        script, argv = read_script(Path(argv[0])), argv[1:]
        options = {**sbatch_directives(script, request.command[0]), **options}
    return Program(
        argv=tuple(argv),
        script=script,
        folder=str(Path(options.get("chdir") or Path.cwd()).expanduser().absolute()),
        environment=exported(options.get("export", "ALL"), os.environ),
        options=options,
        image=given.get("image", ""),
        volumes=tuple(request.volumes),
    )

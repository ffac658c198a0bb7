"""Operations on jobs and GPUs: start, share, move, leave."""

from __future__ import annotations

from steward.decide.scheduling.colocation.interface import (
    ColocationChoice,
    Move,
    Profile,
    Share,
    StartAlone,
)
from steward.sim.lab.colocation.gpu_pools import HeldGpus
from steward.sim.lab.colocation.inputs import ReplayInputs
from steward.sim.lab.colocation.jobs import Jobs
from steward.sim.lab.colocation.running import Agenda, Gang, PairEventOrder, Running

__all__ = ["Operations"]


class Operations:
    """Carries choices out. `gangs` are all that hold GPUs, `paired` those with two jobs."""

    def __init__(self, stage: ReplayInputs, jobs: Jobs, running: Running, agenda: Agenda) -> None:
        self._jobs, self._running, self._agenda = jobs, running, agenda
        self._places, self._policy = stage.places, stage.policy
        # after so much run time it is known how a job bears sharing
        self._profile_s = stage.profiling.time_s if stage.profiling is not None else 0.0
        self.gangs: dict[Gang, None] = {}  # oldest first
        self.paired: dict[Gang, None] = {}
        self.moves = 0

    def carry_out(self, choice: ColocationChoice, now_s: float) -> None:
        """Do what the policy has chosen."""
        if isinstance(choice, StartAlone):
            self._start(choice.job, now_s)
        elif isinstance(choice, Profile):
            self._profile(choice.job, now_s)
        elif isinstance(choice, Share):
            self._share(choice, now_s)
        elif isinstance(choice, Move):
            self._move(choice, now_s)
        else:
            gang = self.gang_of(choice.job)
            gang.takes_turns = True
            self._running.pace(gang, now_s)

    def gang_of(self, job: int) -> Gang:
        """Return the gang of a job that runs."""
        gang = self._running.gang[job]
        assert gang is not None  # noqa: S101 - policies choose among those that run
        return gang

    def _start(self, job: int, now_s: float) -> None:
        jobs = self._jobs
        jobs.waiting.drop(jobs.kind[job], jobs.entry[job])
        held = self._places.hold(jobs.want[job])
        self._run(job, held, now_s)
        jobs.be_alone(job, held.kind)

    def _profile(self, job: int, now_s: float) -> None:
        self._jobs.stop_waiting_for_profiling(job)
        self._run(job, self._places.hold(self._jobs.want[job], profiling=True), now_s)

    def _run(self, job: int, held: HeldGpus, now_s: float) -> None:
        gang = Gang(held, now_s, job)
        self.gangs[gang] = None
        self._running.begin(job, gang)
        self._running.pace(gang, now_s)
        self._begun(job, now_s)

    def _begun(self, job: int, now_s: float) -> None:
        self._jobs.start(job, now_s)
        if not self._jobs.known[job]:
            due_s = now_s + self._profile_s
            self._agenda.add(due_s, PairEventOrder.PROFILED, job, self._jobs.starts[job])

    def _share(self, choice: Share, now_s: float) -> None:
        jobs, job, partner = self._jobs, choice.job, choice.partner
        jobs.waiting.drop(jobs.kind[job], jobs.entry[job])
        jobs.be_alone_no_more(partner)
        gang = self.gang_of(partner)
        self._places.join(jobs.want[job], gang.held, 1)
        gang.set_jobs(partner, job)
        gang.takes_turns = choice.takes_turns
        self.paired[gang] = None
        self._running.begin(job, gang)
        self._running.pace(gang, now_s)
        self._begun(job, now_s)
        if self._policy.trial_s > 0.0 and not gang.takes_turns:
            self._agenda.add(now_s + self._policy.trial_s, PairEventOrder.TRIED, partner, job)

    def _move(self, choice: Move, now_s: float) -> None:
        """Take the new GPUs before the old ones are given back."""
        jobs, job = self._jobs, choice.job
        want, price_s = jobs.want[job], self._policy.move_s
        on = self._places.hold(want) if choice.node < 0 else self._places.hold_on(want, choice.node)
        self.leave(job, now_s)
        self._running.left_s[job] += price_s
        jobs.lost_s[job] += price_s
        self.moves += 1
        gang = Gang(on, now_s, job)
        self.gangs[gang] = None
        self._running.begin(job, gang)
        self._running.pace(gang, now_s)
        jobs.be_alone(job, on.kind)

    def leave(self, job: int, now_s: float) -> HeldGpus:
        """Take a job off its GPUs and return them; a partner goes on alone, if there is one."""
        jobs = self._jobs
        gang = self.gang_of(job)
        shared, held = gang.other >= 0, gang.held
        if not shared and not held.profiling:
            jobs.be_alone_no_more(job)
        self._running.leave(job, now_s)
        if not shared:
            del self.gangs[gang]
            self._places.give(held)
            return held
        del self.paired[gang]
        self._places.join(jobs.want[job], held, -1)
        held.want = jobs.want[gang.one]  # whoever stays gives everything back in the end
        self._running.pace(gang, now_s)
        jobs.be_alone(gang.one, held.kind)
        return held

"""Who may see and change which job, and as which account somebody's jobs run.

Everybody sees that a job is there: its name, user, state and GPUs. What it runs, its logs and how
it failed are for its owner and for operators. People change their own jobs, operators all.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

from fastapi import Request

from steward.clients.local_jobs.accounts import refuse_if_unreachable
from steward.config.local_jobs import LocalJobRunner
from steward.errors import PermanentError
from steward.model.managed_job import ManagedJob
from steward.service.authentication import User
from steward.service.failures import RefusedError
from steward.service.local_users import PeerCredentials

__all__ = ["Asker"]

LOWEST = -10


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Whoever sent a request. `account` is None for one who has none on this machine.

    The kernel names the account on the Unix socket; a token's is the one in the settings. Whoever
    started this steward has its account, unless that is root's.
    """

    user: User
    account: pwd.struct_passwd | None

    @classmethod
    def of(cls, request: Request, runner: LocalJobRunner) -> Asker:
        """Return who sent a request."""
        user: User = request.state.user
        peer: PeerCredentials | None = getattr(request.state, "peer", None)
        if peer is not None and getattr(request.state, "by_peer", False):
            return cls(user=user, account=_entry(peer))
        return cls.of_user(user, runner)

    @classmethod
    def of_user(cls, user: User, runner: LocalJobRunner) -> Asker:
        """Return the owner of a token or of an open page, whom no kernel vouches for."""
        name = runner.settings.jobs.token_accounts.get(user.name, "")
        if not name and user.started_service and os.geteuid() != 0:
            return cls(user=user, account=pwd.getpwuid(os.geteuid()))
        try:
            return cls(user=user, account=pwd.getpwnam(name) if name else None)
        except KeyError:
            return cls(user=user, account=None)

    def sees_all_of(self, job: ManagedJob) -> bool:
        """Return whether what a job runs may be shown."""
        return self.user.may_decide or self._owns(job)

    def _owns(self, job: ManagedJob) -> bool:
        return self.account is not None and job.spec.uid == self.account.pw_uid

    def check_own(self, jobs: tuple[ManagedJob, ...]) -> None:
        """Raise if one of these jobs is not theirs to change or to read."""
        for job in jobs:
            if not self.sees_all_of(job):
                problem = f"it belongs to {job.spec.user}"
                raise RefusedError(403, problem, where=f"job {job.id}", hint="ask its owner")

    def priority_of(self, priority: int, deadline_s: float | None) -> int:
        """Return the priority that a job gets; raise if it would go before others' by right.

        Operators choose. Others lower theirs, to `LOWEST` at most: policies take many different
        numbers for those that Slurm computes, and would go by none of them.
        """
        if self.user.may_decide:
            return priority
        wanted = f"a priority above 0, here {priority}" if priority > 0 else "a deadline"
        if priority > 0 or deadline_s is not None:
            raise RefusedError(
                403,
                f"only operators may give a job {wanted}",
                where="priority" if priority > 0 else "deadline_s",
                hint="leave it out; a negative priority lets others go first",
            )
        return max(priority, LOWEST)

    def account_for(self, runner: LocalJobRunner) -> pwd.struct_passwd:
        """Return the account as which their jobs are run, or raise with the reason."""
        if self.account is None:
            name = self.user.name
            raise RefusedError(
                403,
                f"'{name}' is no account of this machine",
                where="jobs",
                hint=f'an administrator sets it: [jobs.token_accounts] "{name}" = "ACCOUNT"',
            )
        if runner.runs_for_others:
            self._check_reach(self.account, runner)
        elif self.account.pw_uid != os.geteuid():
            mine = pwd.getpwuid(os.geteuid()).pw_name
            raise RefusedError(
                403,
                f"this steward runs as {mine} and can run jobs of {mine} alone",
                where="jobs",
                hint="steward has to run as root to run jobs of several accounts",
            )
        return self.account

    @staticmethod
    def _check_reach(account: pwd.struct_passwd, runner: LocalJobRunner) -> None:
        if account.pw_uid == 0:
            return
        try:
            refuse_if_unreachable(runner.engine.folder, account.pw_uid, account.pw_gid)
        except PermanentError as fault:
            raise RefusedError(409, fault.problem, where=fault.where, hint=fault.hint) from fault


def _entry(peer: PeerCredentials) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(peer.uid)
    except KeyError:
        name = f"uid {peer.uid}"
        return pwd.struct_passwd((name, "x", peer.uid, peer.gid, "", "/", "/bin/sh"))

"""What this account may do in a Slurm: probed, never assumed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm.rest_control import RestControl
from steward.errors import PermanentError

__all__ = ["Level", "Rights", "probe_rights"]


class Level(Enum):
    """Slurm's three ranks."""

    OWNER = "owner"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"

    @property
    def rank(self) -> int:
        return list(Level).index(self)


_WORDS = {
    Level.OWNER: "it changes its own jobs alone: release, requeue, signal, nice from 0 on, fewer "
    "nodes; other people's jobs and negative nice need an operator, drains an administrator",
    Level.OPERATOR: "it changes jobs of all users, their priorities too; it may not drain nodes, "
    "and keeps new jobs from them by reservations",
    Level.ADMINISTRATOR: "it changes jobs of all users and drains nodes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """The rank of an account, and how that is known."""

    user: str
    level: Level
    why: str

    def may_change(self, owner: str) -> bool:
        """Return whether jobs of this owner may be changed."""
        return owner == self.user or self.level is not Level.OWNER

    def at_least(self, level: Level) -> bool:
        """Return whether the account has this rank or a higher one."""
        return self.level.rank >= level.rank

    @property
    def sentence(self) -> str:
        """Say it for people."""
        return f"as {self.user}, {self.level.value} ({self.why}), {_WORDS[self.level]}"


def probe_rights(slurm: SlurmControl | RestControl) -> Rights:
    """Return the rank of the account that acts: of this process, or of slurmrestd's token."""
    user = slurm.user
    if why := slurm.superuser():
        return Rights(user=user, level=Level.ADMINISTRATOR, why=why)
    try:
        named = slurm.admin_level(user)
    except PermanentError as fault:
        why = f"accounting does not answer: {fault.problem}"
        return Rights(user=user, level=Level.OWNER, why=why)
    levels = {"operator": Level.OPERATOR, "administrator": Level.ADMINISTRATOR}
    level = levels.get(named.lower(), Level.OWNER)
    why = f"AdminLevel={named or 'None'}" if named else "unknown to accounting"
    return Rights(user=user, level=level, why=why)

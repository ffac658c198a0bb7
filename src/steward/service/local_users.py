"""Users of this machine, by the credentials that the kernel vouches for on a Unix socket.

The account that runs steward and root are administrators; others have the role that
`[access]` gives them, or none.
"""

from __future__ import annotations

import grp
import os
import pwd
import socket
import struct
from dataclasses import dataclass

from steward.config.settings import AccessSettings
from steward.service.authentication import User
from steward.service.failures import RefusedError
from steward.store.tokens import Role

__all__ = ["LocalUsers", "PeerCredentials", "account_name", "peer_of"]

_UCRED = struct.Struct("3i")
ROOT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerCredentials:
    """The account of the process at the other end of a Unix socket."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> PeerCredentials | None:
    """Return the credentials of a connection's other end; None for one over the network."""
    if connection.family != socket.AF_UNIX:
        return None
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, gid = _UCRED.unpack(packed)
    return PeerCredentials(pid=pid, uid=uid, gid=gid)


class LocalUsers:
    """Roles of this machine's accounts. `owner` is the uid that runs steward."""

    def __init__(self, settings: AccessSettings, *, owner: int | None = None) -> None:
        self._settings = settings
        self._owner = os.getuid() if owner is None else owner

    def user(self, peer: PeerCredentials) -> User:
        """Return the user of an account; 403 for one without a role."""
        name = account_name(peer.uid)
        role = self._role(peer, name)
        if role is None:
            raise RefusedError(
                403,
                f"the account '{name}' has no role here",
                where="socket",
                hint=f'an administrator sets it: [access] users = {{ {name} = "viewer" }}',
            )
        return User(name=name, role=role)

    def _role(self, peer: PeerCredentials, name: str) -> Role | None:
        given = self._settings.users.get(name)
        if given is not None:
            return Role(given)
        if peer.uid in (ROOT, self._owner):
            return Role.ADMIN
        if self._settings.group and _is_member(name, peer.gid, self._settings.group):
            return Role(self._settings.group_role)
        return None


def account_name(uid: int) -> str:
    """Return the name of an account, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _is_member(name: str, gid: int, group: str) -> bool:
    try:
        wanted = grp.getgrnam(group).gr_gid
    except KeyError:
        return False
    return wanted == gid or wanted in os.getgrouplist(name, gid)

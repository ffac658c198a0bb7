"""Accounts of this machine as jobs need them: environment, groups, and what they can reach."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from steward.errors import PermanentError, StewardError

__all__ = ["account_environment", "groups_of", "refuse_if_shared", "refuse_if_unreachable"]


def account_environment(uid: int) -> dict[str, str]:
    """Return what a login of an account would set."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return {"PATH": os.defpath, "HOME": "/"}
    return {
        "HOME": entry.pw_dir,
        "USER": entry.pw_name,
        "LOGNAME": entry.pw_name,
        "SHELL": entry.pw_shell,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
    }


def groups_of(uid: int, gid: int) -> list[int]:
    """Return all groups of an account, also of a directory service that lists no groups."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return [gid]
    return sorted({gid, *os.getgrouplist(name, gid)})


def refuse_if_unreachable(folder: Path, uid: int, gid: int) -> None:
    """Raise if an account cannot reach the folder that its jobs work in."""
    groups = {gid, *groups_of(uid, gid)}
    for each in folder.absolute().parents:
        if each.exists() and not _may_pass(each.stat(), uid, groups):
            raise PermanentError(
                f"your jobs cannot reach {folder}: {each} is closed to you",
                where="jobs.folder",
                hint="an administrator names a folder below /var/lib as `jobs.folder`",
            )


def refuse_if_shared(folder: Path) -> None:
    """Raise if somebody else could rename what is in the folder of all jobs, or owns it.

    Claims and exit statuses in it are believed, and its mode is changed.
    """
    try:
        status = folder.stat()
    except FileNotFoundError:
        return  # it will be ours
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if status.st_uid != os.geteuid() or others or not stat.S_ISDIR(status.st_mode):
        raise StewardError(
            "it is not a folder of steward's own, that nobody else may write",
            where=f"jobs.folder {folder}",
            hint=f"name one that is not there yet, as {folder / 'steward-jobs'}, or mend its owner "
            "and mode (chmod go-w)",
        )


def _may_pass(status: os.stat_result, uid: int, groups: set[int]) -> bool:
    if status.st_uid == uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid in groups:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)

"""The job that a process or a control group belongs to: cgroup v1, v2 and hybrid.

A path is that of the control group inside its hierarchy, as /proc/PID/cgroup has it:
`/slurm/uid_0/job_812/step_0`. With v1, jobs may have groups under some controllers and not under
others; they are distinguished in the hierarchy where most of them have one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from steward.model.identity import JobId

__all__ = ["UNIFIED", "CgroupReader", "job_of"]

UNIFIED = ""  # cgroup v2 has one hierarchy and no name for it

# The most telling first: a Slurm job inside a pod is that job, a container of a pod is that pod.
# Of two of a kind the outer one counts, for a job may make groups of any name below its own.
_KINDS = (
    ("", re.compile(r"/[^/]*slurm[^/]*(?:/uid_\d+)?/job_(\d+)(?=/|$)")),
    ("", re.compile(r"/steward-job-([^/]+)\.scope(?=/|$)")),
    ("pod:", re.compile(r"kubepods.*?[/-]pod([0-9a-f]{8}[0-9a-f_-]{24,28})(?:\.slice)?(?=/|$)")),
    ("container:", re.compile(r"(?<!conmon)[/:-]([0-9a-f]{12})[0-9a-f]{52}(?:\.scope)?(?=/|$)")),
)
_STEP = re.compile(r"/job_(\d+)/step_(\d+)(?=/|$)")
_MOST_ENVIRON = 2**20
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")  # systemd writes `a-b` as `a\x2db` in names of units
# Where no job is yet: controllers that engines like to use, then any other.
_PREFERRED = ("memory", "cpuacct", "cpu", "freezer", "cpuset", "pids", "devices", "blkio")
_LEAF_LINKS = 2  # a folder without folders in it has two links: its name and `.`


def job_of(path: str) -> JobId | None:
    """Return the job that a control group belongs to, or None where it belongs to no job.

    >>> job_of("/slurm/uid_0/job_812/step_0"), job_of("/user.slice/run-u12.scope")
    ('812', None)
    """
    return _rank_and_job(path)[1]


def _rank_and_job(path: str) -> tuple[int, JobId | None]:
    """Return how telling a path is (0 is most) and its job."""
    for rank, (prefix, kind) in enumerate(_KINDS):
        found = kind.search(path)
        if found:
            return rank, JobId(prefix + _name(prefix, found.group(1)))
    return len(_KINDS), None


def _name(prefix: str, text: str) -> str:
    if prefix == "pod:":
        return text.replace("_", "-")
    return _ESCAPED.sub(lambda code: chr(int(code.group(1), 16)), text)


class CgroupReader:
    """The control groups of this machine. `root` and `proc` stand in for the real ones in tests."""

    def __init__(self, root: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc")) -> None:
        self.root = root
        self._proc = proc

    def hierarchies(self) -> Mapping[str, Path]:
        """Return the folder of each hierarchy by its controllers; v2's is called `UNIFIED`."""
        if (self.root / "cgroup.controllers").exists():
            return MappingProxyType({UNIFIED: self.root})
        found: dict[str, Path] = {}
        for folder in _folders(self.root):
            if (folder / "cgroup.controllers").exists():
                found[UNIFIED] = folder
            elif (folder / "cgroup.procs").exists():
                found.update(dict.fromkeys(folder.name.split(","), folder))
        return MappingProxyType(found)

    def hierarchy(self) -> str:
        """Return the hierarchy that distinguishes jobs now: `UNIFIED`, or a controller."""
        return self._best()[0]

    def of_pid(self, pid: int) -> str:
        """Return the control group that names the job of a process; empty if unknown."""
        try:
            text = (self._proc / str(pid) / "cgroup").read_text(errors="replace")
        except OSError:
            return ""  # it has ended
        lines = [line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2]
        paths = [path.removesuffix(" (deleted)") for _, _, path in lines]
        # Where none names a job: the deepest, since most are in the root of what they do not use.
        return min(
            paths, key=lambda path: (_rank_and_job(path)[0], -path.count("/"), path), default=""
        )

    def borrower_of_pid(self, pid: int) -> JobId | None:
        """Return the job that a process belongs to inside another one's allocation; None: neither.

        steward names it in the environment of the step that it runs (`loan_run.py`). Whoever writes
        that there themselves only divides what their own job uses.
        """
        step = _STEP.search(self.of_pid(pid))
        if step is None:
            return None
        try:
            with (self._proc / str(pid) / "environ").open("rb") as opened:
                words = opened.read(_MOST_ENVIRON).decode("utf-8", "replace").split("\0")
        except OSError:
            return None  # it has ended, or is not ours to read
        given = dict(word.partition("=")[::2] for word in words)
        to, where = given.get("STEWARD_LENT_TO", ""), given.get("STEWARD_LENT_STEP")
        return JobId(to) if to.isdecimal() and where == f"{step[1]}.{step[2]}" else None

    def paths(self) -> dict[str, JobId]:
        """Return all control groups that belong to jobs now, those inside others included."""
        return self._best()[1]

    def roots(self) -> dict[JobId, tuple[str, ...]]:
        """Return the outermost control groups of each job, wherever it has any.

        They count for all groups inside. A job has more than one only where several daemons of
        an engine share a machine.
        """
        found: dict[JobId, set[str]] = {}
        for folder in {each.resolve() for each in self.hierarchies().values()}:
            for path, job in _jobs_in(folder).items():
                if job_of(path.rpartition("/")[0]) != job:
                    found.setdefault(job, set()).add(path)
        return {job: tuple(sorted(found[job])) for job in sorted(found)}

    def ids(self) -> dict[int, str]:
        """Return the path of every control group by its id, in the hierarchy that has the jobs.

        The id is the inode of its folder, which is what the kernel calls it too.
        """
        folder = self.hierarchies().get(self.hierarchy())
        return {} if folder is None else {inode: path for path, inode in _walk(folder)}

    def _best(self) -> tuple[str, dict[str, JobId]]:
        """Return the hierarchy with most jobs in it, and its groups that belong to jobs."""
        seen: dict[Path, dict[str, JobId]] = {}
        best: tuple[str, dict[str, JobId]] = (UNIFIED, {})
        known = self.hierarchies()
        for name in sorted(known, key=_preference):
            folder = known[name].resolve()  # `cpu` may be a link to `cpu,cpuacct`
            if folder in seen:
                continue
            seen[folder] = found = _jobs_in(folder)
            if len(seen) == 1 or len(set(found.values())) > len(set(best[1].values())):
                best = (name, found)
        return best


def _preference(name: str) -> tuple[int, str]:
    at = _PREFERRED.index(name) if name in _PREFERRED else len(_PREFERRED)
    return at, name


def _jobs_in(folder: Path) -> dict[str, JobId]:
    jobs = ((path, job_of(path)) for path, _ in _walk(folder))
    return {path: job for path, job in jobs if job is not None}


def _walk(folder: Path) -> Iterator[tuple[str, int]]:
    """Return each control group below a folder, and its inode. They may vanish at any time."""
    waiting = [""]
    top = str(folder)
    while waiting:
        path = waiting.pop()
        try:
            state = os.stat(top + path)  # noqa: PTH116 - a Path for each of thousands is slow
            yield path or "/", state.st_ino
            # A group has a hundred files; looking at them is what costs, so leaves are left out.
            # File systems that do not count folders as links have 1.
            if state.st_nlink != _LEAF_LINKS:
                waiting += [f"{path}/{name}" for name in _names(top + path)]
        except OSError:
            continue


def _names(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(each for each in root.iterdir() if each.is_dir())
    except OSError:
        return []

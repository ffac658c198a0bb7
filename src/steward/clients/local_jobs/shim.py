"""Runs one attempt of a job and outlives steward: `python -I -S shim.py ATTEMPT_FOLDER`.

Standard library only, nothing of steward. It claims the attempt (`claim.json`, by link, so that
one process alone can), runs the job as its user, copies its output into log files with a size cap,
enforces the time limit by the monotonic clock, ends whatever the job leaves behind, and writes
`exit.json` by rename. Who claimed late or second runs nothing.

It is one file, although it starts, copies and ends, because it is run by its path: a steward that
is upgraded or removed while jobs run must not take away a module that a shim imports later.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import selectors
import signal
import stat
import sys
import time
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CHUNK_BYTES = 1 << 20
NULL_DEVICE = os.makedev(1, 3)
FAILED_TO_START = 127
NOT_STARTED = "it could not be started"
TICK_S = 0.5
DRAIN_S = 2.0
RETRY_S = 5.0
OUT_OF_MEMORY_FIRST = "500"  # of 1000


def main() -> int:
    """Run the attempt in the folder that the command line names, unless it is claimed."""
    folder = sys.argv[1]
    os.umask(0o077)
    with open(os.path.join(folder, "launch.json"), "rb") as file:
        launch = json.load(file)
    _detach()
    if not claim(folder, {"result": "claimed", "token": launch["token"], **identity(os.getpid())}):
        return 0
    try:
        record = _Run(launch).run()
    except Exception as fault:  # noqa: BLE001 - whatever happens, the attempt has an end that can be read
        record = {
            "exit_code": FAILED_TO_START,
            "signal": None,
            "why": "its shim failed",
            "detail": repr(fault),
        }
    while True:
        try:
            write_record(os.path.join(folder, "exit.json"), record)
        except OSError as fault:
            if fault.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            time.sleep(RETRY_S)  # a full disk must not make a finished job a lost one
        else:
            return 0


def identity(pid: int) -> dict[str, Any]:
    """Return what tells a process from all others: a pid alone is used again."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return {"boot": boot, "pid": pid, "ticks": start_ticks(pid)}


def start_ticks(pid: int) -> int:
    """Return when a process began, in the kernel's ticks since boot."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b") ")[2].split()[19])


def claim(folder: str, record: dict[str, Any]) -> bool:
    """Create `claim.json` whole and durably; return False if somebody else has."""
    draft = os.path.join(folder, f".claim.{os.getpid()}.{time.monotonic_ns()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(handle)
    try:
        os.link(draft, os.path.join(folder, "claim.json"))
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)
    sync_folder(folder)
    return True


def write_record(path: str, record: dict[str, Any]) -> None:
    """Replace a file by rename, durably."""
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.tmp")
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Make new names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _detach() -> None:
    """Leave steward's session and descriptors; adopt whatever the job forks away."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    os.chdir("/")
    os.closerange(3, 4096)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _reset_signals() -> None:
    """Undo what we ignore, and what steward was started with: a job would inherit it."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class _Log:
    """A file that grows to a size and no further; a full disk drops output, too."""

    def __init__(self, handle: int, most_bytes: int) -> None:
        self.handle = handle
        self.left = most_bytes
        self.dropped = 0
        self.fault = ""

    def write(self, data: bytes) -> None:
        kept = data[: max(self.left, 0)]
        try:
            while kept:
                done = os.write(self.handle, kept)
                kept, data, self.left = kept[done:], data[done:], self.left - done
        except OSError as fault:
            self.fault = fault.strerror or str(fault)
        if data and not self.dropped:
            why = self.fault or "the log has reached its size limit"
            self._note(f"\nsteward: {why}; further output is dropped\n")
        self.dropped += len(data)

    def _note(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a full disk: exit.json has how much was dropped
            os.write(self.handle, text.encode())


class _Run:
    """One run of a job from fork to the last of its processes."""

    def __init__(self, launch: dict[str, Any]) -> None:
        self.launch = launch
        self.cgroup: str = launch.get("cgroup") or ""
        self.selector = selectors.DefaultSelector()
        self.logs: dict[int, _Log] = {}
        self.deadlines: list[tuple[float, str]] = []
        self.why = ""
        self.status: int | None = None
        self.left_over = 0

    def run(self) -> dict[str, Any]:
        began_s, began = time.time(), time.monotonic()
        try:
            child = self._start()
        except _RefusedError as fault:
            return self._record(began_s, began, exit_code=fault.code, detail=str(fault))
        self.pid = child
        self._set_deadlines(began)
        self._wait()
        self._end_left_over()
        self._drain()
        status = self.status or 0
        sign = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        return self._record(began_s, began, exit_code=code, sign=sign)

    def _record(
        self,
        began_s: float,
        began: float,
        *,
        exit_code: int | None,
        sign: int | None = None,
        detail: str = "",
    ) -> dict[str, Any]:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        passed_s = time.monotonic() - began
        return {
            "exit_code": exit_code,
            "signal": sign,
            "why": NOT_STARTED if detail else self.why,
            "detail": detail,
            "began_s": began_s,
            "ended_s": began_s + passed_s,
            "seconds": passed_s,
            "cpu_s": used.ru_utime + used.ru_stime,
            "peak_memory_bytes": self._peak() or used.ru_maxrss * 1024,
            "out_of_memory": self._oom(),
            "left_over": self.left_over,
            "dropped_bytes": sum(log.dropped for log in {*self.logs.values()}),
            "dropped_why": next((log.fault for log in self.logs.values() if log.fault), ""),
        }

    # -- starting --------------------------------------------------------------------------------

    def _start(self) -> int:
        out = self._open_log(self.launch["output"])
        err = self._open_log(self.launch["error"]) if self.launch.get("error") else out
        pipes = {stream: os.pipe() for stream in ({1, 2} if err is not out else {1})}
        told, tell = os.pipe()  # the reason if the job cannot be started; closed by exec
        child = os.fork()
        if child == 0:
            self._become_job(pipes[1][1], pipes.get(2, pipes[1])[1], tell)
        os.close(tell)
        for stream, (read, write) in pipes.items():
            os.close(write)
            os.set_blocking(read, False)
            self.logs[read] = out if stream == 1 else err
            self.selector.register(read, selectors.EVENT_READ)
        with os.fdopen(told, "rb") as file:
            problem = file.read().decode("utf-8", "replace")
        if problem:
            os.waitpid(child, 0)
            code, _, text = problem.partition(" ")
            raise _RefusedError(text, int(code))
        return child

    def _open_log(self, path: str) -> _Log:
        """Open a log as the user: a path of theirs must not lead us where they may not write."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            with _AsUser(self.launch):
                handle = os.open(os.path.join(self.launch["folder"], path), flags, 0o600)
                status = os.fstat(handle)
                if not stat.S_ISREG(status.st_mode) and status.st_rdev != NULL_DEVICE:
                    raise OSError(errno.EINVAL, "it is no ordinary file")  # it could block us
                os.set_blocking(handle, True)
        except OSError as fault:
            text = f"the log {path} cannot be opened: {(fault.strerror or '').lower()}"
            raise _RefusedError(text, FAILED_TO_START) from fault
        return _Log(handle, int(self.launch["log_max_bytes"]) - status.st_size)

    def _become_job(self, out: int, err: int, tell: int) -> None:
        launch, code = self.launch, FAILED_TO_START
        try:
            os.setpgid(0, 0)
            self._join_group()
            if os.geteuid() == 0:
                os.setgroups(launch["groups"])
                os.setgid(launch["gid"])
                os.setuid(launch["uid"])
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            os.umask(launch["umask"])
            _reset_signals()
            where = f"folder {launch['folder']}"
            os.chdir(launch["folder"])
            where = launch["argv"][0]
            code = 126
            os.execvpe(launch["argv"][0], launch["argv"], launch["environment"])
        except FileNotFoundError as fault:
            code, problem = 127, f"{where}: {(fault.strerror or '').lower()}"
        except (OSError, ValueError) as fault:
            problem = f"{where}: {(getattr(fault, 'strerror', None) or str(fault)).lower()}"
        except BaseException as fault:  # noqa: BLE001 - the child must never return
            problem = repr(fault)
        os.write(tell, f"{code} {problem}".encode())
        os._exit(FAILED_TO_START)

    def _join_group(self) -> None:
        """Put the job into its control group, or where it shares one with us, before us in line.

        What runs out of memory there must be the job: a shim that is ended leaves no exit status.
        """
        if self.launch.get("in_cgroup"):
            with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
                file.write(OUT_OF_MEMORY_FIRST)
        elif self.cgroup:
            with open(os.path.join(self.cgroup, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write("0")

    # -- while it runs ---------------------------------------------------------------------------

    def _set_deadlines(self, began: float) -> None:
        limit_s = self.launch.get("time_limit_s")
        if limit_s is None:
            return
        grace_s = float(self.launch["grace_s"])
        warn = self.launch.get("warn_signal")
        steps = [(began + limit_s, "SIGTERM"), (began + limit_s + grace_s, "SIGKILL")]
        if warn:
            steps.append((began + max(0.0, limit_s - self.launch["warn_before_s"]), warn))
        self.deadlines = sorted(steps)

    def _wait(self) -> None:
        """Copy output until the job's first process ends; orphans are reaped on the way."""
        child = os.pidfd_open(self.pid)
        self.selector.register(child, selectors.EVENT_READ)
        while self.status is None:
            now = time.monotonic()
            while self.deadlines and self.deadlines[0][0] <= now:
                self._meet(*self.deadlines.pop(0)[1:])
            left_s = self.deadlines[0][0] - now if self.deadlines else TICK_S
            self._copy(min(max(left_s, 0.0), TICK_S), child)
            self._reap()
        self.selector.unregister(child)
        os.close(child)

    def _meet(self, name: str) -> None:
        number = getattr(signal, name)
        if number in (signal.SIGTERM, signal.SIGKILL):
            self.why = "time limit reached"
        if number == signal.SIGKILL:
            self._kill_all()
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it may run sudo
            os.killpg(self.pid, number)

    def _copy(self, wait_s: float, besides: int = -1) -> None:
        for key, _ in self.selector.select(wait_s):
            if key.fd == besides:
                continue
            try:
                data = os.read(key.fd, CHUNK_BYTES)
            except BlockingIOError:
                continue
            if data:
                self.logs[key.fd].write(data)
            else:
                self.selector.unregister(key.fd)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.status = status

    # -- the end ---------------------------------------------------------------------------------

    def _end_left_over(self) -> None:
        """TERM and then KILL what the job left behind: its slot must be free when it has ended."""
        self.left_over = len(self._mine())
        if not self.left_over:
            return
        until = time.monotonic() + float(self.launch["grace_s"])
        for pid in self._mine():
            _signal(pid, signal.SIGTERM)
        while self._mine() and time.monotonic() < until:
            self._copy(0.05)
            self._reap()
        while self._mine():
            self._kill_all()
            self._copy(0.05)
            self._reap()

    def _mine(self) -> set[int]:
        """Return the processes of the job: all below this one, and all in its control group."""
        return below(os.getpid()) | self._in_cgroup()

    def _in_cgroup(self) -> set[int]:
        if not self.cgroup:
            return set()
        try:
            with open(os.path.join(self.cgroup, "cgroup.procs"), encoding="ascii") as file:
                return {int(line) for line in file} - {os.getpid(), 0}
        except OSError:
            return set()

    def _kill_all(self) -> None:
        for pid in self._mine():
            _signal(pid, signal.SIGKILL)

    def _drain(self) -> None:
        """Copy what is still in the pipes; all writers are gone, except those we cannot kill."""
        until = time.monotonic() + DRAIN_S
        while any(fd in self.selector.get_map() for fd in self.logs) and time.monotonic() < until:
            self._copy(0.05)
        self._reap()

    def _peak(self) -> int:
        try:
            with open(os.path.join(self.cgroup, "memory.peak"), encoding="ascii") as file:
                return int(file.read())
        except (OSError, ValueError):
            return 0

    def _oom(self) -> bool:
        try:
            with open(os.path.join(self.cgroup, "memory.events"), encoding="ascii") as file:
                return any(line.startswith("oom_kill ") and line.split()[1] != "0" for line in file)
        except OSError:
            return False


def all_pids() -> list[int]:
    """Return the pids of all processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def below(ancestor: int) -> set[int]:
    """Return all processes below one; what forked away was adopted by the shim."""
    children: dict[int, list[int]] = {}
    for pid in all_pids():
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                cells = file.read().rpartition(b") ")[2].split()
        except OSError:
            continue
        if cells and cells[0] not in (b"Z", b"X"):
            children.setdefault(int(cells[1]), []).append(pid)
    found: set[int] = set()
    queue = [ancestor]
    while queue:
        new = [pid for pid in children.get(queue.pop(), ()) if pid not in found]
        found.update(new)
        queue += new
    return found


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


class _RefusedError(Exception):
    """The job cannot be started; `code` is what a shell would exit with."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class _AsUser:
    """Have the rights of the job's user for the length of a block, where we are root."""

    def __init__(self, launch: dict[str, Any]) -> None:
        self.launch = launch
        self.changed = os.geteuid() == 0

    def __enter__(self) -> None:
        if self.changed:
            self.groups = os.getgroups()
            os.setgroups(self.launch["groups"])
            os.setegid(self.launch["gid"])
            os.seteuid(self.launch["uid"])

    def __exit__(self, *_: object) -> None:
        if self.changed:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(self.groups)


if __name__ == "__main__":
    sys.exit(main())

"""Suspends the holder of a GPU on its node, attends the borrower, and resumes the holder.

`python3 -I -S holder.py DO FOLDER OWNER TOP SAVE_S LIBRARY [-- COMMAND]`, standard library only: a
copy lies in the folder of a loan, beside one of `cuda_driver.py`, where nodes have no steward.

- `suspend`: find the one process of job OWNER with the driver, and suspend it. `FOLDER/refusal` has
  why not; it then goes on as it was.
- `attend`: run COMMAND; end it when the holder stirs, which shows in its processor time.
- `resume`: resume the holder, whatever became of the rest; repeating it changes nothing.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

SUSPENDED, RESUMED, REFUSAL, WOKE = "suspended", "resumed", "refusal", "woke"
ALIVE = "alive"
LOCK_WITHIN_S = 20.0
RESERVE_BYTES = 2 << 30  # of host memory that stays free
SPARE = 1.1  # host memory for each byte on the GPU
WAKE_CPU_S = 0.3  # processor time by which a suspended holder shows that it goes on
WAKE_CORES = 0.02  # and what one that only polls may use all the time
LOOK_S = 0.5
END_S = 5.0  # from TERM to KILL
ALIVE_S = 60.0  # since the shell beside the step last showed that it is there


class RefusedError(Exception):
    """The holder cannot be suspended."""


class Holder:
    """The holder of a GPU, as the processes of this account on this node show it."""

    def __init__(self, folder: Path, owner: str, library: str) -> None:
        self.folder = folder
        self.owner = owner
        self.library = library

    def suspend(self) -> None:
        found = [pid for pid in own_processes() if self._holds(pid)]
        if len(found) != 1:
            raise RefusedError(f"{len(found)} of its processes use the driver; one is suspended")
        pid = found[0]
        need = int(gpu_bytes(pid) * SPARE)
        if need > (room := host_room(pid)):
            gib = f"{need / 2**30:.1f} GiB"
            raise RefusedError(f"{gib} of host memory are needed, {room / 2**30:.1f} can be had")
        write(self.folder / SUSPENDED, {"pid": pid, "node": os.uname().nodename})
        answer = self._driver("suspend", pid)
        if not answer.get("ok"):
            self._driver("resume", pid)
            raise RefusedError(str(answer.get("why", "the call into the driver did not return")))
        write(self.folder / SUSPENDED, {"pid": pid, "cpu_s": cpu_s(pid), **answer})

    def resume(self) -> str:
        """Resume the holder; return why that failed, or an empty text."""
        record = self.record()
        if "pid" not in record or (self.folder / RESUMED).exists():
            return ""
        pid = int(record["pid"])
        if not Path(f"/proc/{pid}").exists():
            write(self.folder / RESUMED, {"ok": True, "why": "it has ended"})
            return ""
        answer = self._driver("resume", pid)
        if answer.get("ok"):
            write(self.folder / RESUMED, answer)
            return ""
        return str(answer.get("why", "the call into the driver did not return"))

    def record(self) -> dict[str, Any]:
        """Return what was written when the holder was suspended; empty if it was not."""
        with suppress(OSError, ValueError):
            found = json.loads((self.folder / SUSPENDED).read_bytes())
            return found if isinstance(found, dict) else {}
        return {}

    def woke(self, since_s: float) -> bool:
        """Return whether it goes on: it cannot use its GPU, so its processor time shows it."""
        record = self.record()
        used = cpu_s(int(record.get("pid", 0)))
        allowed = WAKE_CPU_S + WAKE_CORES * (time.monotonic() - since_s)
        return used is not None and used - float(record.get("cpu_s") or 0.0) > allowed

    def _holds(self, pid: int) -> bool:
        """Return whether a process is one of the owner's with the driver, not a borrower's."""
        with suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            ours = f"SLURM_JOB_ID={self.owner}".encode() in environment
            lent = any(each.startswith(b"STEWARD_LENT_TO=") for each in environment)
            return ours and not lent and b"libcuda.so" in Path(f"/proc/{pid}/maps").read_bytes()
        return False

    def _driver(self, do: str, pid: int) -> dict[str, Any]:
        here = Path(__file__).with_name("cuda_driver.py")
        command = [sys.executable, "-I", "-S", str(here), do, str(pid), self.library]
        done = subprocess.run(  # noqa: S603 - our own file
            [*command, str(LOCK_WITHIN_S)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        with suppress(ValueError):
            found = json.loads(done.stdout)
            return found if isinstance(found, dict) else {}
        return {}


def own_processes() -> list[int]:
    """Return the processes of this account, without this one."""
    found = []
    for each in Path("/proc").iterdir():
        with suppress(OSError):
            if each.name.isdigit() and each.stat().st_uid == os.geteuid():
                found.append(int(each.name))
    return [pid for pid in sorted(found) if pid != os.getpid()]


def gpu_bytes(pid: int) -> int:
    """Return what a process has on GPUs, by nvidia-smi; 0 where nobody can tell."""
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    with suppress(OSError, ValueError, subprocess.TimeoutExpired):
        done = subprocess.run(  # noqa: S603 - fixed words
            query, capture_output=True, text=True, check=False, timeout=20
        )
        rows = (line.split(",") for line in done.stdout.splitlines())
        return sum(int(cells[1]) << 20 for cells in rows if int(cells[0]) == pid)
    return 0


def host_room(pid: int) -> int:
    """Return how much host memory a process can still have, by its machine and control group."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    found = dict(line.split(":", 1) for line in lines)
    room = int(found["MemAvailable"].split()[0]) * 1024 - RESERVE_BYTES
    with suppress(OSError, ValueError, StopIteration):
        groups = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        path = next(line.removeprefix("0::/") for line in groups if line.startswith("0::/"))
        folder = Path("/sys/fs/cgroup") / path
        for each in (folder, *folder.parents):
            with suppress(OSError, ValueError):
                most = int((each / "memory.max").read_text())
                room = min(room, most - int((each / "memory.current").read_text()))
    return max(room, 0)


def cpu_s(pid: int) -> float | None:
    """Return the processor time of a process; None where it is gone."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return None


def write(path: Path, record: dict[str, Any]) -> None:
    """Write a record whole, or not at all."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    draft.write_text(json.dumps(record))
    draft.rename(path)


def attend(holder: Holder, top: Path, save_s: float, command: list[str]) -> int:
    """Run the borrower until it ends, is ended, or its holder stirs; return its exit status."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    child = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - the job's own script
    began_s = time.monotonic()
    while child.poll() is None and not stopped:
        if holder.woke(began_s):
            (holder.folder / WOKE).touch()
            if can_save(top):
                save(child, top, save_s, stopped)
            break
        time.sleep(LOOK_S)
    own_end = child.poll() is not None
    end(child)
    if not others_resume(holder.folder):
        holder.resume()
    return child.returncode if own_end and child.returncode >= 0 else 143


def can_save(top: Path) -> bool:
    """Return whether the borrower has said that it can save."""
    with suppress(OSError, ValueError, AttributeError):
        return bool(json.loads((top / "can_save.json").read_bytes()).get("can"))
    return False


def others_resume(folder: Path) -> bool:
    """Return whether the shell beside the step is there, which resumes the holder.

    Better by a step of its own: KILL may come here while the driver is at it. By the clock of the
    file system alone.
    """
    with suppress(OSError):
        now = folder / f".now-{secrets.token_hex(4)}"
        now.touch()
        now_s = now.stat().st_mtime
        now.unlink()
        return now_s - (folder / ALIVE).stat().st_mtime < ALIVE_S
    return False


def save(child: subprocess.Popen[bytes], top: Path, save_s: float, stopped: list[int]) -> None:
    """Ask the borrower to save, and wait for its answer, its end, or for so long."""
    request = f"woke-{secrets.token_hex(4)}"
    record = {"id": request, "do": "save", "reason": "the holder of its GPU needs it"}
    write(top / "request.json", record)
    until_s = time.monotonic() + save_s
    while child.poll() is None and time.monotonic() < until_s and not stopped:
        with suppress(OSError, ValueError, AttributeError):
            if json.loads((top / "answer.json").read_bytes()).get("id") == request:
                return
        time.sleep(LOOK_S / 5)


def end(child: subprocess.Popen[bytes]) -> None:
    """End a borrower and all that it started: its GPU memory has to be free."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        child.wait(END_S)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def main(arguments: list[str]) -> int:
    """Do one thing; return its exit status."""
    do, folder, owner, top, save_s, library = arguments[:6]
    holder = Holder(Path(folder), owner, library)
    if do == "suspend":
        try:
            holder.suspend()
        except RefusedError as fault:
            write(holder.folder / REFUSAL, {"why": str(fault)})
            return 126
        return 0
    if do == "resume":
        why = holder.resume()
        if why:
            write(holder.folder / REFUSAL, {"why": why})
        return 1 if why else 0
    return attend(holder, Path(top), float(save_s), arguments[7:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

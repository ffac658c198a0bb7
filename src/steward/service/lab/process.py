"""A process of its own for each comparison: the live loop never waits for it, and it can be ended.

It is nice to everybody else on the machine, is the first to go when memory runs out, and ends by
itself when the service does.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from steward.service.lab.messages import Finished, Refused, Task
from steward.service.lab.worker import Send, carry_out

__all__ = ["in_process"]

log = logging.getLogger(__name__)

LONGEST_S = 3600.0
LOOK_EVERY_S = 0.1
ENDS_WITHIN_S = 3.0
NICE = 10


def in_process(
    task: Task, send: Send, stop: threading.Event, *, longest_s: float = LONGEST_S
) -> None:
    """Carry a task out in a new process, and forward its messages, until it ends or `stop`."""
    spawn = get_context("spawn")  # a fork would take the service's locks and sockets along
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_worker, args=(task, theirs), daemon=True, name="steward-lab")
    process.start()
    theirs.close()
    try:
        _hand_on(ours, process, send, stop, time.monotonic() + longest_s)
    finally:
        ours.close()
        _end(process)


def _hand_on(
    ours: Connection, process: BaseProcess, send: Send, stop: threading.Event, until_s: float
) -> None:
    while not stop.is_set():
        if time.monotonic() > until_s:
            send(Refused(problem="took too long and was ended", hint="take fewer jobs or policies"))
            return
        if not ours.poll(LOOK_EVERY_S):
            continue
        try:
            message = ours.recv()
        except (EOFError, OSError):
            process.join(ENDS_WITHIN_S)
            send(_died(process.exitcode))
            return
        send(message)
        if isinstance(message, Finished | Refused):
            return


def _died(status: int | None) -> Refused:
    killed = status is not None and status < 0
    how = f"by signal {-(status or 0)}" if killed else f"with status {status}"
    hint = "it may have run out of memory: take fewer jobs" if killed else "the log has the details"
    return Refused(problem=f"the lab's worker was ended {how}", where="lab", hint=hint)


def _end(process: BaseProcess) -> None:
    process.join(0.2)
    if process.is_alive():
        process.terminate()
        process.join(ENDS_WITHIN_S)
    if process.is_alive():
        process.kill()
        process.join(ENDS_WITHIN_S)


# -- in the other process ----------------------------------------------------------------------


def _worker(task: Task, pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service ends us when it wants to
    os.nice(NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()
    try:
        carry_out(task, pipe.send)
    except Exception as fault:
        log.exception("the lab could not compare")
        problem = f"{type(fault).__name__} while comparing"
        hint = "this is a fault in steward; the log of `steward up` has the details"
        pipe.send(Refused(problem=problem, where="lab", hint=hint))


def _end_with(pipe: Connection) -> None:
    """Wait until the service closes the pipe: the result is not wanted any more."""
    with suppress(EOFError, OSError):
        pipe.recv()
    os._exit(1)

"""A warm worker process that traces models, so that torch is imported once and may crash alone."""

from __future__ import annotations

import importlib.util
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from steward.errors import StewardError, TemporaryError
from steward.learn.estimators.model_graphs.question import ModelQuestion

__all__ = ["TraceWorker", "torch_is_installed"]

_WORKER = "steward.learn.estimators.model_graphs.worker"
_START_S = 120.0
_LONGEST_LINE = 64 << 20


def torch_is_installed() -> bool:
    """Return whether a worker could import torch; nothing is imported."""
    return importlib.util.find_spec("torch") is not None


class TraceWorker:
    """Ask one worker process; start it at the first question, and again after it died."""

    def __init__(self, command: Sequence[str] | None = None, *, timeout_s: float = 300.0) -> None:
        self._command = list(command or (sys.executable, "-m", _WORKER))
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self.built: dict[str, Any] | None = None  # of a model that was built, but not traced

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def ask(self, question: ModelQuestion, **more: object) -> dict[str, Any]:
        """Return the trace of a model; raise what the worker reports."""
        process = self._running()
        if process.stdin is None:
            raise self._died(question.model)
        try:
            process.stdin.write(json.dumps({**question.record(), **more}).encode() + b"\n")
            process.stdin.flush()
        except OSError as error:
            raise self._died(question.model) from error
        self.built = None
        found = self._read(self._timeout_s, question.model)
        if "error" in found:
            fault = found["error"]
            self.built = found.get("built")
            raise StewardError(
                str(fault.get("problem")), where=str(fault.get("where", "")), hint=fault["hint"]
            )
        return found

    def close(self) -> None:
        """End the worker."""
        process, self._process = self._process, None
        self._pending = b""
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        paths = [str(Path.cwd()), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in paths if each)}
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._read(_START_S, "the worker")
        return self._process

    def _read(self, timeout_s: float, where: str) -> dict[str, Any]:
        line = self._line(timeout_s, where)
        try:
            found = json.loads(line)
        except ValueError as error:
            self.close()
            problem = f"the worker answered {line[:60]!r}, not JSON"
            raise StewardError(problem, where=where, hint="this is a fault of steward") from error
        return dict(found)

    def _line(self, timeout_s: float, where: str) -> bytes:
        if self._process is None or self._process.stdout is None:
            raise self._died(where)
        stdout = self._process.stdout
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    self.close()
                    problem = f"the trace did not end within {timeout_s:.0f} s"
                    raise TemporaryError(problem, where=where, hint="try a smaller model")
                part = os.read(stdout.fileno(), 1 << 20)
                if not part or len(self._pending) > _LONGEST_LINE:
                    raise self._died(where)
                self._pending += part
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _died(self, where: str) -> StewardError:
        code = self._process.wait() if self._process is not None else None
        self.close()
        hint = "an operator may abort the process on meta tensors; the closed form still answers"
        return StewardError(f"the worker ended with status {code}", where=where, hint=hint)

"""Stands between steward and NVML: notes what each call answered, byte by byte, or how long.

`tests/recorded_nvml.py` plays a tape back. Needs nothing but pynvml.
"""

from __future__ import annotations

import ctypes
import gzip
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Stopwatch", "Tape"]

GPM_HEAD_BYTES, GPM_METRIC_BYTES = 24, 40  # of nvmlGpmMetricsGet_t: what is before, each metric


class Between(ABC):
    """Looks like pynvml, passes everything on, and lets `noted` see each call."""

    def __init__(self, module: Any) -> None:  # noqa: ANN401 - a module
        self._module = module
        self.NVMLError = module.NVMLError
        self.nvmlInit = module.nvmlInit
        self.nvmlShutdown = module.nvmlShutdown

    def _nvmlGetFunctionPointer(self, name: str) -> Callable[..., int]:  # noqa: N802 - pynvml's
        call = self._found(name)

        def between(*arguments: object) -> int:
            began_ns = time.perf_counter_ns()
            code = int(call(*arguments))
            self.noted(name, arguments, code, time.perf_counter_ns() - began_ns)
            return code

        return between

    def _found(self, name: str) -> Callable[..., int]:
        found: Callable[..., int] = self._module._nvmlGetFunctionPointer(name)  # noqa: SLF001
        return found

    @abstractmethod
    def noted(self, name: str, arguments: tuple[Any, ...], code: int, ns: int) -> None:
        """Take note of a call."""


class Stopwatch(Between):
    """How long each function took, in microseconds."""

    def __init__(self, module: Any) -> None:  # noqa: ANN401 - a module
        super().__init__(module)
        self.took_us: dict[str, list[float]] = {}

    def noted(self, name: str, arguments: tuple[Any, ...], code: int, ns: int) -> None:
        del code
        if name == "nvmlDeviceGetFieldValues":
            name = f"{name} of {arguments[1].value}"
        self.took_us.setdefault(name, []).append(ns / 1000)


class Tape(Between):
    """What each call answered: its code and the bytes that it filled, in order."""

    def __init__(self, module: Any) -> None:  # noqa: ANN401 - a module
        super().__init__(module)
        self.answers: dict[str, list[tuple[int, list[str]]]] = {}
        self.missing: list[str] = []

    def _found(self, name: str) -> Callable[..., int]:
        try:
            return super()._found(name)
        except self.NVMLError:
            self.missing.append(name)
            raise

    def noted(self, name: str, arguments: tuple[Any, ...], code: int, ns: int) -> None:
        del ns
        filled = [_bytes(name, place) for each in arguments if (place := _target(each)) is not None]
        self.answers.setdefault(_key(name, arguments), []).append((code, filled))

    def save(self, file: Path, **about: object) -> None:
        """Write the tape; an answer that stays the same to the end is written once."""
        for key, answers in self.answers.items():
            while len(answers) > 1 and answers[-1] == answers[-2]:
                answers.pop()
            self.answers[key] = answers
        with gzip.open(file, "wt") as out:
            json.dump({"about": about, "missing": self.missing, "answers": self.answers}, out)


def _target(argument: Any) -> Any:  # noqa: ANN401 - ctypes has no common type
    if isinstance(argument, ctypes.Array):
        return argument
    return getattr(argument, "_obj", None)


def _key(name: str, arguments: tuple[Any, ...]) -> str:
    plain = [
        "-" if each is None else f"{each.value or 0:x}"
        for each in arguments
        if _target(each) is None and (each is None or hasattr(each, "value"))
    ]
    if name == "nvmlDeviceGetFieldValues":
        plain += [f"{place.field}.{place.scope}" for place in arguments[2]]
    elif name == "nvmlGpmMetricsGet":
        get = _target(arguments[0])
        plain += [str(metric.metric) for metric in get.metrics[: get.count]]
    return f"{name} {' '.join(plain)}"


def _bytes(name: str, place: Any) -> str:  # noqa: ANN401 - ctypes has no common type
    raw = bytes(place)
    if name == "nvmlGpmMetricsGet":  # room for 98 metrics, of which some are asked for
        raw = raw[: GPM_HEAD_BYTES + GPM_METRIC_BYTES * place.count]
    return raw.hex()

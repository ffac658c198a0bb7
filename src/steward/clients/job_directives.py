"""Reads what a batch script says about itself: `#SBATCH` and `#STEWARD` lines, and their values.

The command line and the form of the dashboard take the same options.
"""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterator, Mapping
from typing import Any

from steward.errors import StewardError
from steward.model.managed_job import JOB_ID

__all__ = [
    "FLAGS",
    "IGNORED",
    "NAMES",
    "array_indices",
    "dependencies",
    "exported",
    "gpus_of",
    "options_body",
    "read_directives",
    "sbatch_directives",
    "seconds",
    "share",
    "size_bytes",
    "warning",
]

_UNITS = {"": 2**20, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_WHENS = ("after", "afterany", "afterok", "afternotok")
MOST_TASKS = 10_000
NUMBER = "[0-9]{1,9}"  # of ASCII: `isdigit` accepts what int() does not, and numbers of any size
MOST_SLOWDOWN_PERCENT = 50
SHORT = {
    "J": "job-name",
    "G": "gpus",
    "c": "cpus-per-task",
    "t": "time",
    "a": "array",
    "d": "dependency",
    "o": "output",
    "e": "error",
    "D": "chdir",
    "H": "hold",
    "W": "wait",
}
FLAGS = ("requeue", "no-requeue", "hold", "wait")
NAMES = (
    *(name for name in dict.fromkeys(SHORT.values()) if name not in FLAGS),
    "gres",
    "min-gpus",
    "max-gpus",
    "mem",
    "gpu-memory",
    "export",
    "signal",
    "nice",
    "priority",
    "max-slowdown",
)
IGNORED = frozenset(
    [
        "partition",
        "p",
        "account",
        "A",
        "qos",
        "nodes",
        "N",
        "ntasks",
        "n",
        "mail-type",
        "mail-user",
        "ntasks-per-node",
        "exclusive",
        "constraint",
        "C",
        "comment",
        "open-mode",
    ]
)


def read_directives(script: str, where: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the options of a script by their long names, and those that mean nothing here."""
    found: dict[str, str] = {}
    ignored, unknown = [], []
    for number, line in _lines(script):
        for name, value in _options(line, f"{where}:{number}"):
            if name in NAMES or name in FLAGS:
                found[name] = value
            elif name in IGNORED:
                ignored.append(name)
            else:
                unknown.append(f"line {number}: '{name}'")
    if unknown:
        raise StewardError(
            f"unknown options: {'; '.join(unknown)}",
            where=where,
            hint=f"known: {', '.join((*NAMES, *FLAGS))}",
        )
    return found, tuple(ignored)


def sbatch_directives(script: str, where: str) -> dict[str, str]:
    """Return the options of a script that goes to sbatch, known here or not, by long names."""
    found: dict[str, str] = {}
    for number, line in _lines(script, "SBATCH"):
        found |= dict(_options(line, f"{where}:{number}"))
    return found


def _lines(script: str, words: str = "SBATCH|STEWARD") -> Iterator[tuple[int, str]]:
    """Return the option lines: as for sbatch, they end at the first command."""
    for number, line in enumerate(script.splitlines(), 1):
        marked = re.match(rf"#(?:{words})\s+(.*)", line)
        if marked:
            yield number, marked[1]
        elif line.strip() and not line.lstrip().startswith("#"):
            return


def _options(text: str, where: str) -> Iterator[tuple[str, str]]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError as fault:
        raise StewardError(f"cannot be read: {fault}", where=where, hint="close quotes") from fault
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            name, given, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1:
            name, value = SHORT.get(word[1], word[1]), word[2:]
            given = value
        else:
            raise StewardError(f"'{word}' is no option", where=where, hint="write --NAME=VALUE")
        if not given and name not in FLAGS and words and not words[0].startswith("-"):
            value = words.pop(0)
        yield name, value


def options_body(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the part of a submission that options describe: all but what runs, and where."""
    return {
        "name": given.get("job-name", ""),
        "gpus": gpus_of(given),
        "slots": _number(given, "slots"),
        "min_gpus": _number(given, "min-gpus"),
        "max_gpus": _number(given, "max-gpus"),
        "cpus": _number(given, "cpus-per-task"),
        "memory_bytes": _size(given, "mem"),
        "gpu_memory_bytes": _size(given, "gpu-memory"),
        "priority": _number(given, "priority") - _number(given, "nice"),
        "deadline_s": float(given["deadline_s"]) if given.get("deadline_s") else None,
        "time_limit_s": seconds(given.get("time", ""), "--time"),
        "requeue": "requeue" in given and "no-requeue" not in given,
        "hold": "hold" in given,
        "indices": array_indices(given["array"], "--array") if "array" in given else [],
        "dependencies": dependencies(given.get("dependency", ""), "--dependency"),
        "output": given.get("output", ""),
        "error": given.get("error", ""),
        "max_slowdown_share": share(given.get("max-slowdown", "0"), "--max-slowdown"),
        **(warning(given["signal"], "--signal") if given.get("signal") else {}),
    }


def exported(export: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a job inherits of an environment: ALL, NONE, names, and NAME=VALUE.

    >>> exported("HOME,A=1", {"HOME": "/root", "LANG": "C"})
    {'HOME': '/root', 'A': '1'}
    """
    found: dict[str, str] = {}
    for part in filter(None, export.split(",")):
        name, given, value = part.partition("=")
        if part == "ALL":
            found |= {key: each for key, each in environment.items() if _is_inherited(key)}
        elif given:
            found[name] = value
        elif part != "NONE" and name in environment:
            found[name] = environment[name]
    return found


def _is_inherited(name: str) -> bool:
    return not name.startswith(("STEWARD_", "BASH_FUNC_")) and name != "CUDA_VISIBLE_DEVICES"


def _size(given: Mapping[str, str], name: str) -> int:
    return size_bytes(given[name], f"--{name}") if given.get(name) else 0


def _number(given: Mapping[str, str], name: str) -> int:
    text = given.get(name) or "0"
    try:
        return int(text)
    except ValueError:
        problem = f"'{text}' is no whole number"
        raise StewardError(problem, where=f"--{name}", hint="write a number, as 4") from None


def seconds(text: str, where: str) -> float | None:
    """Return a time limit in seconds; None for none.

    >>> seconds("90", "t"), seconds("1:30", "t"), seconds("2:00:00", "t"), seconds("1-12", "t")
    (5400.0, 90.0, 7200.0, 129600.0)
    """
    if text in ("", "0", "UNLIMITED", "INFINITE"):
        return None
    if re.fullmatch(rf"{NUMBER}(\.[0-9]{{1,9}})?s", text):
        return float(text[:-1])
    match = re.fullmatch(rf"(?:({NUMBER})-)?({NUMBER})(?::({NUMBER}))?(?::({NUMBER}))?", text)
    if match is None:
        hint = "write minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S, or seconds as 90s"
        raise StewardError(f"'{text}' is no time", where=where, hint=hint)
    days, *parts = match.groups()
    numbers = [int(each) for each in parts if each is not None]
    if days is not None:
        hours, minutes, rest = (*numbers, 0, 0)[:3]
        return float(int(days) * 86400 + hours * 3600 + minutes * 60 + rest)
    if len(numbers) == 1:
        return float(numbers[0] * 60)
    total = 0
    for each in numbers:
        total = total * 60 + each
    return float(total)


def size_bytes(text: str, where: str) -> int:
    """Return a size in bytes; a plain number is in MiB, as for sbatch.

    >>> size_bytes("4G", "m"), size_bytes("100", "m")
    (4294967296, 104857600)
    """
    match = re.fullmatch(r"([0-9]{1,12})([kKmMgGtT]?)[bB]?", text)
    if match is None:
        raise StewardError(f"'{text}' is no size", where=where, hint="write 500M or 16G")
    return int(match[1]) * _UNITS[match[2].lower()]


def share(text: str, where: str) -> float:
    """Return a share that is written as a percentage.

    >>> share("5%", "m"), share("7.5", "m")
    (0.05, 0.075)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%?", text.strip())
    if match is None or float(match[1]) > MOST_SLOWDOWN_PERCENT:
        hint = f"write a percentage from 0 to {MOST_SLOWDOWN_PERCENT}, as 5%"
        raise StewardError(f"'{text}' is no share", where=where, hint=hint)
    return float(match[1]) / 100.0


def array_indices(text: str, where: str) -> list[int]:
    """Return the indices of an array.

    >>> array_indices("0-6:3,9", "a")
    [0, 3, 6, 9]
    """
    found: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(rf"({NUMBER})(?:-({NUMBER})(?::({NUMBER}))?)?", part.strip())
        first, last, step = (
            (int(match[1]), int(match[2] or match[1]), int(match[3] or 1)) if match else (0, 0, 0)
        )
        if last < first or step == 0:
            hint = "write 0-9, 0-9:2 or 1,5,7; a limit as %4 is not known here"
            raise StewardError(f"'{part}' is no range of an array", where=where, hint=hint)
        if last - first >= MOST_TASKS:
            raise StewardError(f"'{part}' has more than {MOST_TASKS} tasks", where=where)
        found |= dict.fromkeys(range(first, last + 1, step))
    return list(found)


def dependencies(text: str, where: str) -> list[dict[str, str]]:
    """Return the dependencies of a job.

    >>> dependencies("afterok:3:4,afterany:5", "d")[2]
    {'job': '5', 'when': 'afterany'}
    """
    found = []
    for part in filter(None, text.split(",")):
        when, *ids = part.split(":")
        if when not in _WHENS or not ids or not all(re.fullmatch(JOB_ID, i) for i in ids):
            hint = f"write {' or '.join(_WHENS)}, then :ID, as afterok:12"
            raise StewardError(f"'{part}' is no dependency", where=where, hint=hint)
        found += [{"job": id_, "when": when} for id_ in ids]
    return found


def gpus_of(given: Mapping[str, str]) -> int:
    """Return how many GPUs `--gpus` or `--gres=gpu:N` ask for."""
    text = given.get("gpus") or next(
        (each.partition(":")[2] for each in given.get("gres", "").split(",") if each[:3] == "gpu"),
        "0",
    )
    number = (text or "1").rpartition(":")[2]
    if re.fullmatch(NUMBER, number) is None:
        raise StewardError(f"'{text}' is no number of GPUs", where="gpus", hint="write 2 or gpu:2")
    return int(number)


def warning(text: str, where: str) -> dict[str, Any]:
    """Return the signal before the time limit.

    >>> warning("B:USR1@120", "s")
    {'warn_signal': 'SIGUSR1', 'warn_before_s': 120.0}
    """
    name, _, before = text.rpartition(":")[2].partition("@")
    name = name.upper().removeprefix("SIG")
    if re.fullmatch(NUMBER, name) and int(name) in {*signal.Signals}:
        name = signal.Signals(int(name)).name.removeprefix("SIG")
    if f"SIG{name}" not in signal.Signals.__members__ or (
        before and re.fullmatch(NUMBER, before) is None
    ):
        hint = "write USR1@120, or B:USR1@120"
        raise StewardError(f"'{text}' is no signal and time", where=where, hint=hint)
    return {"warn_signal": f"SIG{name}", "warn_before_s": float(before or 60)}

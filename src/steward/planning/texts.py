"""What people write of a job to plan: times with ranges, GPUs, waits, deadlines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from math import inf

from steward.errors import StewardError
from steward.model.planning.plan import Range
from steward.store.catalog.amounts import read_size, read_time

__all__ = [
    "read_bytes",
    "read_deadline",
    "read_names",
    "read_numbers",
    "read_range",
    "read_run_time",
    "read_values",
]

_GUESS = 1.25  # to both sides of a run time that is given as one number
_GPUS = re.compile(r"(?:(?P<count>[0-9]{1,5}) ?x ?)?(?P<model>[^=]+)")
_MOST = 100_000


def read_range(text: str, *, where: str, guess: float = 1.0) -> Range:
    """Read a length of time: one, low..high, or low..likely..high. A low of 0 is written 0.

    >>> read_range("1h..4h", where="").mid, read_range("0..10m", where="").mid
    (7200.0, 300.0)
    """
    parts = [_seconds(each, where=where) for each in text.split("..")]
    if len(parts) == 1:
        return Range(low=parts[0] / guess, mid=parts[0], high=parts[0] * guess)
    if len(parts) == 2:
        low, high = parts
        parts = [low, (low * high) ** 0.5 if low else high / 2, high]
    if len(parts) > 3 or sorted(parts) != parts:
        hint = "write the least first: 2h..5h, or 2h..3h..5h"
        raise StewardError(f"'{text}' is not a range of times", where=where, hint=hint)
    return Range(low=parts[0], mid=parts[1], high=parts[2])


def _seconds(text: str, *, where: str) -> float:
    if text.strip() == "0":
        return 0.0
    try:
        return read_time(text)
    except StewardError as error:
        raise StewardError(error.problem, where=where, hint=error.hint) from None


def read_run_time(text: str) -> tuple[str, int | None, Range]:
    """Read a run time and the GPUs that it holds for, if they are named.

    >>> read_run_time("4xA100=2h..5h")[:2], read_run_time("cpu=9h")[:2], read_run_time("2h")[:2]
    (('A100', 4), ('', 0), ('', None))
    """
    where = f"--run-time {text}"
    gpus, _, time = text.rpartition("=")
    run_s = read_range(time, where=where, guess=_GUESS)
    if run_s.low <= 0:
        raise StewardError("a run time is above 0", where=where, hint="write 2h, or 2h..5h")
    if not gpus:
        return "", None, run_s
    if gpus.strip().casefold() == "cpu":
        return "", 0, run_s
    found = _GPUS.fullmatch(gpus.strip())
    if found is None or found["count"] == "0":
        hint = "write A100=2h..5h, 4xA100=1h, or cpu=9h"
        raise StewardError(f"'{gpus}' are no GPUs", where=where, hint=hint)
    return found["model"], int(found["count"] or 1), run_s


def read_numbers(text: str, *, where: str, least: int = 1) -> tuple[int, ...]:
    """Read a list of whole numbers.

    >>> read_numbers("1, 2,4", where="")
    (1, 2, 4)
    """
    parts = [each.strip() for each in text.split(",")]
    wrong = [each for each in parts if not re.fullmatch("[0-9]{1,6}", each)]
    numbers = () if wrong else tuple(dict.fromkeys(int(each) for each in parts))
    if wrong or not all(least <= each <= _MOST for each in numbers):
        hint = f"write whole numbers from {least} to {_MOST:,}, as 1,2,4"
        raise StewardError(f"'{text}' is not a list of numbers", where=where, hint=hint)
    return numbers


def read_names(text: str) -> tuple[str, ...]:
    """Read a list of names.

    >>> read_names("pitzer, aws"), read_names("")
    (('pitzer', 'aws'), ())
    """
    return tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))


def read_values(texts: Iterable[str], *, where: str) -> dict[str, Range]:
    """Read NAME=TIME, each as a range."""
    found = {}
    for text in texts:
        name, _, time = text.rpartition("=")
        if not name.strip():
            hint = "write SITE/QUEUE=26h, SITE=1h..4h, or REGION=5h"
            raise StewardError(f"'{text}' names no site", where=where, hint=hint)
        found[name.strip()] = read_range(time, where=f"{where} {text}")
    return found


def read_deadline(text: str, now_s: float) -> float:
    """Read a moment, or a length of time from now. A moment without a zone is in UTC.

    >>> read_deadline("12h", 0.0), read_deadline("1970-01-02", 0.0)
    (43200.0, 86400.0)
    """
    where = "--deadline"
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        moment = None
    if moment is None:
        try:
            deadline_s = now_s + read_time(text.strip().removeprefix("+"))
        except StewardError:
            hint = "write 2026-11-20T08:00, or a time from now, as 12h or 2d"
            raise StewardError(f"'{text}' is no time", where=where, hint=hint) from None
    else:
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        deadline_s = moment.timestamp()
    if deadline_s <= now_s:
        past_h = (now_s - deadline_s) / 3600
        hint = "name a time that is to come; without a zone it is in UTC"
        raise StewardError(f"'{text}' was {past_h:.1f} h ago", where=where, hint=hint)
    return deadline_s if deadline_s < 1e12 else inf


def read_bytes(text: str, *, where: str) -> int:
    """Read an amount of memory."""
    try:
        return int(read_size(text))
    except StewardError as error:
        raise StewardError(error.problem, where=where, hint=error.hint) from None

"""Refuses sentences that state a number, a name or a time that their cited facts do not hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from steward.questions.facts import Fact

__all__ = ["fault_of"]

_TIME = re.compile(r"\b\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?|\b\d{1,2}:\d\d(?::\d\d)?\b")
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?")
# What looks like a name: it has a digit, a slash, an underscore, an @, or a dot or dash inside.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@/:+-]*[A-Za-z0-9_]|[A-Za-z0-9_]")
_MARKED = re.compile(r"[\d/_@:]|\w[.-]\w")
_PROPER = re.compile(r"(?<=[a-z,;] )[A-Z][A-Za-z]+")
_COUNTS = {
    "zero": 0, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "twenty": 20, "thirty": 30, "forty": 40,
    "fifty": 50, "sixty": 60, "hundred": 100, "thousand": 1000, "million": 1e6, "billion": 1e9,
    "dozen": 12, "half": 0.5, "twice": 2, "double": 2, "triple": 3, "third": 3, "quarter": 4,
    "hundreds": 100, "thousands": 1000, "millions": 1e6, "dozens": 12,
}  # fmt: skip
_ORDINARY = {
    "GPU", "GPUs", "CPU", "CO2", "UTC", "USD", "EUR", "kWh", "GiB", "W", "C", "s", "h", "min", "d",
    "Xid", "steward", "Steward", "Slurm", "Kubernetes", "I", "GPU-hours", "GPU-hour", "ID", "OK",
    "No", "Yes", "Job", "Node", "Tenant", "User", "Finding", "Decision", "Rule",
}  # fmt: skip


def fault_of(text: str, cited: Sequence[Fact], question: str = "") -> str:
    """Return what a sentence states that its facts do not hold; empty if there is nothing.

    Names of the question may be repeated; its numbers may not, unless they are names of things.
    """
    known = " ".join(_texts(cited))
    if not text.strip():
        return "it is empty"
    rest = text
    for time in (found[0] for found in _TIME.finditer(text)):
        if time.replace("T", " ") not in known:
            return f"no cited fact holds the time {time}"
        rest = rest.replace(time, " ")
    rest = _without_names(rest, known)
    strange = _strange_name(rest, f"{known} {question}")
    if strange:
        return f"no cited fact holds the name {strange}"
    return _strange_number(rest, cited) or _strange_count(rest, cited)


def _texts(cited: Sequence[Fact]) -> Iterator[str]:
    for each in cited:
        yield each.text
        yield str(each.value)
        yield each.label
        yield each.unit


def _without_names(text: str, known: str) -> str:
    """Remove names that cited facts hold, so that digits in them are no numbers."""
    names = {word for word in _NAME.findall(known) if _MARKED.search(word) and not _is_number(word)}
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<![\w/-]){re.escape(name)}(?![\w/-])", " ", text)
    return text


def _strange_name(text: str, known: str) -> str:
    words = {word.lower() for word in _NAME.findall(known)} | {
        word.lower() for word in known.split()
    }
    for word in (found[0] for found in _NAME.finditer(text)):
        if _is_number(word) or word in _ORDINARY or not _MARKED.search(word):
            continue
        if word.lower() not in words and not _is_plain_compound(word):
            return word
    for word in (found[0] for found in _PROPER.finditer(text)):
        if word not in _ORDINARY and word.lower() not in words:
            return word
    return ""


def _is_plain_compound(word: str) -> bool:
    """Return whether a word is two English ones with a dash, as `long-running`."""
    parts = word.split("-")
    return len(parts) > 1 and all(part.isalpha() and part.islower() for part in parts)


def _is_number(word: str) -> bool:
    return bool(_NUMBER.fullmatch(word))


def _strange_number(text: str, cited: Sequence[Fact]) -> str:
    for found in _NUMBER.findall(text):
        if not _is_held(found, cited):
            return f"no cited fact holds the number {found}"
    return ""


def _strange_count(text: str, cited: Sequence[Fact]) -> str:
    for word in re.findall(r"[a-z]+", text.lower()):
        if word in _COUNTS and not _is_held(f"{_COUNTS[word]:g}", cited):
            return f"no cited fact holds the number '{word}'"
    return ""


def _is_held(written: str, cited: Iterable[Fact]) -> bool:
    """Return whether a number is that of a cited fact: as it is written there, or rounded.

    Seconds may be minutes or hours, shares percent, bytes GiB.
    """
    value = float(written.replace(",", ""))
    digits = len(written.partition(".")[2])
    for each in cited:
        if written.lstrip("+") in _NUMBER.findall(each.text):
            return True
        if isinstance(each.value, str) or each.unit == "time":
            continue
        if any(_rounds_to(each.value / scale, value, digits) for scale in _scales(each.unit)):
            return True
    return False


def _scales(unit: str) -> tuple[float, ...]:
    return {
        "s": (1.0, 60.0, 3600.0, 86_400.0),
        "share": (1.0, 0.01),
        "bytes": (1.0, 2.0**20, 2.0**30),
    }.get(unit, (1.0,))


def _rounds_to(exact: float, written: float, digits: int) -> bool:
    """Return whether a number is another one rounded to the digits that are written."""
    return abs(exact - written) <= 0.5 * 10.0**-digits + 1e-9

"""What every benchmark ends with: one JSON object on stdout, and whether its bars hold."""

from __future__ import annotations

import argparse
import json
import operator
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["bar", "commit", "finish", "machine", "progress", "quick"]

_OPERATORS = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
}


def quick(arguments: Sequence[str] | None = None) -> bool:
    """Read the command line of a benchmark: is the short form asked for?"""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, same code")
    return bool(parser.parse_args(arguments).quick)


def progress(text: str) -> None:
    """Say on stderr how far it is."""
    print(text, file=sys.stderr, flush=True)


def bar(name: str, value: float, op: str, limit: float) -> dict[str, Any]:
    """Compare a measured value with what was promised."""
    holds = bool(_OPERATORS[op](value, limit))
    return {"name": name, "value": value, "op": op, "bar": limit, "holds": holds}


def commit() -> str:
    """Return the commit that is measured, with `-dirty` if there are changes beside it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    folder = Path(__file__).parent
    try:
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said.stdout.strip() or "unknown"


def machine() -> dict[str, Any]:
    """Describe where this ran, so that figures are not compared across machines by mistake."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_bytes / 2**30, 1),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def finish(name: str, results: Mapping[str, Any], bars: Sequence[Mapping[str, Any]]) -> NoReturn:
    """Print the report and end the program: status 1 when a bar does not hold."""
    report = {
        "benchmark": name,
        "commit": commit(),
        "machine": machine(),
        "results": results,
        "bars": bars,
    }
    print(json.dumps(report, indent=1))
    sys.exit(0 if all(each["holds"] for each in bars) else 1)

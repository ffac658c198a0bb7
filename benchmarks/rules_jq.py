"""What the worst jq programs that rules may have take on the worst lines that they are given.

jq cannot be stopped, so programs are weighed when a rule is read. Here hostile programs, each as a
term and as an extract, meet hostile lines that are just as long as each may be given. What is
weighed as too dear is refused and counted. Processor time is the least of some runs, memory the
highest that one program took above what there was before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from report import bar, finish, progress, quick
from rules.hostile_jq import PROGRAMS, lines
from steward.decide.rules.terms.programs import Program
from steward.errors import StewardError

RUNS, SHORT_RUNS = 3, 1
STATUS, PEAK_RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def memory_mib(name: str) -> float:
    """Return what the kernel says of this process: `VmRSS` is now, `VmHWM` the most."""
    found = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return int(found.split()[1]) / 1024


def ways() -> Iterator[tuple[str, bool]]:
    """Return each program, as what is asked of a line and as what is taken out of it."""
    for text in PROGRAMS:
        yield text, True
        yield text, False


def measured(text: str, *, only_asks: bool, runs: int) -> dict[str, Any]:
    """Return the most that one line costs; raises what a rule's author would be told."""
    program = Program(text, only_asks=only_asks)
    do = program.passes if only_asks else program.first
    PEAK_RESET.write_text("5")
    before_mib = memory_mib("VmRSS")
    worst_ms, worst_line = 0.0, ""
    for name, line in lines(program.longest_bytes):
        entry, took_s = line.encode(), []
        for _ in range(runs):
            began_s = time.process_time()
            do(entry)
            took_s.append(time.process_time() - began_s)
        worst_ms, worst_line = max((worst_ms, worst_line), (min(took_s) * 1000, name))
    return {
        "program": text,
        "as": "term" if only_asks else "extract",
        "longest_bytes": program.longest_bytes,
        "worst_ms": round(worst_ms, 1),
        "worst_line": worst_line,
        "grew_mib": round(memory_mib("VmHWM") - before_mib, 1),
    }


def main() -> None:
    """Measure all programs; the bars are what the documentation says."""
    runs = SHORT_RUNS if quick() else RUNS
    found: list[dict[str, Any]] = []
    refused: list[str] = []
    for text, only_asks in ways():
        try:
            found.append(measured(text, only_asks=only_asks, runs=runs))
        except StewardError as fault:
            refused.append(f"{text}: {fault.problem}")
    found.sort(key=lambda each: -float(each["worst_ms"]))
    progress(f"slowest: {found[0]}")
    most_mib = max(float(each["grew_mib"]) for each in found)
    finish(
        "rules_jq",
        {"taken": len(found), "refused": refused, "slowest": found[:10], "most_mib": most_mib},
        [
            bar("ms of the slowest program on its worst line", found[0]["worst_ms"], "<", 50.0),
            bar("MiB that a program took", most_mib, "<", 100.0),
            bar("programs that were taken", len(found), ">", 150),
        ],
    )


if __name__ == "__main__":
    main()

"""Does the lab give what the published simulators give, on the same traces by the same rules?

One line per run of a peer that the notes keep, by family of engines: rigid jobs (Tiresias, Lucid),
time shares (Gavel), elastic jobs (Pollux, Optimus, Sia), packing (FGD), shared GPUs (Lucid). Needs
the data folder.
"""

from __future__ import annotations

import time
from typing import Any

from agreement import colocation, elastic, gavel, packing, rigid
from report import bar, finish, progress, quick

FAMILIES = {
    "rigid": rigid.lines,
    "time shares": gavel.lines,
    "elastic": elastic.lines,
    "packing": packing.lines,
    "colocation": colocation.lines,
}


def main() -> None:
    """Run every family; exit 1 when any line does not hold."""
    short = quick()
    results: dict[str, Any] = {}
    bars = []
    for family, lines in FAMILIES.items():
        began = time.process_time()
        found = lines(short)
        broken = [line["what"] for line in found if not line["holds"]]
        progress(f"{family}: {len(found) - len(broken)} of {len(found)} lines hold")
        for what in broken:
            progress(f"  does not hold: {what}")
        results[family] = {"cpu_s": round(time.process_time() - began, 1), "lines": found}
        bars.append(bar(f"{family}: lines that do not hold", len(broken), "==", 0))
    finish("lab_agreement", results, bars)


if __name__ == "__main__":
    main()

"""How fast are lines read, and what does it cost when nobody writes?

All figures are of processor time, so that a busy machine changes them little. `read` is the
client alone (whole lines, decoded); `collected` is what a site has: lines with their times, storms
held back, events found. Idle is a look each second at 1,000 files of which none has changed.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from report import bar, finish, progress, quick
from steward.clients.logs.follower import FileFollower
from steward.observe.collectors.logs.log_files import LogFiles

NOW_S = 1_794_752_357.0
FILES = 1000


def main() -> None:
    """Measure, print, and exit with 1 when a bar does not hold."""
    lines = 100_000 if quick() else 500_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rates = {
            f"{kind}_lines_per_s": _rate(folder / f"{kind}.log", texts, by)
            for kind, texts, by in (
                ("read", _varied(lines), _read),
                ("collected_varied", _varied(lines), _collected),
                ("collected_alike", _alike(lines), _collected),
                ("collected_kernel_storm", _kernel_storm(lines // 5), _collected),
            )
        }
        idle_share = _idle_share(folder / "many")
    finish(
        "observe_logs",
        {"lines": lines, **rates, "idle_cpu_share_1000_files": idle_share},
        bars=[
            bar("lines read per second", rates["read_lines_per_s"], ">", 300_000),
            bar("alike lines collected per second", rates["collected_alike_lines_per_s"], ">", 3e5),
            bar("share of a core with 1,000 idle files, a look each second", idle_share, "<", 0.01),
        ],
    )


def _varied(lines: int) -> Iterator[str]:
    dice = random.Random(1)  # noqa: S311 - the same lines each time
    words = ["".join(dice.choices("ghijklmnopqrst", k=6)) for _ in range(5000)]
    for i in range(lines):
        yield f"2026-05-19 07:08:57,123 INFO {' '.join(dice.choices(words, k=4))} step {i} took 1 s"


def _alike(lines: int) -> Iterator[str]:
    return (f"2026-05-19 07:08:57,123 INFO step {i} loss 2.345 took 0.123 s" for i in range(lines))


def _kernel_storm(lines: int) -> Iterator[str]:
    return (
        f"May 19 07:08:57 n1 kernel: [68183.{i % 1000000:06}] pcieport 0000:00:03.1: PCIe Bus "
        "Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)"
        for i in range(lines)
    )


def _rate(file: Path, texts: Iterator[str], by: Callable[[Path], None]) -> float:
    progress(file.stem)
    lines = list(texts)
    file.write_text("\n".join(lines) + "\n")
    began_s = time.process_time()
    by(file)
    return round(len(lines) / (time.process_time() - began_s))


def _read(file: Path) -> None:
    follower = FileFollower([str(file)], from_start=True)
    for look in range(20):
        for _ in follower.look(NOW_S + look):
            pass


def _collected(file: Path) -> None:
    collector = LogFiles(paths=(str(file),), from_start=True, node="n1")
    for look in range(60):
        collector.collect(NOW_S + look)


def _idle_share(folder: Path) -> float:
    progress("idle")
    folder.mkdir()
    for i in range(FILES):
        (folder / f"{i}.log").write_text("hello\n")
    collector = LogFiles(paths=(f"{folder}/*.log",), node="n1")
    collector.collect(NOW_S)
    looks = 50
    began_s = time.process_time()
    for look in range(looks):
        collector.collect(NOW_S + 1 + look)
    return round((time.process_time() - began_s) / looks, 5)


if __name__ == "__main__":
    main()

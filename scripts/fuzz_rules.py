"""Feeds broken rule files and broken logs to their readers for some minutes, and keeps crashes.

    python scripts/fuzz_rules.py --minutes 10 --what parser ../shared/data/cre
    python scripts/fuzz_rules.py --minutes 10 --what logs ../shared/data/cre rules

Real files are changed: cut, doubled, spliced, with bytes and pieces of the language put in. A case
that raises, or takes longer than `--slow` seconds of processor time, is kept as a file in `--keep`.
Exit status 1 when there was one. What is tried is in `tests/fuzz/WHAT.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

TESTS = Path(__file__).parent.parent / "tests"
LONGEST = 200_000  # bytes of a case; longer ones are slow to read, and break nothing else


def main(args: Sequence[str]) -> int:
    """Try cases until the time is over."""
    given = _given(args)
    sys.path.insert(0, str(TESTS))
    target = importlib.import_module(f"fuzz.{given.what}")
    seeds = list(_seeds(given.folders, target))
    dice = random.Random(given.seed)  # noqa: S311 - nothing here is secret
    end = time.monotonic() + given.minutes * 60
    cases, kept = 0, set()
    while time.monotonic() < end:
        data = _changed(seeds, target.PIECES, dice)
        cases += 1
        why = _tried(target.one_case, data, given.slow)
        if why:
            kept.add(why)
            print(f"{_kept(data, given.keep)}: {why}", flush=True)
    print(f"{given.what}: {cases} cases from {len(seeds)} seeds, {len(kept)} kinds of crash")
    return 1 if kept else 0


def _given(args: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Feed broken files to readers of rules and logs.")
    parser.add_argument("folders", type=Path, nargs="*", help="where real files are")
    parser.add_argument("--what", choices=("parser", "logs"), default="parser")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slow", type=float, default=5.0, help="seconds that one case may take")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-crashes"))
    return parser.parse_args(args)


def _seeds(folders: Sequence[Path], target: ModuleType) -> Iterator[bytes]:
    yield from target.SEEDS
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in target.SUFFIXES and path.is_file():
                yield path.read_bytes()[:LONGEST]


def _changed(seeds: Sequence[bytes], pieces: Sequence[bytes], dice: random.Random) -> bytes:
    data = dice.choice(seeds)
    for _ in range(dice.choice((1, 1, 2, 3, 5, 8))):
        start = dice.randrange(len(data) + 1)
        stop = min(len(data), start + dice.choice((0, 1, 4, 30, 300)))
        other = dice.choice(seeds)
        there = dice.randrange(len(other) + 1)
        middle = dice.choice(
            (
                b"",
                dice.choice(pieces),
                dice.choice(pieces) * dice.choice((2, 20, 200)),
                dice.randbytes(dice.choice((1, 2, 8))),
                data[start:stop] * dice.choice((2, 3, 30)),
                other[there : there + dice.choice((5, 50, 500))],
            )
        )
        data = data[:start] + middle + data[stop:]
    return data[:LONGEST]


def _tried(one_case: Callable[[bytes], None], data: bytes, slow_s: float) -> str:
    """Return why a case is worth keeping; '' when all is well."""
    before = time.process_time()
    try:
        one_case(data)
    except Exception as error:  # noqa: BLE001 - finding these is the point
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {error}"[:300]
    took = time.process_time() - before
    return f"took {took:.1f} s" if took > slow_s else ""


def _kept(data: bytes, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

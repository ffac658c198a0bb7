"""Feeds broken rule files, logs, conditions and streams to their readers, and keeps what crashes.

    python scripts/fuzz_rules.py --minutes 10 --what parser ../shared/data/cre
    python scripts/fuzz_rules.py --minutes 10 --what logs --engine atheris --json out.json rules

Real files are changed: cut, doubled, spliced, with bytes and pieces of the language put in; with
`--engine atheris` (a package of that name) what is changed is guided by which code it reaches. A
case that raises, or takes longer than `--slow` seconds of processor time, is kept as a file in
`--keep`. Exit status 1 when there was one. What is tried is in `tests/fuzz/WHAT.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent
LONGEST = 200_000  # bytes of a case; longer ones are slow to read, and break nothing else
WHATS = ("parser", "logs", "metric", "engine")


@dataclass(kw_only=True)
class Trials:
    """Tries cases and counts them."""

    target: ModuleType
    given: argparse.Namespace
    seeds: list[bytes]
    began_s: float = field(default_factory=time.monotonic)
    cases: int = 0
    kinds: set[str] = field(default_factory=set)

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() - self.began_s >= float(self.given.minutes) * 60

    def one(self, data: bytes) -> None:
        """Try one case, and keep it if it is worth that."""
        self.cases += 1
        kind, why = _tried(self.target.one_case, data, self.given.slow)
        if why and kind not in self.kinds:
            print(f"{_kept(data, self.given.keep)}: {why}", flush=True)
        self.kinds |= {kind} if why else set()

    def end(self) -> int:
        """Say what was tried, and return the exit status."""
        what, minutes = self.given.what, (time.monotonic() - self.began_s) / 60
        print(
            f"{what}: {self.cases} cases from {len(self.seeds)} seeds in {minutes:.1f} min, "
            f"{len(self.kinds)} kinds of crash",
            flush=True,
        )
        if self.given.json:
            row = {
                "engine": self.given.engine,
                "cases": self.cases,
                "seeds": len(self.seeds),
                "minutes": round(minutes, 1),
                "crashes": sorted(self.kinds),
            }
            _noted(self.given.json, f"{what} ({self.given.engine})", row)
        return 1 if self.kinds else 0


def main(args: Sequence[str]) -> int:
    """Try cases until the time is over."""
    given = _given(args)
    sys.path.insert(0, str(ROOT / "tests"))
    if given.engine == "atheris":
        return _guided(given)
    target = importlib.import_module(f"fuzz.{given.what}")
    trials = Trials(target=target, given=given, seeds=list(_seeds(given.folders, target)))
    for seed in target.SEEDS:
        target.one_case(seed)  # compiles what has to be compiled, which is slow
    dice = random.Random(given.seed)  # noqa: S311 - nothing here is secret
    while not trials.over:
        trials.one(_changed(trials.seeds, target.PIECES, dice))
    return trials.end()


def _guided(given: argparse.Namespace) -> int:
    """Let atheris choose the cases. It never returns, so the last case ends the process."""
    atheris = importlib.import_module("atheris")  # not among what steward needs
    with atheris.instrument_imports(include=["steward"], exclude=_compiled()):
        target = importlib.import_module(f"fuzz.{given.what}")
    trials = Trials(target=target, given=given, seeds=list(_seeds(given.folders, target)))
    for seed in target.SEEDS:
        target.one_case(seed)  # compiles what has to be compiled, which is slow

    def one(data: bytes) -> None:
        trials.one(data)
        if trials.over:
            status = trials.end()
            sys.stdout.flush()
            os._exit(status)

    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(trials.seeds):
            (Path(folder) / f"{number:05d}").write_bytes(seed)
        words = Path(folder).with_suffix(".dict")
        words.write_text("".join(_word(each) for each in target.PIECES if 0 < len(each) < 60))
        options = [f"-dict={words}", "-max_len=20000", f"-seed={given.seed + 1}", "-verbosity=0"]
        options += [f"-artifact_prefix={folder}/", "-report_slow_units=1000", "-rss_limit_mb=4096"]
        atheris.Setup([sys.argv[0], *options, folder], one)
        atheris.Fuzz()
    return 1


def _compiled() -> list[str]:
    """Return the modules that numba compiles, which cannot be told where they are."""
    source = ROOT / "src"
    files = [each for each in source.rglob("*.py") if "njit" in each.read_text(encoding="utf-8")]
    return [".".join(each.relative_to(source).with_suffix("").parts) for each in files]


def _word(piece: bytes) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in piece) + '"\n'


def _noted(path: Path, name: str, row: dict[str, Any]) -> None:
    """Put one result among those of other runs."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    report = importlib.import_module("report")
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"results": {}}
    known |= {"benchmark": "rules_fuzz", "commit": report.commit(), "machine": report.machine()}
    known["results"][name] = row
    path.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


def _given(args: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Feed broken input to what reads it for rules.")
    parser.add_argument("folders", type=Path, nargs="*", help="where real files are")
    parser.add_argument("--what", choices=WHATS, default="parser")
    parser.add_argument("--engine", choices=("random", "atheris"), default="random")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slow", type=float, default=5.0, help="seconds that one case may take")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-crashes"))
    parser.add_argument("--json", type=Path, help="a file in which results are noted")
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


def _tried(one_case: Callable[[bytes], None], data: bytes, slow_s: float) -> tuple[str, str]:
    """Return what kind of crash a case is, and why it is worth keeping; '' when all is well."""
    before = time.process_time()
    try:
        one_case(data)
    except Exception as error:  # noqa: BLE001 - finding these is the point
        last = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
        return kind, f"{kind}: {error}"[:1000]
    took = time.process_time() - before
    return "slow", f"took {took:.1f} s" if took > slow_s else ""


def _kept(data: bytes, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`make example-ecology`: one season under three strategies, and its page.

Run: python -m ecology [--seed 1] [--weeks 6] [--frames 150] [--out build/ecology] [--direct]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steward.cli.output import plain, print_error
from steward.errors import StewardError

if TYPE_CHECKING:
    from ecology.page import SeasonReport

__all__ = ["main"]


def main() -> int:
    """Run the example; exit with 2 where a person has to do something first."""
    given = _arguments()
    try:
        return _run(given)
    except StewardError as fault:
        print_error(fault, as_json=False)
        return 2


def _run(given: argparse.Namespace) -> int:
    _check(given)
    from ecology.page import write_page  # noqa: PLC0415 - torch may be missing
    from ecology.season import with_jobs, without_jobs  # noqa: PLC0415
    from ecology.stream import Season  # noqa: PLC0415

    out: Path = given.out.resolve()  # jobs have folders of their own
    out.mkdir(parents=True, exist_ok=True)
    season = Season(seed=given.seed, weeks=given.weeks, frames_per_day=given.frames)
    run = without_jobs if given.direct else with_jobs
    report = run(season, out / time.strftime("run-%Y%m%d-%H%M%S"), _say())
    write_page(report, out / "page.html")
    (out / "results.json").write_text(json.dumps(_record(report), indent=1), encoding="utf-8")
    for line in _lines(report):
        print(line)
    print(f"page: {out / 'page.html'}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ecology", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weeks", type=int, default=6, help="of the season, at least 1")
    parser.add_argument("--frames", type=float, default=150.0, help="of a camera in a day")
    parser.add_argument("--out", type=Path, default=Path("build/ecology"), metavar="FOLDER")
    parser.add_argument("--direct", action="store_true", help="train here, not as steward's jobs")
    return parser.parse_args()


def _check(given: argparse.Namespace) -> None:
    faults = []
    if given.seed < 0:
        faults.append(f"--seed is {given.seed}, not at least 0")
    if not 1 <= given.weeks <= 52:
        faults.append(f"--weeks is {given.weeks}, not 1 to 52")
    if not 40 <= given.frames <= 2000:
        faults.append(f"--frames is {given.frames:g}, not 40 to 2000")
    if given.out.exists() and not given.out.is_dir():
        faults.append(f"--out is a file: {given.out}")
    if faults:
        raise StewardError("; ".join(faults), where="ecology", hint="python -m ecology --help")
    try:
        import torch  # noqa: F401, PLC0415
    except ImportError as fault:
        hint = "pip install 'steward[torch]', or make example-ecology"
        raise StewardError("torch is not installed", where="ecology", hint=hint) from fault


def _say() -> Any:  # noqa: ANN401 - a function
    began_s = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began_s:5.0f} s] {text}", file=sys.stderr, flush=True)

    return say


def _record(report: SeasonReport) -> dict[str, Any]:
    figures = ("labels", "labels_share", "saved_share", "recall", "usd", "grams_co2")
    return {
        "seed": report.seed,
        "took_s": report.took_s,
        "strategies": [
            {**{name: getattr(each, name) for name in figures}, "season": plain(each)}
            for each in report.results
        ],
    }


def _lines(report: SeasonReport) -> list[str]:
    head = "strategy            F1 by week" + " " * (7 * len(report.results[0].weeks) - 10)
    lines = [f"{head}  labels   saved  recall"]
    for each in report.results:
        weeks = " ".join(f"{week.f1:6.3f}" for week in each.weeks)
        lines.append(
            f"{each.strategy:<18} {weeks}  {each.labels:6,}  {each.saved_share:6.1%}"
            f"  {each.recall:6.1%}"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())

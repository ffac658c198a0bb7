"""What is promised and expected of loans, by what really happened on an H200.

`benchmarks/lending.py --record` wrote the recording: 22 loans, with the times of their steps.
"""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from steward.model.yielding import KNOWN, Measured, promise_s, suspension_s

DATA = Path(__file__).parent / "data" / "lending-h200"
GRACE_S = 10.0  # of the benchmark; its borrowers may be ended
SAVED_BYTES = 256 << 20  # by its borrowers, each time
GONE_ON = re.compile(r"goes on after ([\d.]+) s")


def loans(name: str) -> list[dict[str, Any]]:
    """Return the loans that were recorded, the first one first."""
    read = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return sorted(read["loans"], key=lambda each: int(each["id"].removeprefix("d-")))


def suspensions() -> list[tuple[Measured, Measured]]:
    """Return how long each suspension and the resumption after it took."""
    found = []
    for loan in loans("suspended"):
        at_s = {re.sub(r"\d+", "N", text): t_s for t_s, text in loan["notes"]}
        began_s, t_s = at_s["process N is being suspended"], at_s["job N is suspended"]
        resumed = next(match for _, text in loan["notes"] if (match := GONE_ON.search(text)))
        times = {"suspend": t_s - began_s, "resume": float(resumed[1])}
        suspend, resume = (
            Measured(kind=kind, seconds=each_s, t_s=t_s, size_bytes=loan["size_bytes"])
            for kind, each_s in times.items()
        )
        found.append((suspend, resume))
    return found


def test_each_promise_is_the_one_that_we_make_of_the_earlier_call_backs_and_was_kept() -> None:
    by_size = by_times = 0
    for name in ("suspended", "beside_and_saved"):
        for _, of_one in groupby(loans(name), key=lambda each: str(each["borrower"])):
            times: list[float] = []
            for loan in of_one:
                size = SAVED_BYTES if times else 0  # not known before its first save
                made_s = promise_s(times, size_bytes=size, save_s=0.0, step_s=0.0, end_s=GRACE_S)
                assert loan["promised_s"] == pytest.approx(made_s, abs=0.01), loan["id"]
                assert loan["took_s"] <= made_s, loan["id"]
                by_times += len(times) >= KNOWN
                by_size += len(times) < KNOWN
                times.append(loan["took_s"])
    assert (by_size, by_times) == (18, 4)


def test_what_a_suspension_costs_was_never_more_than_we_expect_of_it_beforehand() -> None:
    for pair in suspensions():
        for real in pair:
            assert real.seconds <= suspension_s((), real.kind, real.size_bytes)
            assert real.seconds > suspension_s((), real.kind, real.size_bytes) / 4


def test_what_we_expect_after_ten_suspensions_is_close_to_what_the_next_ones_took() -> None:
    measured = suspensions()
    known = [each for pair in measured[:10] for each in pair]

    for pair in measured[10:]:
        for real in pair:
            expected_s = suspension_s(known, real.kind, real.size_bytes)
            assert real.seconds == pytest.approx(expected_s, rel=0.35)

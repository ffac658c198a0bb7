from __future__ import annotations

import os
from pathlib import Path

import pytest

from steward.model.rules import Mode, Stream
from steward.observe.logs import ReadCounts, read_blocks
from steward.observe.logs.formats import Years, detect

DATA = Path(os.environ.get("STEWARD_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
YEARS = Years(now_s=1_750_000_000.0)
ISO = b"2025-06-01 00:00:01.000 x\n"
SLASH = b"2025/06/01 00:00:01 x\n"


def name(sample: bytes, mode: Mode) -> str:
    return detect(sample, mode=mode, years=YEARS).name


def test_in_preq_an_earlier_format_on_line_51_beats_a_later_one_on_line_1() -> None:
    assert name(SLASH * 50 + ISO, Mode.PREQ) == "iso-millis"
    assert name(SLASH * 51 + ISO, Mode.PREQ) == "slashes"


def test_strict_takes_what_reads_most_lines_and_gives_the_rest_to_others() -> None:
    assert name(SLASH * 9 + ISO, Mode.STRICT) == "slashes"
    assert name(SLASH * 9 + ISO * 2, Mode.STRICT) == "slashes+iso"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"00:12:01 x\n", "clock"),
        (b"[00:12:01] x\n", "clock-bracketed"),
        (b"1748736001 x\n", "epoch"),
    ],
)
def test_numbers_are_times_only_where_most_lines_begin_with_one(line: bytes, expected: str) -> None:
    assert name(line * 2 + b"loss 0.5\n", Mode.STRICT) == expected
    assert name(line + b"loss 0.5\nloss 0.4\n", Mode.STRICT) == "none"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"log":"x\\n","stream":"stdout","time":"2025-06-01T00:00:01Z"}', "docker-json"),
        (b"2025-06-01T00:00:01Z stderr F x", "cri"),
        (b"2025-06-01T00:00:01Z x", "rfc3339-ahead"),
    ],
)
def test_in_preq_parcels_are_seen_on_a_first_line_that_ends(line: bytes, expected: str) -> None:
    assert name(line + b"\n", Mode.PREQ) == expected
    assert name(line + b"\n", Mode.STRICT) == expected
    assert name(line, Mode.PREQ) in ("none", "rfc3339")
    assert name(b"header\n" + line + b"\n", Mode.PREQ) in ("none", "rfc3339")


@pytest.mark.parametrize(
    "line",
    [
        b'{"log":"","stream":"stdout","time":"2025-06-01T00:00:01Z"}\n',
        b'{"log":"x","stream":"other","time":"2025-06-01T00:00:01Z"}\n',
        b'{"log":"x","stream":"stdout","time":"yesterday"}\n',
        b'{"log":1,"stream":"stdout","time":"2025-06-01T00:00:01Z"}\n',
        b'{"log":"x"\n',
        b"[" * 5000 + b"\n",
        b'{"a":' * 5000 + b"\n",
    ],
)
def test_what_only_looks_like_a_parcel_is_none(line: bytes) -> None:
    assert name(line, Mode.PREQ) == "none"


def test_a_number_somewhere_in_a_line_is_no_second_format() -> None:
    sample = ISO * 5 + b'payload {"ts": 12}\n' * 4

    assert name(sample, Mode.STRICT) == "iso"


@pytest.mark.data
def test_every_log_of_the_public_corpus_has_a_format_in_both_modes() -> None:
    logs = sorted((DATA / "cre").glob("*/test*.log"))
    seen: dict[str, int] = {}
    for mode in Mode:
        for log in logs:
            tally = ReadCounts()
            blocks = list(read_blocks(log, mode=mode, stream=Stream(name=log.name), tally=tally))
            assert sum(map(len, blocks)) == tally.entries > 0
            seen[f"{mode.value} {tally.format}"] = seen.get(f"{mode.value} {tally.format}", 0) + 1

    assert len(logs) > 180
    assert seen["preq iso-millis"] == 143
    # Two logs are one line that does not end: preq looks for the time ahead on whole lines only.
    assert (seen["preq rfc3339-ahead"], seen["strict rfc3339-ahead"]) == (22, 24)
    assert "strict none" not in seen

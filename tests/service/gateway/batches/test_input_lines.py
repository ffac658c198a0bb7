"""Lines of files that come in parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_bed import line
from steward.service.gateway.batches.input_lines import InputLines, lines_of

PARTS = st.lists(st.text("ab\n", max_size=12).map(str.encode), max_size=8)


@given(parts=PARTS, limit=st.integers(1, 9))
def test_lines_do_not_depend_on_where_a_file_is_cut(parts: list[bytes], limit: int) -> None:
    whole = b"".join(parts).split(b"\n")
    if whole[-1] == b"":
        whole.pop()

    found = list(lines_of(parts, limit))

    assert found == [None if len(each) > limit else each for each in whole]


def test_a_line_that_is_too_long_is_a_fault_and_the_next_is_read() -> None:
    parts = [line("a"), b'{"custom_id": "' + b"x" * 400, b"x" * 400 + b'"}\n', line("b")]
    lines = InputLines(endpoint="/v1/completions", line_limit_bytes=300, most_requests=10)

    items = list(lines.items(parts))

    assert [each.custom_id for each in items] == ["a", None, "b"]
    assert items[1].fault is not None
    assert (items[1].fault.code, items[1].fault.line) == ("line_too_long", 2)
    assert items[0].model == "m"
    assert not lines.too_many


def test_reading_ends_at_the_first_request_too_many() -> None:
    lines = InputLines(endpoint="/v1/completions", line_limit_bytes=300, most_requests=2)

    items = list(lines.items([line("a"), b"\n", line("b"), line("c"), line("d")]))

    assert [each.custom_id for each in items] == ["a", "b"]
    assert lines.too_many


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        (line("deep", body={"model": "m", "prompt": "DEEP"}), "body"),
        (line("nul\0"), "custom_id"),
        (line("model", body={"model": "m\0", "prompt": "x"}), "body.model"),
    ],
    ids=["nested deeper than can be written", "NUL in the id", "NUL in the model"],
)
def test_what_could_not_be_kept_is_a_fault_of_its_line_only(wrong: bytes, param: str) -> None:
    deep = wrong.replace(b'"DEEP"', b"[" * 400 + b"]" * 400)
    lines = InputLines(endpoint="/v1/completions", line_limit_bytes=2000, most_requests=10)

    items = list(lines.items([deep, line("good")]))

    assert items[0].fault is not None
    assert (items[0].fault.code, items[0].fault.param) == ("invalid_request", param)
    assert "\0" not in (items[0].custom_id or "")
    assert (items[1].custom_id, items[1].fault) == ("good", None)

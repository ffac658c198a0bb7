"""What every HTML report shares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steward.documents import Axis, axis_of, document, escaped, table, write_document
from steward.documents.svg import area, picture
from steward.errors import StewardError


def test_text_from_elsewhere_is_escaped_everywhere() -> None:
    hostile = '<script>"x"</script>\x1b[2J'

    made = (
        escaped(hostile),
        document(hostile, ()),
        "".join(table((hostile,), ((hostile,),))),
        picture((), width=1, height=1, title=hostile),
    )

    assert not any("<script>" in each or "\x1b" in each for each in made)


def test_a_page_may_load_and_run_nothing() -> None:
    assert "default-src 'none'" in document("x", ())


def test_an_area_begins_and_ends_on_its_floor() -> None:
    drawn = area(np.array([0.0, 1.0, 2.0]), np.array([5.0, 7.0]), 9.0, kind="k")

    assert 'points="0.0,9.0 0.0,5.0 1.0,5.0 1.0,7.0 2.0,7.0 2.0,9.0"' in drawn


def test_a_range_too_small_for_ticks_has_one() -> None:
    assert Axis(low=1.0, high=1.0, from_px=0, to_px=1).ticks() == [1.0]
    assert axis_of(np.array([np.nan]), px=(0, 1)).ticks()


def test_what_cannot_be_written_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="the report cannot be written"):
        write_document("x", tmp_path / "no" / "r.html")

    assert list(tmp_path.iterdir()) == []

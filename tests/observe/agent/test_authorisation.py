"""What a parcel may hold: nothing of a time to come, whatever part of it has that time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from observe.parcels import T0, full, label
from steward.errors import StewardError
from steward.model.event import Observation
from steward.observe.agent.authorisation import check_times
from steward.observe.agent.parcel import open_parcel, pack_parcel

YEAR_2200 = 7_258_118_400.0


def ahead(part: str) -> Observation:
    seen = full()
    if part == "other":
        return replace(seen, other=seen.other.with_columns(t_s=YEAR_2200 + 0 * seen.other["t_s"]))
    name = "from_s" if part == "spans" else "t_s"
    moved = {name: YEAR_2200} | ({"to_s": None} if part == "spans" else {})
    return replace(seen, **{part: tuple(replace(each, **moved) for each in getattr(seen, part))})


@pytest.mark.parametrize("part", ["lines", "events", "spans", "other"])
def test_no_part_of_a_parcel_may_be_of_a_time_to_come(part: str) -> None:
    parcel = open_parcel(pack_parcel(label(), ahead(part)))

    with pytest.raises(StewardError, match="ahead of the server's clock"):
        check_times(parcel, T0)


def test_a_parcel_of_now_may_come() -> None:
    check_times(open_parcel(pack_parcel(label(), full())), T0)

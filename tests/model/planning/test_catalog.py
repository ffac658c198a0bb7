"""Values of the catalogue refuse what contradicts itself."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.model.planning.catalog import (
    Accelerator,
    Catalog,
    CatalogSite,
    Charging,
    Engine,
    Queue,
    Source,
)


def queue(**changes: Any) -> Queue:
    values: dict[str, Any] = {"name": "q", "cores_per_node": 8, "memory_bytes_per_node": 10**9}
    return Queue(**(values | changes))


def site(*queues: Queue, **changes: Any) -> CatalogSite:
    values: dict[str, Any] = {"name": "s", "engine": Engine.SLURM, "queues": queues}
    return CatalogSite(**(values | changes))


def accelerator(**changes: Any) -> Accelerator:
    values: dict[str, Any] = {
        "name": "H100",
        "memory_bytes": 80 * 10**9,
        "memory_bytes_per_s": 3.35e12,
        "watts": 700.0,
        "flops": {"bf16": 989e12},
        "aliases": ("h100-sxm",),
    }
    return Accelerator(**(values | changes))


@given(day=st.dates(min_value=date(1970, 1, 1)), later_s=st.floats(0, 1e10))
def test_the_age_of_a_fact_agrees_with_the_calendar(day: date, later_s: float) -> None:
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    then_s = (midnight - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1)

    age_s = Source(text="", as_of=day.isoformat()).age_s(then_s + later_s)

    assert age_s == pytest.approx(later_s, abs=1e-3)


def test_facts_of_tomorrow_are_new_and_undated_ones_of_unknown_age() -> None:
    assert Source(text="", as_of="2026-11-20").age_s(0.0) == 0.0
    assert Source(text="", as_of="").age_s(0.0) is None


@pytest.mark.parametrize(
    "text", ["2026", "2026-8-1", "2026-13-01", "2026-02-29", "2100-02-29", "0000-01-01", "soon"]
)
def test_what_is_no_day_is_refused(text: str) -> None:
    with pytest.raises(StewardError, match="is not a day"):
        Source(text="", as_of=text)


def test_leap_days_are_days() -> None:
    assert Source(text="", as_of="2024-02-29").as_of == "2024-02-29"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"cores_per_node": -1}, "cores_per_node is -1"),
        ({"start_s": -1.0}, "start_s is -1"),
        ({"min_nodes": 0}, "min_nodes is 0"),
        ({"min_nodes": 3, "max_nodes": 2}, "min_nodes is 3, and max_nodes is 2"),
        ({"min_nodes": 3, "nodes": 2}, "min_nodes is 3, and nodes is 2"),
        ({"max_s": 0.0}, "max_s is 0"),
        ({"gpu_model": "H100"}, "its GPUs are H100, and a node has none"),
    ],
)
def test_contradictory_limits_are_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(StewardError, match=says) as caught:
        queue(**wrong)

    assert caught.value.where == "queue 'q'"
    assert caught.value.hint


def test_charging_never_pays_people() -> None:
    with pytest.raises(StewardError, match="rate is -1, minimum_s is -2"):
        Charging(rate=-1.0, minimum_s=-2.0)


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(StewardError, match="rate is nan"):
        Charging(rate=float("nan"))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"grams_per_kwh": -1.0}, "grams_per_kwh is -1"),
        ({"power_usage_effectiveness": 0.9}, "power_usage_effectiveness is 0.9"),
        ({"queues": (queue(), queue())}, "there are two of queue q"),
    ],
)
def test_sites_that_cannot_be_are_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(StewardError, match=says):
        site(**wrong)


def test_an_accelerator_has_no_negative_rates() -> None:
    with pytest.raises(StewardError, match="flops of bf16 is -1"):
        accelerator(flops={"bf16": -1.0})


def test_names_in_a_catalogue_are_unique() -> None:
    with pytest.raises(StewardError, match="two of site s"):
        Catalog(sites=(site(), site()))
    with pytest.raises(StewardError, match="two of accelerator H100"):
        Catalog(accelerators=(accelerator(), accelerator()))


def test_sites_and_queues_are_found_by_name_or_the_nearest_is_named() -> None:
    catalog = Catalog(sites=(site(queue(name="gpu"), name="pitzer"),))

    assert catalog.site("pitzer").queue("gpu").name == "gpu"
    with pytest.raises(StewardError, match="no site 'pitzr'") as caught:
        catalog.site("pitzr")
    assert caught.value.hint == "did you mean 'pitzer'?"
    with pytest.raises(StewardError, match="no queue 'zzz'") as caught:
        catalog.site("pitzer").queue("zzz")
    assert caught.value.hint == "known: gpu"


def test_an_empty_catalogue_says_so() -> None:
    with pytest.raises(StewardError) as caught:
        Catalog().site("any")

    assert "planning.catalog" in caught.value.hint


def test_accelerators_are_found_by_alias_whatever_the_case() -> None:
    catalog = Catalog(accelerators=(accelerator(),))

    found = catalog.accelerator("H100-SXM")

    assert found is not None
    assert found.name == "H100"
    assert catalog.accelerator("A100") is None

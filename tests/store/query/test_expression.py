"""The short expressions: what they mean, and where a mistake is reported."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import samples
from steward.errors import StewardError
from steward.store.query import Query, is_sql, parse
from steward.store.query.tier_choice import pieces
from steward.store.telemetry import Telemetry

T0 = 1_700_000_000.0 // 300 * 300
BUSY = "gpu.busy_share"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with closing(Telemetry(tmp_path / "telemetry")) as telemetry:
        for second in range(600):
            rows = {"n1/gpu0": {BUSY: 0.0 if second < 300 else 1.0}, "n2/gpu0": {BUSY: 0.5}}
            telemetry.append(samples(T0 + second, rows))
            telemetry.append(samples(T0 + second, {"n1": {"host.load_1m": second / 600}}))
    return tmp_path


def answer(folder: Path, text: str) -> list[tuple[object, ...]]:
    with Query(folder) as query:
        return query.run(parse(text).sql(query.newest_s())).rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"mean({BUSY})", [(0.5,)]),
        (f"mean({BUSY}) by node", [("n1", 0.5), ("n2", 0.5)]),
        (f"max({BUSY}), min({BUSY}) by entity top 1", [("n1/gpu0", 1.0, 0.0)]),
        (f"max({BUSY}) by entity bottom 1", [("n2/gpu0", 0.5)]),
        (f"sum({BUSY}), count({BUSY}) from {T0 + 3} to {T0 + 307} where node = n1", [(7.0, 304)]),
        (f"max({BUSY}), min({BUSY}) by entity since 302s top 1", [("n1/gpu0", 1.0, 0.0)]),
        ("count(entity) where kind = gpu", [(1200,)]),
        (
            f'mean({BUSY}) every 5m where entity ~ "n1/*"',
            [(T0, 0.0), (T0 + 300, 1.0)],
        ),
        (f"mean({BUSY}) by entity since 100s", [("n1/gpu0", 1.0), ("n2/gpu0", 0.5)]),
        (f"count({BUSY}) where {BUSY} >= 1", [(300,)]),
        (f"count({BUSY}) where entity !~ 'n1*' and node != \"n3\"", [(600,)]),
        (f"last({BUSY}) by entity from {T0} to {T0 + 10}", [("n1/gpu0", 0.0), ("n2/gpu0", 0.5)]),
        (f"p95({BUSY}), median({BUSY}) where node = n2", [(0.5, 0.5)]),
        ("count(host.load_1m) by kind", [("node", 600)]),
    ],
)
def test_a_question_is_answered(
    folder: Path, text: str, expected: list[tuple[object, ...]]
) -> None:
    assert answer(folder, text) == expected


def test_the_coarsest_tier_that_answers_exactly_is_read() -> None:
    def tables(text: str) -> list[str]:
        return re.findall(r"FROM (\w+)", parse(text).sql(10_000_000.0))

    assert tables(f"mean({BUSY}) every 10m") == ["telemetry_5m"]
    assert tables(f"mean({BUSY}) by entity bottom 10") == ["telemetry_5m"]
    assert tables(f"max({BUSY}) by node every 1m") == ["telemetry_10s"]
    assert tables(f"p95({BUSY}) every 5m") == ["telemetry"]
    assert tables(f"mean({BUSY}) by job every 5m") == ["telemetry"]
    assert tables(f"mean({BUSY}) every 7s") == ["telemetry"]
    assert tables("count(entity)") == ["telemetry"]
    assert tables(f"mean({BUSY}) every 5m from 600 to 900") == ["telemetry_5m"]


def test_only_the_ends_of_a_time_are_read_from_samples() -> None:
    def tables(text: str) -> list[str]:
        return re.findall(r"FROM (\w+)", parse(text).sql(10_000_000.0))

    assert tables(f"mean({BUSY}) every 5m from 600 to 911") == ["telemetry_5m", "telemetry"]
    assert tables(f"mean({BUSY}) by entity since 1d") == ["telemetry_5m", "telemetry"]
    assert tables(f"mean({BUSY}) from 601 to 911") == ["telemetry_10s", "telemetry", "telemetry"]
    assert tables(f"mean({BUSY}) from 601 to 609") == ["telemetry"]


@given(
    from_s=st.floats(0, 2_000),
    takes_s=st.floats(1, 2_000),
    every_s=st.sampled_from([None, 7.0, 10.0, 300.0]),
)
def test_pieces_are_the_whole_time_and_nothing_twice(
    from_s: float, takes_s: float, every_s: float | None
) -> None:
    found = sorted(pieces(from_s, from_s + takes_s, every_s=every_s), key=lambda each: each.from_s)

    assert found[0].from_s == from_s
    assert found[-1].to_s == from_s + takes_s
    assert all(a.to_s == b.from_s for a, b in pairwise(found))
    for tier, time_s in [(p.tier, t_s) for p in found if p.tier for t_s in (p.from_s, p.to_s)]:
        assert time_s % tier.step_s == 0


def test_the_tier_answers_for_samples_that_were_removed(folder: Path) -> None:
    with closing(Telemetry(folder / "telemetry")) as telemetry:
        telemetry.table.compactor.compact_all()
    for day in (folder / "telemetry").glob("date=*"):
        shutil.rmtree(day)
    queried = parse(f"count({BUSY}) from {T0 + 3} to {T0 + 601} where node = n2")

    with Query(folder, from_s=T0 + 3, to_s=T0 + 601) as query:
        query.expect(queried.metrics)
        rows = query.run(queried.sql(0.0)).rows

    assert rows == [(300,)]


@pytest.mark.parametrize("ends_s", [400, 410, 411, 600])
def test_every_tier_ends_where_the_question_ends(folder: Path, ends_s: int) -> None:
    time = f"every 5m from {T0} to {T0 + ends_s}"

    assert answer(folder, f"count({BUSY}) {time} where node = n2") == [
        (T0, 300),
        (T0 + 300, ends_s - 300),
    ]


def test_since_begins_with_a_whole_step_whatever_is_worked_out(folder: Path) -> None:
    mean = answer(folder, f"mean({BUSY}) every 5m since 7m where node = n1")
    median = answer(folder, f"median({BUSY}) every 5m since 7m where node = n1")

    assert mean == median == [(T0, 0.0), (T0 + 300, 1.0)]


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("meen(x)", 1, "known: mean"),
        ("mean x", 6, "'(' is expected"),
        ("mean(x", 7, "')' is expected, but it ends here"),
        ("mean(x) by enttiy", 12, "is not a field"),
        ("mean(x) every soon", 15, "is no time"),
        ("mean(x) every 0s", 15, "is no time"),
        ("mean(x) since", 14, "is expected, but it ends here"),
        ("mean(x) where entity > 3", 22, "is a text"),
        ("mean(x) where y ~ 'a'", 15, "only a field"),
        ("mean(x) where y > 'a'", 19, "compared with a number"),
        ("mean(x) %", 9, "cannot read"),
        ("mean(x) limit 3", 9, "known: by, every"),
        ("mean(x) from yesterday", 14, "is no moment"),
        ("mean(x) from 5 to 3", 19, "ends before it begins"),
        ("mean(x) from 5 to", 18, "ends here"),
        ("mean(x) top 0", 13, "is no number of rows"),
        ("mean(x) top -3", 13, "is no number of rows"),
        ("mean(x) top 1.5", 13, "is no number of rows"),
        ("mean(x) top 3 bottom 3", 15, "top and bottom exclude"),
        ("mean(x) every 1m every 2m", 18, "is there twice"),
        ("mean(entity)", 6, "is a text"),
        ("", 1, "is expected"),
    ],
)
def test_a_mistake_is_reported_with_its_place(text: str, column: int, problem: str) -> None:
    with pytest.raises(
        StewardError, match=problem.replace("(", r"\(").replace(")", r"\)")
    ) as caught:
        parse(text)

    assert caught.value.where == f"query, column {column}"


@given(st.text(max_size=40))
def test_no_text_makes_the_parser_stumble(text: str) -> None:
    try:
        sql = parse(text).sql(0.0)
    except StewardError as fault:
        assert fault.where.startswith("query, column")
    else:
        assert sql.startswith("SELECT")


def test_names_cannot_smuggle_sql_in(folder: Path) -> None:
    text = f'count({BUSY}) where entity = "x\' OR true --"'

    assert answer(folder, text) == [(0,)]


@pytest.mark.parametrize(
    "text",
    [
        "select 1",
        "  WITH a AS (SELECT 1) FROM a",
        "FROM telemetry",
        "(SELECT 1)",
        "-- why\nSELECT 1",
        "/* why */ SELECT 1",
        "DROP VIEW telemetry",
        "selct * from telemetry",
    ],
)
def test_sql_is_distinguished_from_the_small_form(text: str) -> None:
    assert is_sql(text)
    assert not is_sql(f"mean({BUSY})")
    assert not is_sql("selected(x)")

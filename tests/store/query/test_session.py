"""SQL over a folder: answers, and nothing but answers."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from factories import samples
from steward.errors import StewardError
from steward.model.event import Event, Observation
from steward.model.span import Span
from steward.store.files.parquet import TableSchema
from steward.store.journal import open_journal
from steward.store.query import Query, QueryLimits
from steward.store.query.duplicates import repeated
from steward.store.query.views import scan_sql
from steward.store.recording import Recording

T0 = 1_700_000_000.0
BUSY, WATTS, LOAD = "gpu.busy_share", "gpu.power_watts", "host.load_1m"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with closing(Recording(tmp_path / "data")) as recording:
        for second in range(10):
            rows = {
                "n1/gpu0": {BUSY: second / 10, WATTS: 80.0},
                "n2/gpu0": {BUSY: 1.0, WATTS: 700.0},
            }
            recording.telemetry.append(samples(T0 + second, rows))
            recording.telemetry.append(samples(T0 + second, {"n1": {LOAD: 2.0}}))
            recording.telemetry.append(samples(T0 + second, {"n1@9": {"job.cpu.busy_cores": 1.0}}))
        about = {"exit": "0"}
        spans = (
            Span(id="a", entity="n1/*", kind="run", name="r1", from_s=T0, to_s=T0 + 5, about=about),
            Span(id="b", entity="n1/gpu0", kind="job", name="812", from_s=T0 + 2, to_s=None),
        )
        recording.keep(Observation(spans=spans))
    return tmp_path / "data"


def run(folder: Path, sql: str, **limits: float) -> list[tuple[object, ...]]:
    with Query(folder, limits=QueryLimits(**limits)) as query:  # type: ignore[arg-type]
        return query.run(sql).rows


def test_columns_of_all_files_are_one_table(folder: Path) -> None:
    rows = run(
        folder,
        f'SELECT entity, node, kind, avg("{WATTS}"), avg("{LOAD}") FROM telemetry '
        "GROUP BY ALL ORDER BY entity",
    )

    assert rows == [
        ("n1", "n1", "node", None, 2.0),
        ("n1/gpu0", "n1", "gpu", 80.0, None),
        ("n1@9", "n1", "job", None, None),
        ("n2/gpu0", "n2", "gpu", 700.0, None),
    ]


def test_every_sample_is_joined_to_its_job_and_run(folder: Path) -> None:
    rows = run(
        folder,
        "SELECT entity, job, run, workload, count(*) FROM telemetry GROUP BY ALL ORDER BY ALL",
    )

    assert rows == [
        ("n1", None, None, None, 10),
        ("n1/gpu0", "812", "r1", None, 3),
        ("n1/gpu0", "812", None, None, 5),
        ("n1/gpu0", None, "r1", None, 2),
        ("n1@9", "9", None, None, 10),
        ("n2/gpu0", None, None, None, 10),
    ]


def test_a_label_never_multiplies_rows(folder: Path) -> None:
    ((plain,),) = run(folder, "SELECT count(*) FROM telemetry")
    ((labelled,),) = run(folder, "SELECT count(*) FROM (SELECT * FROM telemetry)")

    assert plain == labelled == 40


def test_rows_that_came_twice_count_once_before_they_are_compacted_too(folder: Path) -> None:
    again = samples(T0 + 3, {"n1/gpu0": {BUSY: 0.3, WATTS: 80.0}, "n2/gpu0": {BUSY: 0.5, WATTS: 1}})
    with closing(Recording(folder)) as recording:
        recording.telemetry.append(again)  # one is known already, the other is not

    count = "SELECT count(*) FROM telemetry WHERE entity = '{}'"
    steps = f"SELECT sum(\"{BUSY}.count\") FROM telemetry_10s WHERE entity = '{{}}'"
    assert run(folder, count.format("n1/gpu0")) == [(10,)]
    assert run(folder, steps.format("n1/gpu0")) == [(10.0,)]
    assert run(folder, count.format("n2/gpu0")) == [(11,)]


def test_only_files_that_overlap_are_looked_through_for_repeats(folder: Path) -> None:
    with closing(Recording(folder)) as recording:
        recording.telemetry.append(samples(T0 + 30, {"n1/gpu0": {BUSY: 0.3, WATTS: 80.0}}))
    files = sorted((folder / "telemetry").rglob("*.parquet"))

    with closing(duckdb.connect()) as connection:
        assert repeated(connection, files, TableSchema()) == set()


def test_only_the_columns_and_rows_that_matter_are_scanned(folder: Path) -> None:
    ((_, plan),) = run(
        folder, f'EXPLAIN SELECT avg("{BUSY}") FROM telemetry WHERE "{BUSY}" > 0.5 AND t_s > {T0}'
    )

    assert f"t_s > {T0}" in str(plan)
    assert WATTS not in str(plan)
    assert LOAD not in str(plan)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO '/tmp/steward-should-not-be'",
        "CREATE TABLE x AS SELECT 1",
        "ATTACH '/tmp/x.db'",
        "SET memory_limit = '100GB'",
        "INSTALL httpfs",
        "DROP VIEW telemetry",
        "SELECT 1; SELECT 2",
        "",
        "PRAGMA version",
    ],
)
def test_nothing_is_written_and_nothing_outside_is_read(folder: Path, sql: str) -> None:
    before = sorted(folder.rglob("*"))

    with pytest.raises(StewardError):
        run(folder, sql)

    assert sorted(folder.rglob("*")) == before
    assert not Path("/tmp/steward-should-not-be").exists()


@pytest.mark.parametrize(
    ("sql", "place", "hint"),
    [
        (
            'SELECT "gpu.busy_shar" FROM telemetry',
            "line 1, column 8",
            "did you mean 'gpu.busy_share'?",
        ),
        ("SELECT * FROM telemetri", "line 1, column 15", "did you mean 'telemetry'?"),
        ("SELEC 1", "line 1, column 1", ""),
        ("SELECT 1,\n  nothing FROM telemetry", "line 2, column 3", ""),
    ],
)
def test_a_mistake_is_reported_with_its_place(
    folder: Path, sql: str, place: str, hint: str
) -> None:
    with pytest.raises(StewardError) as caught:
        run(folder, sql)

    assert place in caught.value.where
    assert caught.value.hint.startswith(hint)


def test_a_query_that_takes_too_long_is_interrupted(folder: Path) -> None:
    endless = (
        "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range + b.range = 1.5"
    )

    with pytest.raises(StewardError, match=r"no answer within 0\.2 s"):
        run(folder, endless, timeout_s=0.2)


def test_a_question_that_needs_too_much_memory_is_refused(folder: Path) -> None:
    greedy = "SELECT list(range) FROM range(200000000)"

    with pytest.raises(StewardError, match="more than 100 MiB of memory"):
        run(folder, greedy, memory_bytes=100 << 20)


def test_a_folder_without_telemetry_is_named(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="no telemetry here"):
        Query(tmp_path)


def test_a_torn_file_costs_only_its_own_rows(folder: Path) -> None:
    file = next(f for f in folder.rglob("*.parquet") if "job.cpu.busy_cores" in pl.read_parquet(f))
    file.write_bytes(file.read_bytes()[:50])

    with Query(folder) as query:
        rows = query.run("SELECT count(*) FROM telemetry").rows
        notes = query.notes

    assert rows == [(30,)]
    assert "is damaged" in notes[0]


def test_a_folder_whose_name_looks_like_a_pattern_is_read(tmp_path: Path, folder: Path) -> None:
    odd = tmp_path / "it's [a] *?"
    folder.rename(odd)

    assert run(odd, "SELECT count(*) FROM telemetry") == [(40,)]


def test_spans_are_only_read_where_they_matter(folder: Path) -> None:
    def notes(sql: str) -> list[str]:
        hour = folder / "spans" / "date=2023-11-14" / "hour=22"
        hour.mkdir(parents=True, exist_ok=True)
        (hour / "broken.parquet").write_bytes(b"broken")
        with Query(folder) as query:
            query.run(sql)
            return query.notes

    assert notes("SELECT count(*) FROM telemetry") == []
    assert len(notes("SELECT job FROM telemetry")) == 1
    assert len(notes("FROM telemetry")) == 1
    assert len(notes("SELECT count(*) FROM spans")) == 1


def test_an_answer_may_be_cut_off_and_this_is_reported(folder: Path) -> None:
    with Query(folder) as query:
        some = query.run("SELECT t_s FROM telemetry", limit=7)
        all_of_it = query.run("SELECT t_s FROM telemetry", limit=40)

    assert (len(some.rows), some.more) == (7, True)
    assert (len(all_of_it.rows), all_of_it.more) == (40, False)


@pytest.mark.parametrize("times", [3, 99])
def test_files_that_compaction_replaces_meanwhile_are_found_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """A listing that is out of date is what a reader has when compaction is faster."""
    gone = folder / "telemetry" / "date=2023-11-14" / "hour=22" / "flushed-00.parquet"
    stale = iter(range(times))

    def scan(files: list[Path], schema: TableSchema, **options: Any) -> str:
        late = next(stale, None) is not None
        return scan_sql(files, schema, **options).replace(
            str(files[0]), str(gone if late else files[0])
        )

    monkeypatch.setattr("steward.store.query.tables.scan_sql", scan)
    monkeypatch.setattr("time.sleep", lambda _s: None)

    with Query(folder) as query:
        if times < 8:
            assert query.run("SELECT count(*) FROM telemetry").rows == [(40,)]
        else:
            with pytest.raises(StewardError, match="vanish faster"):
                query.run("SELECT count(*) FROM telemetry")


def test_an_answer_that_cannot_be_written_is_reported(folder: Path) -> None:
    with Query(folder) as query, pytest.raises(StewardError, match="the answer cannot be written"):
        query.save("SELECT 1", folder / "none" / "x.csv")


def test_what_a_span_is_about_is_json(folder: Path) -> None:
    rows = run(folder, "SELECT about FROM spans ORDER BY id")

    assert [json.loads(str(about)) for (about,) in rows] == [{"exit": "0"}, {}]


def test_events_of_a_journal_are_seen_too(folder: Path) -> None:
    event = Event(t_s=T0, kind="gpu.lost", subject="n1/gpu0", text="gone", source="kernel")
    with closing(open_journal(f"sqlite:///{folder}/journal.sqlite3")) as journal:
        journal.append([event])

    assert run(folder, "SELECT kind, text FROM events") == [("gpu.lost", "gone")]


def test_a_file_that_breaks_only_when_it_is_read_is_reported(folder: Path) -> None:
    for file in [*(folder / "telemetry").rglob("*.parquet")]:
        content = bytearray(file.read_bytes())
        content[4:200] = bytes(196)
        file.unlink()
        file.with_name("without-a-checksum.parquet").write_bytes(content)

    with Query(folder) as query:
        with pytest.raises(StewardError):
            query.run("SELECT sum(t_s) FROM telemetry")
        with pytest.raises(StewardError):
            query.save("SELECT sum(t_s) FROM telemetry", folder / "x.parquet")

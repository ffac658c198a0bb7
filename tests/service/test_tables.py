"""Tables come as CSV that is safe to open, and everything in them is found."""

from __future__ import annotations

import csv
import io

import pytest

from service.bed import LONG_ENOUGH_S, MakeBed
from steward.service.pages.search import hit_table
from steward.service.tables import TABLES, SearchHit, Table, as_csv, search


@pytest.mark.parametrize("name", sorted(TABLES))
def test_each_table_has_as_many_cells_as_columns(make_bed: MakeBed, name: str) -> None:
    bed = make_bed(run_s=LONG_ENOUGH_S)

    answer = bed.client.get(f"/api/v1/tables/{name}.csv")

    head, *rows = csv.reader(io.StringIO(answer.text))
    assert answer.headers["content-type"].startswith("text/csv")
    assert tuple(head) == TABLES[name].columns
    assert all(len(row) == len(head) for row in rows)
    assert rows or name in ("rules", "savings")  # no rules here, and nothing was measured yet


def test_an_unknown_table_names_the_nearest(make_bed: MakeBed) -> None:
    answer = make_bed(run_s=20).client.get("/api/v1/tables/job.csv")

    assert answer.status_code == 404
    assert "did you mean 'jobs'?" in answer.text


def test_text_that_a_spreadsheet_would_run_is_quoted(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=20)
    evil = Table(columns=("a", "b"), rows=lambda _: iter([("=cmd()", -1.5), (None, "+1")]))

    text = as_csv("evil", bed.live_state.refresh(), {"evil": evil})

    assert list(csv.reader(io.StringIO(text))) == [["a", "b"], ["'=cmd()", "-1.5"], ["", "'+1"]]


def test_what_is_called_so_exactly_comes_first(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=LONG_ENOUGH_S)

    hits = bed.client.get("/api/v1/search?q=J1").json()["items"]

    assert (hits[0]["kind"], hits[0]["id"]) == ("jobs", "j1")
    kinds = {hit["kind"] for hit in hits}
    assert {"findings", "decisions", "gpus"} <= kinds
    assert next(hit["path"] for hit in hits if hit["kind"] == "gpus").startswith("/gpus/n1/gpu")


def test_all_words_have_to_be_there_and_none_finds_nothing(make_bed: MakeBed) -> None:
    snapshot = make_bed(run_s=LONG_ENOUGH_S).live_state.refresh()

    assert search("j1 idle", snapshot)
    assert search("j1 nowhere-to-be-found", snapshot) == ()
    assert search("  ", snapshot) == ()


def test_jobs_of_other_engines_lead_to_the_list(make_bed: MakeBed) -> None:
    snapshot = make_bed(run_s=20).live_state.refresh()

    assert search("j1", snapshot)[0].path == "/jobs/j1"
    assert search("j1", snapshot, job_pages=False)[0].path == "/jobs"


def test_what_was_found_is_escaped() -> None:
    hit = SearchHit(kind="jobs", id="<b>", text="<script>", path="/jobs/<b>")

    text = str(hit_table("x", (hit,)))

    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "Nothing has all of these words" in str(hit_table("x", ()))
    assert "Jobs, GPUs" in str(hit_table(" ", ()))

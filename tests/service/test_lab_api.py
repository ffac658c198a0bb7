"""The lab over HTTP: who may ask, what is taken, what comes back."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.bed import MakeBed, ServiceBed, build_bed
from service.labs import (
    TRACE,
    at_once,
    begun,
    compared,
    ended,
    scratch_of,
    until_stopped,
    with_tiny_run,
)
from steward.service.lab import LabRuns
from steward.store.tokens import Role

PATH = "/api/v1/lab/comparisons"


@pytest.fixture(scope="module")
def lab_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceBed]:
    """A bed whose lab really compares, with a small scheduler in the engines' place."""
    lab = LabRuns(carry_out=with_tiny_run)
    bed = build_bed(tmp_path_factory.mktemp("lab"), lab=lab, requests_per_minute=10**6)
    yield bed
    lab.close()
    bed.loop.close()


def posted(bed: ServiceBed, text: str | bytes = TRACE, name: str = "may.csv", **fields: Any) -> Any:
    files = {"trace": (name, text.encode() if isinstance(text, str) else text)}
    return bed.client.post(PATH, files=files, data=fields)


def result(bed: ServiceBed, answer: httpx.Response) -> Any:
    assert answer.status_code == 202, answer.text
    ended(bed.lab, answer.json()["id"])
    return bed.client.get(f"{PATH}/{answer.json()['id']}").json()


def test_an_uploaded_trace_is_compared_and_can_be_read(lab_bed: ServiceBed) -> None:
    answer = posted(lab_bed, policies=["fifo", "srtf"], gpus="8", seed="1")

    found = result(lab_bed, answer)

    assert answer.json()["state"] == "running"
    assert (found["state"], found["trace"], found["by"]) == ("done", "may.csv", "local")
    assert (found["policies"], found["gpus"], found["seed"]) == (["fifo", "srtf"], 8, 1)
    assert found["progress"] == {"doing": "done", "share": 1.0, "left_s": None}
    assert found["results"]["trace"]["jobs"] == 20
    assert found["results"]["policies"]["fifo"]["intervals"]["jct_mean_s"]
    assert "srtf" in found["results"]["failed"]
    report = lab_bed.client.get(f"{PATH}/{found['id']}/report")
    assert report.headers["content-type"].startswith("text/html")
    assert "mean JCT" in report.text
    full = lab_bed.client.get(f"{PATH}/{found['id']}/results").json()
    assert full["policies"]["fifo"]["timeline"]
    items = lab_bed.client.get(PATH).json()["items"]
    assert items[0]["id"] == found["id"]
    assert "results" not in items[0]


def test_the_example_is_asked_for_by_name(lab_bed: ServiceBed) -> None:
    asked = {"trace": "example", "policies": ["fifo"], "gpus": 64}

    found = result(lab_bed, lab_bed.client.post(PATH, json=asked))

    assert (found["state"], found["trace"]) == ("done", "example")
    assert found["results"]["trace"]["synthetic"] is True
    assert found["results"]["cluster"]["gpus"] == 64


def test_policies_may_be_one_field_with_commas(lab_bed: ServiceBed) -> None:
    found = result(lab_bed, posted(lab_bed, policies="fifo,las"))

    assert found["policies"] == ["fifo", "las"]


def test_what_is_wrong_with_a_trace_is_said_where_its_state_is_asked_for(
    lab_bed: ServiceBed,
) -> None:
    found = result(lab_bed, posted(lab_bed, "a,b\n1,2\n", policies="fifo"))

    assert found["state"] == "failed"
    assert found["error"]["where"] == "may.csv"
    assert "lacks" in found["error"]["problem"]
    assert found["results"] is None
    refused = lab_bed.client.get(f"{PATH}/{found['id']}/report")
    assert (refused.status_code, refused.json()["error"]["problem"]) == (
        409,
        "this comparison is failed",
    )


@pytest.mark.parametrize(
    "name", ["../../../etc/cron.d/x", "/etc/passwd", "..\\..\\x.csv", "a\x00b"]
)
def test_a_clients_file_name_is_never_a_path(lab_bed: ServiceBed, name: str) -> None:
    found = result(lab_bed, posted(lab_bed, name=name, policies="fifo"))

    assert "/" not in found["trace"]
    assert "\\" not in found["trace"]
    folder = scratch_of(lab_bed.lab) / found["id"]
    assert sorted(file.name for file in folder.iterdir()) == ["report.html", "results.json"]


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"gpus": "0"}, "gpus"),
        ({"gpus": "many"}, "gpus"),
        ({"gpus": "100001"}, "gpus"),
        ({"gpus_per_node": "0"}, "gpus_per_node"),
        ({"seed": "-1"}, "seed"),
        ({"policies": "fifo,lifo"}, "policies"),
        ({"policies": "fifo,fifo"}, "policies"),
        ({"policies": ",".join(f"p{i}" for i in range(13))}, "policies"),
        ({"placement": "nowhere"}, "placement"),
        ({"colour": "red"}, "colour"),
        ({"seed": ["1", "2"]}, "form.seed"),
    ],
)
def test_a_field_that_is_not_what_it_should_be_is_refused(
    lab_bed: ServiceBed, fields: dict[str, Any], where: str
) -> None:
    before = lab_bed.lab.list()

    answer = posted(lab_bed, **fields)

    assert answer.status_code == 422
    assert answer.json()["error"]["where"].startswith(where)
    assert lab_bed.lab.list() == before


def test_an_unknown_policy_is_told_the_nearest(lab_bed: ServiceBed) -> None:
    answer = posted(lab_bed, policies="comons")

    assert answer.json()["error"]["hint"] == "did you mean 'commons'?"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"json": {"trace": "philly"}}, 422),
        ({"json": {"policies": ["fifo"]}}, 422),
        ({"json": ["example"]}, 422),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 422),
        ({"content": b"[" * 60_000, "headers": {"content-type": "application/json"}}, 422),
        ({"content": b" " * 70_000, "headers": {"content-type": "application/json"}}, 413),
        ({"data": {"policies": "fifo"}}, 415),
        ({"content": b"x"}, 415),
        ({"content": b"x", "headers": {"content-type": "multipart/form-data"}}, 400),
        ({"content": b"x", "headers": {"content-type": "multipart/form-data; boundary=y"}}, 400),
        ({"files": {"trace": (None, "text and no file")}}, 422),
        ({"files": [("trace", ("a", b"1")), ("trace", ("b", b"2"))]}, 400),
    ],
)
def test_a_request_that_cannot_be_understood_is_refused(
    lab_bed: ServiceBed, request_: dict[str, Any], status: int
) -> None:
    answer = lab_bed.client.post(PATH, **request_)

    assert answer.status_code == status
    assert answer.json()["error"]["problem"]


# -- limits ------------------------------------------------------------------------------------


def test_a_large_trace_is_taken_though_other_requests_must_be_small(lab_bed: ServiceBed) -> None:
    rows = "".join(f"x{i},{3600 + i},10,1,team0\n" for i in range(9000))
    assert len(rows) > 2 * lab_bed.live_state.settings.service.body_limit_bytes

    found = result(lab_bed, posted(lab_bed, TRACE + rows, policies="fifo", gpus="64"))

    assert found["results"]["trace"]["jobs"] == 9020


@pytest.mark.parametrize("how", ["announced", "piece by piece"])
def test_a_trace_that_is_too_large_is_refused_and_not_kept(make_bed: MakeBed, how: str) -> None:
    bed = make_bed(lab=LabRuns(carry_out=at_once), upload_limit_bytes=50_000)
    body = httpx.Request("POST", "http://x", files={"trace": ("a.csv", b"0" * 60_000)})
    whole = body.read()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(whole), 10_000):
            yield whole[start : start + 10_000]

    headers = {"content-type": body.headers["content-type"]}
    answer = bed.client.post(
        PATH, content=whole if how == "announced" else pieces(), headers=headers
    )

    assert answer.status_code == 413
    assert answer.json()["error"]["hint"] == "the limit is service.upload_limit_bytes"
    assert bed.lab.list() == ()
    assert compared(bed.lab)


def test_large_requests_to_other_addresses_are_still_refused(lab_bed: ServiceBed) -> None:
    large = b"0" * 70_000

    answers = [
        lab_bed.client.post("/api/v1/decisions/d-1/approve", content=large),
        lab_bed.client.request("DELETE", f"{PATH}/lab-1", content=large),
        lab_bed.client.request("GET", PATH, content=large),
    ]

    assert [answer.status_code for answer in answers] == [413] * 3


def test_a_second_comparison_has_to_wait(make_bed: MakeBed) -> None:
    bed = make_bed(lab=LabRuns(carry_out=until_stopped))
    first = posted(bed, policies="fifo")

    second = posted(bed, policies="fifo")

    assert (first.status_code, second.status_code) == (202, 409)
    assert first.json()["id"] in second.json()["error"]["problem"]
    assert "cancel" in second.json()["error"]["hint"]


def test_one_that_runs_is_cancelled_and_one_that_is_over_forgotten(make_bed: MakeBed) -> None:
    bed = make_bed(lab=LabRuns(carry_out=until_stopped))
    path = f"{PATH}/{posted(bed, policies='fifo').json()['id']}"

    cancelled = bed.client.request("DELETE", path)
    forgotten = bed.client.request("DELETE", path)
    gone = bed.client.get(path)

    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    assert forgotten.status_code == 200
    assert (gone.status_code, gone.json()["error"]["where"]) == (404, "lab")


# -- who ---------------------------------------------------------------------------------------


def test_a_viewer_reads_and_an_operator_asks(make_bed: MakeBed) -> None:
    bed = make_bed(lab=LabRuns(carry_out=at_once), host="192.0.2.7")
    viewer, operator = bed.bearer("vic", Role.VIEWER), bed.bearer("olga", Role.OPERATOR)
    run = ended(bed.lab, begun(bed.lab).id)
    files = {"trace": ("a.csv", TRACE.encode())}

    asked = [
        bed.client.post(PATH, files=files, headers=viewer),
        bed.client.request("DELETE", f"{PATH}/{run.id}", headers=viewer),
        bed.client.get(f"{PATH}/{run.id}/report", headers=viewer),
        bed.anonymous.get(f"{PATH}/{run.id}/report"),
        bed.anonymous.post(PATH, files=files),
        bed.client.post(PATH, files=files, headers=operator),
    ]

    assert [answer.status_code for answer in asked] == [403, 403, 200, 401, 401, 202]
    assert asked[-1].json()["by"] == "olga"


def test_another_sites_page_cannot_ask(lab_bed: ServiceBed) -> None:
    before = lab_bed.lab.list()

    answer = lab_bed.client.post(
        PATH,
        files={"trace": ("a.csv", TRACE.encode())},
        headers={"origin": "https://evil.example"},
    )

    assert answer.status_code == 403
    assert lab_bed.lab.list() == before


def test_a_report_may_be_framed_by_our_pages_and_runs_no_script(make_bed: MakeBed) -> None:
    bed = make_bed(lab=LabRuns(carry_out=at_once))
    path = f"{PATH}/{compared(bed.lab)}"

    report, other = bed.client.get(f"{path}/report"), bed.client.get(path)

    policy = report.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "sandbox allow-same-origin" in policy
    assert "allow-scripts" not in policy
    assert report.headers["x-frame-options"] == "SAMEORIGIN"
    assert other.headers["x-frame-options"] == "DENY"
    assert "no-store" in report.headers["cache-control"]


def test_when_the_service_ends_nothing_of_the_lab_is_left(make_bed: MakeBed) -> None:
    bed = make_bed(lab=LabRuns(carry_out=until_stopped))
    posted(bed, gzip.compress(TRACE.encode()), policies="fifo")
    folder: Path = scratch_of(bed.lab)

    async def live() -> None:
        async with bed.client.app.router.lifespan_context(bed.client.app):
            await asyncio.sleep(0)

    before = folder.exists()
    asyncio.run(live())

    assert (before, folder.exists()) == (True, False)

"""Files and batches as OpenAI's clients use them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from batch_bed import Client, Queue, at_once, completion, custom_ids, line, request_lines, served
from steward.config.batch_settings import BatchSettings
from steward.service.gateway.call import UpstreamCall, UpstreamReply


def test_a_batch_is_answered_line_by_line(tmp_path: Path) -> None:
    queue = Queue()

    async def run() -> tuple[dict[str, Any], list[dict[str, Any]]]:
        async with served(tmp_path, queue) as client:
            batch = await client.create(request_lines(30), metadata={"run": "7"})
            assert batch["status"] == "validating"
            assert batch["expires_at"] - batch["created_at"] == 3600
            done = await client.until(batch["id"], "completed")
            return done, await client.lines(done["output_file_id"])

    done, rows = asyncio.run(run())

    assert done["request_counts"] == {"total": 30, "completed": 30, "failed": 0}
    assert (done["error_file_id"], done["errors"], done["metadata"]) == (None, None, {"run": "7"})
    assert done["completed_at"] >= done["finalizing_at"] >= done["in_progress_at"]
    assert custom_ids(rows) == [f"c-{place}" for place in range(30)]
    first = rows[0]
    assert first["id"].startswith("batch_req_")
    assert first["error"] is None
    assert first["response"]["status_code"] == 200
    assert first["response"]["body"] == {"choices": [{"text": "say c-0"}]}
    assert {each.deadline_class for each in queue.calls} == {"batch"}
    assert all(3500 < (each.deadline_in_s or 0) <= 3600 for each in queue.calls)
    assert {each.tenant for each in queue.calls} == {"ann"}


def test_broken_lines_are_named_and_the_others_are_answered(tmp_path: Path) -> None:
    content = b"".join(
        [
            line("good"),
            b"{nonsense\n",
            b"\n",
            line("good"),
            line("get", method="GET"),
            line("elsewhere", url="/v1/embeddings"),
            line("streams", body={"model": "m", "prompt": "x", "stream": True}),
            line("nameless", body={"prompt": "x"}),
            b'{"custom_id": 5}\n',
            b"[1]\n",
            b'\xff\xfe{"custom_id"\n',
            line("last").rstrip(b"\n"),
        ]
    )

    async def run() -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
        async with served(tmp_path, Queue()) as client:
            batch = await client.create(content)
            done = await client.until(batch["id"], "completed")
            output = await client.lines(done["output_file_id"])
            return done, output, await client.lines(done["error_file_id"])

    done, output, errors = asyncio.run(run())

    assert custom_ids(output) == ["good", "last"]
    assert done["request_counts"] == {"total": 11, "completed": 2, "failed": 9}
    faults = {each["line"]: each["code"] for each in done["errors"]["data"]}
    assert faults == {
        2: "invalid_json_line",
        4: "duplicate_custom_id",
        5: "invalid_method",
        6: "mismatched_endpoint",
        7: "invalid_request",
        8: "missing_required_parameter",
        9: "missing_required_parameter",
        10: "invalid_json_line",
        11: "invalid_json_line",
    }
    assert [row["error"]["line"] for row in errors] == sorted(faults)
    assert errors[2]["custom_id"] == "get"
    assert all(f"line {row['error']['line']}: " in row["error"]["message"] for row in errors)


@pytest.mark.parametrize("content", [b"{broken\n", b"\n\n", b" \n"])
def test_a_file_without_a_request_fails_the_batch(tmp_path: Path, content: bytes) -> None:
    async def run() -> dict[str, Any]:
        async with served(tmp_path, Queue()) as client:
            batch = await client.create(content)
            return await client.until(batch["id"], "failed")

    failed = asyncio.run(run())

    assert failed["errors"]["data"][0]["message"]
    assert failed["failed_at"] is not None


def test_a_file_with_too_many_requests_fails_the_batch(tmp_path: Path) -> None:
    queue = Queue()

    async def run() -> dict[str, Any]:
        async with served(tmp_path, queue, BatchSettings(most_requests=3)) as client:
            batch = await client.create(request_lines(4))
            return await client.until(batch["id"], "failed")

    failed = asyncio.run(run())

    assert failed["errors"]["data"][0]["code"] == "too_many_requests"
    assert queue.calls == []


def test_requests_that_upstreams_refuse_are_in_the_error_file(tmp_path: Path) -> None:
    async def refuse(call: UpstreamCall) -> UpstreamReply:
        if b"c-1" in call.body:
            return UpstreamReply(status=404, body=b'{"error": {"message": "no such model"}}')
        return completion(call)

    async def run() -> tuple[dict[str, Any], list[dict[str, Any]]]:
        async with served(tmp_path, Queue(refuse)) as client:
            batch = await client.create(request_lines(3))
            done = await client.until(batch["id"], "completed")
            return done, await client.lines(done["error_file_id"])

    done, errors = asyncio.run(run())

    assert done["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert custom_ids(errors) == ["c-1"]
    assert errors[0]["response"]["status_code"] == 404
    assert errors[0]["response"]["body"]["error"]["message"] == "no such model"


@pytest.mark.parametrize("first", [(503, b"{}"), (500, b"{}"), (200, b"\x00<html>")])
def test_what_may_pass_is_tried_again(tmp_path: Path, first: tuple[int, bytes]) -> None:
    failed: set[str] = set()

    async def once(call: UpstreamCall) -> UpstreamReply:
        if call.request_id in failed:
            return completion(call)
        failed.add(call.request_id)
        return UpstreamReply(status=first[0], body=first[1])

    async def run() -> dict[str, Any]:
        async with served(tmp_path, Queue(once)) as client:
            batch = await client.create(request_lines(2))
            return await client.until(batch["id"], "completed")

    done = asyncio.run(run())

    assert done["request_counts"] == {"total": 2, "completed": 2, "failed": 0}
    assert len(failed) == 2


def test_what_fails_every_time_ends_with_the_last_answer(tmp_path: Path) -> None:
    async def fail(call: UpstreamCall) -> UpstreamReply:
        if b"c-0" in call.body:
            return UpstreamReply(status=200, body=b"<html>")
        return UpstreamReply(status=500, body=b'{"error": {"message": "it broke"}}')

    async def run() -> list[dict[str, Any]]:
        async with served(tmp_path, Queue(fail), BatchSettings(attempts=1)) as client:
            batch = await client.create(request_lines(2))
            done = await client.until(batch["id"], "completed")
            assert done["output_file_id"] is None
            return await client.lines(done["error_file_id"])

    garbage, broken = asyncio.run(run())

    assert garbage["error"]["code"] == "invalid_upstream_answer"
    assert broken["response"]["status_code"] == 500


def test_a_cancelled_batch_sends_no_more(tmp_path: Path) -> None:
    async def run() -> tuple[dict[str, Any], int]:
        go_on = asyncio.Event()

        async def wait(call: UpstreamCall) -> UpstreamReply:
            await go_on.wait()
            return completion(call)

        queue = Queue(wait)
        async with served(tmp_path, queue, BatchSettings(in_flight=4)) as client:
            batch = await client.create(request_lines(20))
            await queue.until(4)
            status, cancelling = await client.ask("POST", f"/v1/batches/{batch['id']}/cancel")
            assert (status, cancelling["status"]) == (200, "cancelling")
            go_on.set()
            return await client.until(batch["id"], "cancelled"), len(queue.calls)

    cancelled, calls = asyncio.run(run())

    assert calls == 4
    assert cancelled["request_counts"] == {"total": 20, "completed": 4, "failed": 16}


def test_a_batch_whose_time_is_over_expires_with_what_it_has(tmp_path: Path) -> None:
    async def some(call: UpstreamCall) -> UpstreamReply:
        if b"c-0" not in call.body:
            await asyncio.Event().wait()
        return completion(call)

    async def run() -> tuple[dict[str, Any], list[dict[str, Any]]]:
        async with served(tmp_path, Queue(some)) as client:
            batch = await client.create(request_lines(3), completion_window="2s")
            done = await client.until(batch["id"], "expired")
            return done, await client.lines(done["error_file_id"])

    expired, errors = asyncio.run(run())

    assert expired["request_counts"] == {"total": 3, "completed": 1, "failed": 2}
    assert {row["error"]["code"] for row in errors} == {"batch_expired"}


def test_a_batch_goes_on_after_a_restart_and_answers_no_item_twice(tmp_path: Path) -> None:
    answered: list[str] = []

    async def run() -> list[dict[str, Any]]:
        async def some(call: UpstreamCall) -> UpstreamReply:
            if len(answered) >= 25:
                await asyncio.Event().wait()
            answered.append(call.request_id)
            return completion(call)

        queue = Queue(some)
        async with served(tmp_path, queue, BatchSettings(in_flight=8)) as client:
            batch = await client.create(request_lines(60))
            await queue.until(26)
        async with served(tmp_path, Queue()) as client:
            done = await client.until(batch["id"], "completed")
            return await client.lines(done["output_file_id"])

    rows = asyncio.run(run())

    assert custom_ids(rows) == [f"c-{place}" for place in range(60)]


def test_files_are_listed_shown_and_deleted(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, Queue(), start=False) as client:
            _, first = await client.upload(b"{}\n")
            _, second = await client.upload(b"x" * 3_000_000)
            assert (first["object"], first["bytes"], first["filename"]) == ("file", 3, "in.jsonl")
            _, listed = await client.ask("GET", "/v1/files?limit=1")
            assert [each["id"] for each in listed["data"]] == [second["id"]]
            assert listed["has_more"]
            _, rest = await client.ask("GET", f"/v1/files?after={second['id']}")
            assert [each["id"] for each in rest["data"]] == [first["id"]]
            assert await client.content(second["id"]) == b"x" * 3_000_000
            status, gone = await client.ask("DELETE", f"/v1/files/{first['id']}")
            assert (status, gone["deleted"]) == (200, True)
            assert (await client.ask("GET", f"/v1/files/{first['id']}"))[0] == 404
            assert (await client.ask("DELETE", f"/v1/files/{first['id']}"))[0] == 404

    asyncio.run(run())


def test_another_tenant_finds_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, Queue()) as client:
            batch = await client.create(request_lines(1))
            bob = {"headers": {"X-Tenant": "bob"}}
            file = batch["input_file_id"]
            for path in (f"/v1/files/{file}", f"/v1/files/{file}/content"):
                assert (await client.ask("GET", path, **bob))[0] == 404
            assert (await client.ask("GET", f"/v1/batches/{batch['id']}", **bob))[0] == 404
            assert (await client.ask("POST", f"/v1/batches/{batch['id']}/cancel", **bob))[0] == 404
            _, listed = await client.ask("GET", "/v1/batches", **bob)
            assert listed["data"] == []
            asked = {
                "input_file_id": file,
                "endpoint": "/v1/completions",
                "completion_window": "1h",
            }
            assert (await client.ask("POST", "/v1/batches", json=asked, **bob))[0] == 404

    asyncio.run(run())


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"endpoint": "/v1/images"}, "endpoint"),
        ({"completion_window": "soon"}, "completion_window"),
        ({"completion_window": "99d"}, "completion_window"),
        ({"completion_window": None}, "completion_window"),
        ({"input_file_id": "file-none"}, "input_file_id"),
        ({"input_file_id": None}, "input_file_id"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": "text"}, "metadata"),
    ],
)
def test_a_batch_that_cannot_be_is_refused_with_its_parameter(
    tmp_path: Path, fields: dict[str, Any], param: str
) -> None:
    async def run() -> tuple[int, Any]:
        async with served(tmp_path, Queue(), start=False) as client:
            _, file = await client.upload(b"{}\n")
            asked = {"input_file_id": file["id"], "endpoint": "/v1/completions"}
            return await client.ask(
                "POST", "/v1/batches", json=asked | {"completion_window": "24h"} | fields
            )

    status, answer = asyncio.run(run())

    assert status in (400, 404)
    assert answer["error"]["param"] == param
    assert answer["error"]["message"]


async def _raw(client: Client, **rest: Any) -> tuple[int, Any]:
    return await client.ask("POST", rest.pop("path", "/v1/files"), **rest)


def test_uploads_that_are_no_files_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    multipart = {"Content-Type": "multipart/form-data; boundary=x"}
    nested = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nabc'

    async def run() -> None:
        async with served(
            tmp_path, Queue(), BatchSettings(file_limit_bytes=1024), start=False
        ) as client:
            assert (await client.upload(b"x" * 1025))[0] == 413
            assert (await client.upload(b""))[0] == 400
            status, answer = await client.upload(b"{}", purpose="fine-tune")
            assert (status, answer["error"]["param"]) == (400, "purpose")
            assert (await _raw(client, json={}))[0] == 400
            assert (await _raw(client, data=b"garbage", headers=multipart))[0] == 400
            assert (await _raw(client, data=nested, headers=multipart))[0] == 400
            assert (await _raw(client, data=b"", headers={"Content-Type": "multipart/x"}))[0] == 400
            _, listed = await client.ask("GET", "/v1/files")
            assert listed["data"] == []

    asyncio.run(run())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/v1/files", 405),
        ("DELETE", "/v1/batches", 405),
        ("GET", "/v1/files/a/b", 404),
        ("GET", "/v1/batches/../files", 404),
        ("GET", "/v1/batches/unknown", 404),
        ("GET", "/v1/files?limit=0", 400),
        ("GET", "/v1/batches?limit=many", 400),
        ("GET", "/v1/files?order=up", 400),
    ],
)
def test_wrong_paths_and_numbers_are_answered_in_openais_form(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    async def run() -> tuple[int, Any]:
        async with served(tmp_path, Queue(), start=False) as client:
            return await client.ask(method, path)

    got, answer = asyncio.run(run())

    if path != "/v1/batches/../files":  # which clients shorten
        assert got == status
        assert set(answer["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"{" + b" " * 300_000 + b"}"])
def test_bodies_that_are_no_batch_are_refused(tmp_path: Path, body: bytes) -> None:
    async def run() -> tuple[int, Any]:
        async with served(tmp_path, Queue(), start=False) as client:
            return await client.ask("POST", "/v1/batches", data=body)

    status, answer = asyncio.run(run())

    assert status in (400, 413)
    assert answer["error"]["message"]


def test_batches_are_paged_newest_first(tmp_path: Path) -> None:
    async def run() -> tuple[list[str], list[str]]:
        async with served(tmp_path, Queue(at_once), start=False) as client:
            made = [(await client.create(request_lines(1)))["id"] for _ in range(5)]
            seen: list[str] = []
            path = "/v1/batches?limit=2"
            more = True
            while more:
                _, listed = await client.ask("GET", path)
                seen += [each["id"] for each in listed["data"]]
                path, more = f"/v1/batches?limit=2&after={seen[-1]}", listed["has_more"]
            return made, seen

    made, seen = asyncio.run(run())

    assert seen == made[::-1]


def test_an_answer_laid_out_over_lines_is_one_line_of_the_output(tmp_path: Path) -> None:
    async def run() -> bytes:
        async with served(tmp_path, Queue()) as client:
            batch = await client.create(request_lines(1))
            done = await client.until(batch["id"], "completed")
            return await client.content(done["output_file_id"])

    content = asyncio.run(run())

    assert content.count(b"\n") == 1
    assert json.loads(content)["response"]["body"]["choices"]


def test_a_file_that_cannot_be_kept_stops_no_batch_of_others(tmp_path: Path) -> None:
    deep = line("deep", body={"model": "m", "prompt": "DEEP"})
    hostile = deep.replace(b'"DEEP"', b"[" * 400 + b"]" * 400)

    async def run() -> tuple[dict[str, Any], dict[str, Any]]:
        async with served(tmp_path, Queue()) as client:
            refused = await client.create(hostile)
            batch = await client.create(request_lines(2))
            return (
                await client.until(refused["id"], "failed"),
                await client.until(batch["id"], "completed"),
            )

    refused, done = asyncio.run(run())

    assert refused["errors"]["data"][0]["code"] == "invalid_request"
    assert done["request_counts"] == {"total": 2, "completed": 2, "failed": 0}


@pytest.mark.parametrize("path", ["/v1/files", "/v1/batches"])
def test_a_body_that_stalls_is_broken_off(tmp_path: Path, path: str) -> None:
    async def stalling() -> AsyncIterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nhalf'
        await asyncio.Event().wait()

    async def run() -> tuple[int, Any, Any]:
        settings = BatchSettings(upload_stall_s=0.05)
        async with served(tmp_path, Queue(), settings) as client:
            headers = {"Content-Type": "multipart/form-data; boundary=b"}
            status, fault = await client.ask("POST", path, data=stalling(), headers=headers)
            _, files = await client.ask("GET", "/v1/files")
            return status, fault, files["data"]

    status, fault, files = asyncio.run(run())

    assert (status, fault["error"]["code"], files) == (408, "too_slow", [])


def test_the_name_of_a_file_is_kept_without_what_databases_refuse(tmp_path: Path) -> None:
    async def run() -> Any:
        async with served(tmp_path, Queue(), start=False) as client:
            head = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            name = b"filename*=UTF-8''a%00b%0Ac"
            file = b'--b\r\nContent-Disposition: form-data; name="file"; ' + name
            data = head + file + b"\r\n\r\n" + request_lines(1) + b"\r\n--b--\r\n"
            headers = {"Content-Type": "multipart/form-data; boundary=b"}
            return await client.ask("POST", "/v1/files", data=data, headers=headers)

    status, file = asyncio.run(run())

    assert (status, file["filename"]) == (200, "a�b�c")

"""Keys, budgets, and what each caller may see."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from service.gateway.bed import CHAT, Exchange, FakeUpstream, bed, chat, until
from steward.errors import StewardError
from steward.service.gateway.access import Budget
from steward.service.gateway.call import Caller, Submitter, UpstreamCall
from steward.service.gateway.status import BatchCounts
from steward.store.api_keys import ApiKey, ApiKeys


def key(name: str, **more: Any) -> ApiKey:
    return ApiKey(name=name, made_s=0.0, **more)


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_only_hashes_of_keys_are_written(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path / "keys.json")

    secret = keys.make(key("ann"))

    text = (tmp_path / "keys.json").read_text()
    assert secret not in text
    assert "ann" in text
    found = keys.find(secret)
    assert found is not None
    assert found.name == "ann"
    assert keys.list()[0].sha256 == ""


def test_names_of_keys_are_unique_and_revoked_keys_are_worthless(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path / "keys.json")
    secret = keys.make(key("ann"))

    with pytest.raises(StewardError, match="already a key called 'ann'"):
        keys.make(key("ann"))
    with pytest.raises(StewardError, match="no key called 'bob'; known: ann"):
        keys.revoke("bob")
    keys.revoke("ann")

    assert keys.find(secret) is None


def test_a_key_expires(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path / "keys.json")

    secret = keys.make(key("ann", expires_s=time.time() - 1))

    assert keys.find(secret) is None


def test_a_file_of_keys_that_is_broken_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('[{"made_s": 1}]')

    with pytest.raises(StewardError, match="0: name: Field required"):
        ApiKeys(tmp_path / "keys.json").read()


def test_without_a_valid_key_nothing_but_health_is_answered(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path / "keys.json")
    secret = keys.make(key("ann"))

    async def scenario() -> None:
        async with bed(keys_file=str(keys.file)) as it:
            refused = [await it.post(headers=each) for each in ({}, bearer("wrong"))]
            looks = [
                (await it.get(path))[0]
                for path in ("/v1/models", "/metrics", "/steward/v1/status", "/health")
            ]
            good, _, _ = await it.post(headers=bearer(secret))
            sent = it.upstreams[0].got[0].headers

        assert [each[0] for each in refused] == [401, 401]
        assert refused[0][1]["error"]["type"] == "authentication_error"
        assert looks == [401, 401, 401, 200]
        assert good == 200
        assert "authorization" not in sent

    asyncio.run(scenario())


def test_only_an_admins_key_changes_upstreams(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path / "keys.json")
    user, admin = keys.make(key("ann")), keys.make(key("root", admin=True))

    async def scenario() -> None:
        async with bed(keys_file=str(keys.file)) as it:
            at = f"{it.url}/steward/v1/upstreams/u1"
            statuses = []
            for secret in (user, admin):
                async with it.client.patch(at, json={"limit": 9}, headers=bearer(secret)) as reply:
                    statuses.append(reply.status)

        assert statuses == [403, 200]

    asyncio.run(scenario())


def test_a_key_has_its_class_and_a_budget_of_requests(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path / "keys.json")
    secret = keys.make(key("ann", deadline_class="batch", requests_per_minute=2))

    async def scenario() -> None:
        async with bed(keys_file=str(keys.file), open_status=True) as it:
            replies = [await it.post(headers=bearer(secret)) for _ in range(3)]
            _, now = await it.get("/steward/v1/status")

        assert [each[0] for each in replies] == [200, 200, 429]
        assert 1 <= int(replies[2][2]["Retry-After"]) <= 30
        assert replies[2][1]["error"]["type"] == "rate_limit_error"
        assert now["classes"][1]["done"] == 2

    asyncio.run(scenario())


def test_a_budget_of_tokens_is_spent_by_what_the_upstream_counted(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path / "keys.json")
    secret = keys.make(key("ann", tokens_per_day=10))  # an answer of the bed takes 9

    async def scenario() -> None:
        async with bed(keys_file=str(keys.file)) as it:
            replies = [await it.post(headers=bearer(secret)) for _ in range(3)]

        assert [each[0] for each in replies] == [200, 200, 429]

    asyncio.run(scenario())


def test_nobody_can_ask_about_the_request_of_somebody_else(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path / "keys.json")
    ann, bob = keys.make(key("ann")), keys.make(key("bob"))

    async def scenario() -> None:
        holding = asyncio.Event()

        async def held(exchange: Exchange) -> None:
            await holding.wait()
            await exchange.answer()

        async with bed(FakeUpstream(held), keys_file=str(keys.file)) as it:
            headers = {**bearer(ann), "x-request-id": "r"}
            post = asyncio.create_task(it.post(headers=headers))
            await until(lambda: it.upstreams[0].got)
            seen = [
                (await it.get("/steward/v1/requests/r", bearer(each)))[0] for each in (ann, bob)
            ]
            holding.set()
            await post

        assert seen == [200, 404]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "more", "status"),
    [
        ("a", {}, 200),
        ("a", {"api_key_env": "PATH"}, 400),
        ("a", {"url": "http://model.example.org"}, 400),
        ("a", {"ca_file": "/etc/passwd"}, 400),
        ("a", {"profile": "/etc/passwd"}, 400),
        ("a%0d%0aSet-Cookie:x", {}, 404),
        ("..%2f..%2fa", {}, 404),
    ],
)
def test_no_secret_or_file_of_the_machine_is_read_for_an_upstream_that_is_put(
    name: str, more: dict[str, str], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> tuple[int, Any]:
        async with bed() as it:
            url = URL(f"{it.url}/steward/v1/upstreams/{name}", encoded=True)
            body = {"url": it.upstreams[0].url, "models": ["m"], **more}
            async with it.client.put(url, json=body) as reply:
                return reply.status, await reply.json()

    answered, _ = asyncio.run(scenario())

    assert answered == status
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


@pytest.mark.parametrize(
    ("headers", "open_statuses", "with_keys"),
    [
        ({}, (200, 200), 401),
        ({"Host": "evil.example.org"}, (403, 200), 401),
        ({"Host": "[::1"}, (403, 200), 401),
        ({"Host": "localhost:8788", "Origin": "http://localhost:8788"}, (200, 200), 401),
        ({"Origin": "https://evil.example.org"}, (403, 403), 401),
        ({"Origin": "null"}, (403, 403), 401),
    ],
)
def test_web_pages_cannot_use_a_gateway_that_asks_for_no_key(
    tmp_path: Path, headers: dict[str, str], open_statuses: tuple[int, int], with_keys: int
) -> None:
    async def scenario() -> list[int]:
        settings: list[dict[str, Any]] = [
            {},
            {"anonymous": True},
            {"keys_file": str(tmp_path / "keys.json")},
        ]
        statuses = []
        for each in settings:
            async with bed(**each) as it:
                statuses.append((await it.post(headers=headers))[0])
        return statuses

    assert asyncio.run(scenario()) == [*open_statuses, with_keys]


@pytest.mark.parametrize("after", [b"", b"x" * 9000], ids=["at the end", "far from the end"])
def test_what_follows_the_usage_hides_no_token(tmp_path: Path, after: bytes) -> None:
    keys = ApiKeys(tmp_path / "keys.json")
    secret = keys.make(key("ann", tokens_per_day=100))
    usage = b'"usage": {"prompt_tokens": 7, "completion_tokens": 500}'
    raw = b'{"choices": [], ' + usage + b', "prompt_logprobs": "' + after + b'"}'

    async def scenario() -> None:
        async def answer(exchange: Exchange) -> None:
            await exchange.answer(raw=raw)

        async with bed(FakeUpstream(answer), keys_file=str(keys.file)) as it:
            replies = [await it.post(headers=bearer(secret)) for _ in range(2)]

        assert [each[0] for each in replies] == [200, 429]

    asyncio.run(scenario())


@pytest.mark.parametrize("cut", range(1, 62, 4))
def test_usage_that_comes_in_two_chunks_is_charged_whole(tmp_path: Path, cut: int) -> None:
    keys = ApiKeys(tmp_path / "keys.json")
    secret = keys.make(key("ann", tokens_per_day=100))
    usage = b'data: {"usage":{"prompt_tokens":7,"completion_tokens":5000}}\n\n'

    async def scenario() -> None:
        ours = asyncio.Event()

        async def stream(exchange: Exchange) -> None:
            await exchange.begin_stream()
            await exchange.event(usage[:cut])
            await ours.wait()
            await exchange.event(usage[cut:])
            await exchange.end_stream()

        async with bed(FakeUpstream(stream), keys_file=str(keys.file)) as it:
            body = json.dumps(chat(stream=True)).encode()
            async with it.client.post(it.url + CHAT, data=body, headers=bearer(secret)) as reply:
                await reply.content.readany()
                ours.set()
                await reply.read()
            status, _, _ = await it.post(headers=bearer(secret))

        assert status == 429

    asyncio.run(scenario())


def test_requests_that_come_together_do_not_all_pass_an_empty_budget(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path / "keys.json")
    secret = keys.make(key("ann", tokens_per_day=100))

    async def scenario() -> None:
        holding = asyncio.Event()

        async def held(exchange: Exchange) -> None:
            if len(it.upstreams[0].got) == 1:
                await holding.wait()
            await exchange.answer()

        async with bed(FakeUpstream(held), keys_file=str(keys.file)) as it:
            body = json.dumps(chat(user="x" * 4000)).encode()
            first = asyncio.create_task(it.post(body, headers=bearer(secret)))
            await until(lambda: it.upstreams[0].got)
            status, _, _ = await it.post(body, headers=bearer(secret))
            holding.set()
            await first
            after, _, _ = await it.post(headers=bearer(secret))

        assert status == 429
        assert after == 200, "what was charged too much is given back"

    asyncio.run(scenario())


def test_items_of_batches_are_charged_to_their_tenant(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path / "keys.json")
    secret = keys.make(key("ann", tokens_per_day=10))  # an answer of the bed takes 9
    keys.make(key("bob"))

    async def scenario() -> None:
        routes = NoRoutes()
        async with bed(keys_file=str(keys.file), extras=(routes,)) as it:
            assert routes.queue is not None
            calls = [item("ann"), item("ann"), item("ann"), item("bob"), item("gone"), item("")]
            replies = [await routes.queue.submit(each) for each in calls]
            chats, _, _ = await it.post(headers=bearer(secret))

        assert [each.status for each in replies] == [200, 200, 429, 200, 429, 200]
        assert int(replies[2].headers["Retry-After"]) > 60
        assert chats == 429

    asyncio.run(scenario())


def item(tenant: str) -> UpstreamCall:
    return UpstreamCall(path=CHAT, body=json.dumps(chat()).encode(), model="m", tenant=tenant)


class NoRoutes:
    """Routes without a path; `queue` is what batches are submitted to."""

    prefixes: tuple[str, ...] = ()
    queue: Submitter | None = None

    async def handle(self, request: web.BaseRequest, caller: Caller) -> web.StreamResponse:
        raise NotImplementedError

    async def start(self, queue: Submitter) -> None:
        self.queue = queue

    async def stop(self) -> None:
        pass

    def counts(self) -> BatchCounts:
        return BatchCounts(open=0, waiting=0, done=0, failed=0)


@given(
    costs=st.lists(st.integers(1, 50), max_size=60),
    gaps=st.lists(st.floats(0, 20), min_size=60, max_size=60),
)
def test_no_more_is_taken_than_the_budget_and_what_came_back(
    costs: list[int], gaps: list[float]
) -> None:
    budget = Budget(100, 5.0, 0.0)
    now_s = taken = 0.0
    for cost, gap in zip(costs, gaps, strict=False):
        now_s += gap
        if budget.wait_s(cost, now_s) == 0:
            budget.take(cost)
            taken += cost

    assert taken <= 100 + 5.0 * now_s + 1e-6


@given(cost=st.floats(1, 500), spent=st.floats(0, 1000))
def test_whoever_waits_as_long_as_told_is_let_in(cost: float, spent: float) -> None:
    budget = Budget(100, 5.0, 0.0)
    budget.take(spent)

    wait_s = budget.wait_s(cost, 0.0)

    assert budget.wait_s(cost, wait_s + 1e-6) == pytest.approx(0.0, abs=1e-6)

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive

from steward.clock import ManualClock
from steward.service.limits import (
    BodyLimit,
    BodyTooLargeError,
    BodyTooSlowError,
    RateLimit,
    StreamLimit,
)


def sent(*parts: bytes) -> Receive:
    """Return a client that sends a body in these parts."""
    pending = list(parts)

    async def receive() -> Message:
        part = pending.pop(0) if pending else b""
        return {"type": "http.request", "body": part, "more_body": bool(pending)}

    return receive


def scope(**headers: str) -> dict[str, object]:
    pairs = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    return {"type": "http", "headers": pairs}


def test_a_client_may_ask_so_often_and_then_has_to_wait() -> None:
    clock = ManualClock()
    rate = RateLimit(60, now_s=clock.now_s)

    first = [rate.wait_s("ada") for _ in range(61)]
    clock.set(1.0)
    later = [rate.wait_s("ada"), rate.wait_s("ada")]

    assert first == [0.0] * 60 + [1.0]
    assert later == [0.0, 1.0]


def test_one_client_does_not_use_up_what_another_may_ask() -> None:
    rate = RateLimit(1, now_s=ManualClock().now_s)

    waits = [rate.wait_s("ada"), rate.wait_s("ada"), rate.wait_s("bob")]

    assert waits[0] == waits[2] == 0.0
    assert waits[1] > 0


def test_only_so_many_clients_are_remembered() -> None:
    rate = RateLimit(1, most=10, now_s=ManualClock().now_s)

    for n in range(100):
        rate.wait_s(n)

    assert len(rate) == 10


@given(st.lists(st.floats(0, 5), max_size=80), st.integers(1, 30))
def test_no_client_ever_gets_more_than_its_burst_and_its_rate(
    gaps: list[float], per_minute: int
) -> None:
    clock = ManualClock()
    rate = RateLimit(per_minute, now_s=clock.now_s)

    granted = 0
    for gap in gaps:
        clock.set(clock.now_s() + gap)
        granted += rate.wait_s("ada") == 0.0

    assert granted <= per_minute + clock.now_s() * per_minute / 60 + 1e-6


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=10))
def test_a_body_within_the_limit_is_played_back_whole(parts: list[bytes]) -> None:
    whole = b"".join(parts)

    replay = asyncio.run(BodyLimit(200).read(scope(), sent(*parts)))

    assert asyncio.run(_once(replay)) == {
        "type": "http.request",
        "body": whole,
        "more_body": False,
    }


async def _once(receive: Receive) -> Message:
    return await receive()


@pytest.mark.parametrize("length", ["11", "9" * 5000])
def test_an_announced_length_beyond_the_limit_is_refused_unread(length: str) -> None:
    async def never() -> Message:
        raise AssertionError

    with pytest.raises(BodyTooLargeError):
        asyncio.run(BodyLimit(10).read(scope(content_length=length), never))


def test_a_body_in_pieces_without_a_length_is_refused_when_it_grows_too_large() -> None:
    with pytest.raises(BodyTooLargeError):
        asyncio.run(BodyLimit(10).read(scope(), sent(b"123456", b"123456")))


def test_a_body_that_never_ends_is_given_up() -> None:
    async def slow() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(BodyTooSlowError):
        asyncio.run(BodyLimit(10, within_s=0.01).read(scope(), slow))


# -- bodies that are too large to be held ------------------------------------------------------


async def _all_of(limit: StreamLimit, receive: Receive, **headers: str) -> list[Message]:
    counted = await limit.read(scope(**headers), receive)
    heard = [await counted()]
    while heard[-1].get("more_body"):
        heard.append(await counted())
    return heard


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=10))
def test_a_stream_within_the_limit_comes_through_piece_by_piece(parts: list[bytes]) -> None:
    heard = asyncio.run(_all_of(StreamLimit(200), sent(*parts)))

    assert [message["body"] for message in heard] == parts


@pytest.mark.parametrize("headers", [{}, {"content_length": "11"}])
def test_a_stream_is_stopped_where_it_grows_too_large(headers: dict[str, str]) -> None:
    with pytest.raises(BodyTooLargeError):
        asyncio.run(_all_of(StreamLimit(10), sent(b"123456", b"12345"), **headers))


def test_a_stream_that_stalls_is_given_up_but_a_client_that_listens_is_not() -> None:
    async def stalled() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def listening() -> Message:
        limit = StreamLimit(10, within_s=0.01)
        counted = await limit.read(scope(), _whole_then_slow())
        await counted()
        return await counted()

    with pytest.raises(BodyTooSlowError):
        asyncio.run(_all_of(StreamLimit(10, within_s=0.01), stalled))
    assert asyncio.run(listening()) == {"type": "http.disconnect"}


def _whole_then_slow() -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": b"1", "more_body": False}]

    async def receive() -> Message:
        if pending:
            return pending.pop()
        await asyncio.sleep(0.05)
        return {"type": "http.disconnect"}

    return receive

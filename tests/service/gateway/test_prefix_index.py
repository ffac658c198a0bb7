"""Prompts that upstreams have seen: hashed by blocks, bounded, forgotten with the upstream."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from steward.service.gateway.prefix_index import SeenPrefixes, prompt_blocks


def body(*texts: str, **more: object) -> bytes:
    messages = [{"role": "user", "content": each} for each in texts]
    return json.dumps({"model": "m", "messages": messages, **more}).encode()


def test_prompts_that_begin_alike_share_their_first_blocks_whatever_else_is_asked() -> None:
    one = prompt_blocks(body("a" * 3000, "x" * 3000, max_tokens=3))
    other = prompt_blocks(body("a" * 3000, "y" * 3000, stream=True))

    assert len(one) == len(other) == 5
    assert one[:2] == other[:2]
    assert not set(one[3:]) & set(other[3:])


def test_the_same_prompt_for_another_model_shares_nothing() -> None:
    one = prompt_blocks(body("a" * 3000))

    assert not set(one) & set(prompt_blocks(body("a" * 3000).replace(b'"m"', b'"n"')))


@given(st.binary(max_size=50))
def test_any_body_has_blocks_or_none(text: bytes) -> None:
    assert prompt_blocks(text) == ()


@given(
    most=st.integers(1, 20),
    prompts=st.lists(st.lists(st.integers(0, 30), max_size=12, unique=True), max_size=20),
)
def test_what_is_kept_is_bounded_and_leading_blocks_are_those_that_were_sent(
    most: int, prompts: list[list[int]]
) -> None:
    seen = SeenPrefixes(most)
    for each in prompts:
        seen.add(each)

        assert len(seen) <= most
        assert seen.leading(each) == min(len(each), most)

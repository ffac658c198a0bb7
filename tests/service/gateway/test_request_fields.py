"""The few fields that are read of a body, and the usage of an answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.service.gateway.openai_errors import GatewayError
from steward.service.gateway.request_fields import deadline_of, read_fields, usage_in

JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_read_or_refused_with_a_code(body: bytes) -> None:
    try:
        fields = read_fields(body)
    except GatewayError as fault:
        assert fault.status == 400
        assert fault.code
    else:
        assert isinstance(json.loads(body), dict)
        assert isinstance(fields.model, str)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"usage":{"prompt_tokens":7,"completion_tokens":2}}', (7, 2)),
        (b'data: {"usage": {"input_tokens": 5, "output_tokens": 1}}', (5, 1)),
        (b'{"usage":{"prompt_tokens":9}}', (9, 0)),
        (b'{"usage":null}', None),
        (b'{"prompt_tokens_details":{"cached_tokens":3}}', None),
    ],
)
def test_usage_is_read_under_either_name(text: bytes, expected: tuple[int, int] | None) -> None:
    usage = usage_in(text)

    assert (None if usage is None else (usage.prompt_tokens, usage.output_tokens)) == expected


def test_an_answer_that_talks_about_usage_is_not_mistaken_for_it() -> None:
    said = json.dumps({"choices": [{"delta": {"content": '"prompt_tokens": 99'}}]}).encode()

    assert usage_in(said) is None


@pytest.mark.parametrize("given_ms", ["", "-5", "1.5", "1e3", "²", "9" * 13])
def test_a_deadline_that_is_no_number_of_milliseconds_is_refused(given_ms: str) -> None:
    with pytest.raises(GatewayError, match="whole number of milliseconds"):
        deadline_of({"x-slo-ttft-ms": given_ms})


def test_a_deadline_is_read_in_seconds_and_is_not_endless() -> None:
    assert deadline_of({}) is None
    assert deadline_of({"x-slo-ttft-ms": "1500"}) == 1.5
    assert deadline_of({"x-slo-ttft-ms": "9" * 12}) == 30 * 86_400

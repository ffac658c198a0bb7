"""Remote read asks as Prometheus wants to be asked; answers are not believed blindly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clients.wire.compression import pack_snappy, unpack_snappy
from steward.clients.wire.remote_read import decode_read, encode_read
from steward.clients.wire.remote_write import field, labels_of_key
from steward.errors import StewardError
from wire_messages import one_series


def test_an_answer_is_read() -> None:
    inside = unpack_snappy(one_series({"__name__": "up"}, [1.0, 2.0]), most_bytes=2**20)

    found = decode_read(pack_snappy(field(0x0A, inside)))

    assert labels_of_key(found.key(0)) == {"__name__": "up"}
    assert found.values.tolist() == [1.0, 2.0]


def test_a_question_names_times_and_matchers() -> None:
    body = encode_read({"__name__": ("=~", "steward_.*")}, from_ms=1, to_ms=2)

    plain = unpack_snappy(body, most_bytes=1000)
    assert b"steward_.*" in plain
    assert plain[2:6] == b"\x08\x01\x10\x02"


def test_an_unknown_operator_is_refused_with_the_known_ones() -> None:
    with pytest.raises(StewardError, match="possible: =, !=, =~, !~"):
        encode_read({"a": ("~", "b")}, from_ms=0, to_ms=1)


@given(st.binary(max_size=60))
def test_strange_answers_are_refused(data: bytes) -> None:
    for body in (data, pack_snappy(data)):
        try:
            decode_read(body)
        except StewardError as fault:
            assert fault.problem

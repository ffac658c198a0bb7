"""Nothing is unpacked beyond what was agreed on."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clients.wire.compression import pack_snappy, unpack
from steward.errors import StewardError


@given(st.binary(max_size=500))
def test_what_is_packed_is_unpacked(data: bytes) -> None:
    assert unpack(pack_snappy(data), encoding="snappy", most_bytes=500) == data
    assert unpack(gzip.compress(data), encoding="gzip", most_bytes=500) == data
    assert unpack(data, encoding="identity", most_bytes=500) == data


@pytest.mark.parametrize("encoding", ["identity", "gzip", "snappy"])
def test_a_bomb_is_refused_before_it_is_large(encoding: str) -> None:
    zeros = bytes(5_000_000)
    body = {"identity": zeros, "gzip": gzip.compress(zeros), "snappy": pack_snappy(zeros)}[encoding]

    with pytest.raises(StewardError, match="more than 1000 bytes"):
        unpack(body, encoding=encoding, most_bytes=1000)


@pytest.mark.parametrize(
    "body", [b"", b"x", gzip.compress(b"abc", mtime=0)[:-4], gzip.compress(b"a", mtime=0) + b"!"]
)
def test_what_is_not_gzip_is_refused(body: bytes) -> None:
    with pytest.raises(StewardError, match="is not gzip"):
        unpack(body, encoding="gzip", most_bytes=1000)


def test_an_unknown_packing_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(StewardError, match="'br'") as refused:
        unpack(b"", encoding="br", most_bytes=10)

    assert "gzip, snappy" in refused.value.hint

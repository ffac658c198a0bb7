from __future__ import annotations

import gzip

from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.logs import one_case

LINES = st.sampled_from(
    [
        b"2025-06-01 00:00:01,587 x\n", b"[rank1]: y\n", b"2025-06-01T00:00:01Z stdout P part\n",
        b'{"log":"a\\u00e9\\n","stream":"stdout","time":"2025-06-01T00:00:01Z"}\n',
        b"\r\n", b"\0",
        b'{"__REALTIME_TIMESTAMP":"1748736001000000","MESSAGE":[1,2]}\n',
        b"  indented\n", b"\xff\n",
        b"[  1.500000] dmesg\n", b"E0601 00:00:01.5 klog\n", b'{"ts":1e5}\n',
        b"2025-06-01T00:00:02Z ",
    ]
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(head=st.binary(min_size=2, max_size=2), parts=st.lists(LINES | st.binary(max_size=20)))
def test_any_bytes_are_read_without_a_fault(head: bytes, parts: list[bytes]) -> None:
    one_case(head + b"".join(parts))


@settings(max_examples=50, deadline=None)
@given(head=st.binary(min_size=2, max_size=2), cut=st.integers(0, 60), junk=st.binary(max_size=9))
def test_damaged_packed_bytes_are_read_without_a_fault(head: bytes, cut: int, junk: bytes) -> None:
    packed = gzip.compress(b"2025-06-01 00:00:01 x\n" * 9)

    one_case(head + packed[:cut] + junk + packed[cut:])

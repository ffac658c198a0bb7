from __future__ import annotations

import io
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from steward.model.rules import Mode, Stream
from steward.observe.logs import ReadCounts, Reading, read_blocks

Row = tuple[int, bytes, bool]
JUNE_1_S = 1_748_736_000


def entries(
    data: bytes, mode: Mode = Mode.STRICT, tally: ReadCounts | None = None, block: int = 2**20
) -> list[Row]:
    reading = Reading(window_ns=0, block_bytes=block)
    blocks = read_blocks(
        io.BytesIO(data), mode=mode, stream=Stream(name="t"), tally=tally, reading=reading
    )
    return [
        (int(b.t_ns[i]) // 10**9 - JUNE_1_S, b.text(i), bool(b.joined[i]))
        for b in blocks
        for i in range(len(b))
    ]


def docker(second: int, log: str, stream: str = "stdout", **more: object) -> bytes:
    time = f"2025-06-01T00:00:{second:02d}.5Z"
    return json.dumps({"log": log, **more, "stream": stream, "time": time}).encode() + b"\n"


def cri(second: int, tag: str, text: str, stream: str = "stdout") -> bytes:
    return f"2025-06-01T00:00:{second:02d}.5Z {stream} {tag} {text}\n".encode()


def test_the_text_of_a_docker_line_is_what_the_program_wrote() -> None:
    data = docker(1, 'say "hé" \\ 😀\n', attrs={"a": [1, {"b": "}"}]}) + docker(2, "a\nb\n")

    assert entries(data) == [(1, 'say "hé" \\ 😀'.encode(), False), (2, b"a\nb", True)]
    assert entries(data, Mode.PREQ) == entries(data)


def test_lines_that_docker_cut_are_joined_in_strict_mode_and_outputs_may_alternate() -> None:
    part = "x" * 16384
    data = docker(1, part) + docker(2, "err\n", "stderr") + docker(3, part) + docker(4, "end\n")

    assert entries(data) == [(1, (2 * part + "end").encode(), False), (2, b"err", False)]
    assert len(entries(docker(0, "a\n") + data, Mode.PREQ)) == 5


def test_short_docker_lines_without_a_line_end_are_lines_of_their_own() -> None:
    assert len(entries(docker(1, "a") + docker(2, "b"))) == 2


def test_parts_of_cri_lines_are_joined_in_strict_mode_and_left_apart_in_preq() -> None:
    data = (
        cri(1, "P", "out-1 ")
        + cri(2, "P", "err-1 ", "stderr")
        + cri(3, "P:more", "out-2 ")
        + cri(4, "F", "err-2", "stderr")
        + cri(5, "F", "out-3")
        + cri(6, "F", "")
    )

    expected = [(1, b"out-1 out-2 out-3", False), (2, b"err-1 err-2", False), (6, b"", False)]
    assert entries(data) == expected
    assert entries(data, block=60) == expected
    assert [text for _, text, _ in entries(data, Mode.PREQ)][:2] == [b"out-1 ", b"err-1 "]


def test_a_part_that_never_ends_is_given_at_the_end() -> None:
    assert entries(cri(1, "F", "a") + cri(2, "P", "begun")) == [
        (1, b"a", False),
        (2, b"begun", False),
    ]


def test_what_is_no_parcel_is_kept_in_strict_mode_and_dropped_in_preq() -> None:
    strict, preq = ReadCounts(), ReadCounts()
    data = docker(1, "a\n") + b"broken {\n" + docker(2, "b\n")

    assert [text for _, text, _ in entries(data, tally=strict)] == [b"a", b"broken {", b"b"]
    assert [text for _, text, _ in entries(data, Mode.PREQ, preq)] == [b"a", b"b"]
    assert (strict.unparsed, strict.dropped, preq.unparsed, preq.dropped) == (1, 0, 1, 1)


def test_messages_of_the_journal_are_text_also_when_they_are_bytes() -> None:
    time = str((JUNE_1_S + 3) * 10**6 + 5)
    lines = [
        {"__REALTIME_TIMESTAMP": time, "MESSAGE": 'NVRM: "Xid"', "PRIORITY": "3"},
        {"MESSAGE": [78, 255, 10], "__REALTIME_TIMESTAMP": time},
        {"MESSAGE": None, "__REALTIME_TIMESTAMP": time},
    ]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    seen = entries(data)

    assert [text for _, text, _ in seen[:2]] == [b'NVRM: "Xid"', b"N\xff"]
    assert seen[2][1].startswith(b'{"MESSAGE": null')


TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30)
VALUES = st.recursive(TEXT | st.none() | st.integers(), st.lists, max_leaves=4)


@settings(max_examples=60, deadline=None)
@given(
    logs=st.lists(st.tuples(TEXT, st.booleans(), st.booleans()), min_size=1, max_size=8),
    extra=st.dictionaries(TEXT, VALUES, max_size=3),
    block=st.integers(20, 2000),
)  # fmt: skip
def test_unpacking_agrees_with_the_json_library(
    logs: list[tuple[str, bool, bool]], extra: dict[str, object], block: int
) -> None:
    data, expected = b"", []
    taken = {key: value for key, value in extra.items() if key not in ("log", "time", "stream")}
    for log, ascii_only, err in logs:
        message = {**taken, "log": log + "\n", "stream": "stderr" if err else "stdout",
                "time": "2025-06-01T00:00:01Z"}  # fmt: skip
        data += json.dumps(message, ensure_ascii=ascii_only).encode() + b"\n"
        expected.append(log.removesuffix("\r").encode())

    assert [text for _, text, _ in entries(data, block=block)] == expected


@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(st.tuples(st.booleans(), st.booleans(), st.text("ab", max_size=4)), max_size=12),
    block=st.integers(30, 600),
)
def test_joining_parts_agrees_with_a_slow_walk(
    parts: list[tuple[bool, bool, str]], block: int
) -> None:
    open_at: dict[bool, int] = {}
    expected: list[str] = ["first"]
    data = cri(1, "F", "first")
    for err, more, text in parts:
        data += cri(1, "P" if more else "F", text, "stderr" if err else "stdout")
        if err in open_at:
            expected[open_at[err]] += text
        else:
            expected.append(text)
            open_at[err] = len(expected) - 1
        if not more:
            del open_at[err]

    assert [text.decode() for _, text, _ in entries(data, block=block)] == expected

"""Shipping: everything arrives in order and once, or the gap is reported."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from factories import cluster, job, node
from observe.parcels import BUSY, T0, small
from steward.clients.steward_server import ServerReply
from steward.errors import TemporaryError
from steward.model.event import LogLine, Observation
from steward.model.job import JobState
from steward.model.span import Span
from steward.observe.agent import parcel as parcels
from steward.observe.agent import shipper as module
from steward.observe.agent.buffer import ParcelBuffer
from steward.observe.agent.clock_offset import Instant
from steward.observe.agent.parcel import Parcel, open_parcel
from steward.observe.agent.shipper import AgentIdentity, Shipper
from steward.store.spool import Spool

SENDER = AgentIdentity(agent="a-1", run="r-1", node="n1", version="0.1")


class Clocks:
    """Clocks that are moved by hand; the wall clock can be set, the other cannot."""

    def __init__(self, wall_s: float = T0) -> None:
        self.boot = "boot-1"
        self.wall_s = wall_s
        self.booted_s = 1000.0

    def instant(self) -> Instant:
        return Instant(self.wall_s, self.booted_s)

    def pass_(self, seconds: float) -> None:
        self.wall_s += seconds
        self.booted_s += seconds


class FakeServer:
    """Keeps what it is sent; `ahead_s` is its clock against the agent's."""

    def __init__(self, clocks: Clocks, *, ahead_s: float = 0.0) -> None:
        self.clocks = clocks
        self.ahead_s = ahead_s
        self.got: list[Parcel] = []
        self.reply: dict[str, Any] | None = None  # instead of taking it
        self.away = False
        self.name = "server-1"

    def send(self, body: bytes) -> ServerReply:
        if self.away:
            raise TemporaryError("no answer: refused", where="https://server")
        if self.reply is not None:
            return ServerReply(**self.reply)
        self.got.append(open_parcel(body))
        return self._answer()

    def time(self) -> ServerReply:
        if self.away:
            raise TemporaryError("no answer: refused", where="https://server")
        return ServerReply(**self.reply) if self.reply is not None else self._answer()

    def _answer(self) -> ServerReply:
        sent_s = self.clocks.wall_s
        self.clocks.pass_(0.004)
        there_s = sent_s + 0.002 + self.ahead_s
        return ServerReply(
            status=200,
            server=self.name,
            sent_s=sent_s,
            back_s=self.clocks.wall_s,
            received_s=there_s,
            answered_s=there_s,
        )

    @property
    def sequences(self) -> list[int]:
        return [each.label.sequence for each in self.got]

    def events(self, kind: str) -> list[str]:
        return [e.text for each in self.got for e in each.rest.events if e.kind == kind]


class Scene:
    """An agent's shipping with a server that is not there."""

    def __init__(self, folder: Path, *, max_bytes: int = 2**20, ahead_s: float = 0.0) -> None:
        self.clocks = Clocks()
        self.server = FakeServer(self.clocks, ahead_s=ahead_s)
        self.spool = Spool(folder, max_bytes=max_bytes)
        self.shipping = Shipper(
            ParcelBuffer(self.spool, max_memory_bytes=3000),
            self.server,
            sender=SENDER,
            clocks=self.clocks,
            dice=random.Random(0),  # noqa: S311 - jitter
        )

    def take(self, busy: float = 0.5) -> None:
        self.shipping.take(small(self.clocks.wall_s, busy=busy))

    def send_all(self) -> None:
        while self.shipping.step() == 0.0:
            pass


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    with closing(made.spool):
        yield made


def busy_of(seen: Parcel) -> list[tuple[float, float]]:
    return [
        row
        for table in seen.observation.frames
        if BUSY in table.columns
        for row in table.select("t_s", BUSY).rows()
    ]


def test_what_is_taken_arrives_in_order_and_leaves_the_disk(scene: Scene) -> None:
    for _ in range(3):
        scene.take()
    scene.send_all()

    assert scene.server.sequences == [1, 2, 3]
    assert scene.shipping.buffer.waiting_parcels == 0
    assert scene.shipping.status.sent_parcels == 3
    assert scene.shipping.status.problem == ""


def test_the_offset_of_the_clock_is_a_metric_of_the_node(scene: Scene) -> None:
    scene.take()
    scene.send_all()
    scene.take()
    scene.send_all()

    rows = [
        row
        for table in scene.server.got[1].observation.frames
        if module.CLOCK_OFFSET in table.columns
        for row in table.select("entity", module.CLOCK_OFFSET).rows()
    ]
    assert rows == [("n1", pytest.approx(0.0, abs=0.001))]


def test_a_server_that_is_away_for_an_hour_gets_everything_afterwards(scene: Scene) -> None:
    scene.server.away = True
    waits = []
    for _ in range(360):
        scene.take()
        waits.append(scene.shipping.step())
        scene.clocks.pass_(10.0)
    scene.server.away = False
    scene.send_all()

    assert scene.server.sequences == list(range(1, 361))
    assert [t_s for each in scene.server.got for t_s, _ in busy_of(each)] == pytest.approx(
        [T0 + 10.0 * i for i in range(360)]
    )
    assert waits[0] < 2.0
    assert 45.0 <= waits[-1] <= 75.0
    assert len({round(wait, 6) for wait in waits[-50:]}) == 50  # retries are not synchronised
    assert scene.shipping.lost_parcels == 0


def test_a_buffer_that_is_full_drops_the_oldest_and_reports_from_when_until_when(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, max_bytes=8000)
    scene.server.away = True
    for _ in range(40):
        scene.take()
        scene.shipping.step()
        scene.clocks.pass_(10.0)
    scene.server.away = False
    scene.send_all()
    scene.take()
    scene.send_all()

    first = scene.server.sequences[0]
    assert first > 5
    assert scene.server.sequences == list(range(first, 42))
    (gap,) = scene.server.events("telemetry.gap")
    assert f"from {T0:.0f} to {T0 + 10 * (first - 2):.0f}" in gap
    assert f"{first - 1} parcels were dropped, the buffer of 8000 bytes is full" in gap
    assert scene.shipping.lost_parcels == first - 1
    assert scene.server.got[-1].label.gaps == first - 1
    scene.spool.close()


def test_what_waited_on_disk_is_sent_by_the_next_run(tmp_path: Path) -> None:
    before = Scene(tmp_path)
    before.server.away = True
    before.take()
    before.take()
    before.spool.close()

    after = Scene(tmp_path)
    after.shipping.sender = AgentIdentity(agent="a-1", run="r-2", node="n1")
    after.take()
    after.send_all()

    assert [(each.label.run, each.label.sequence) for each in after.server.got] == [
        ("r-1", 1),
        ("r-1", 2),
        ("r-2", 1),
    ]
    after.spool.close()


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_a_refusal_that_may_pass_costs_nothing(scene: Scene, status: int) -> None:
    scene.take()
    scene.server.reply = {"status": status, "problem": "not now"}
    wait_s = scene.shipping.step()
    assert scene.shipping.status.problem == f"{status}: not now"

    scene.server.reply = None
    scene.send_all()

    assert wait_s > 0.5
    assert scene.server.sequences == [1]


def test_a_revoked_token_is_not_tried_in_a_hurry_and_nothing_is_lost(scene: Scene) -> None:
    scene.take()
    scene.send_all()
    scene.server.reply = {"status": 401, "problem": "this needs a valid access token"}
    scene.take()

    assert scene.shipping.step() >= 45.0
    scene.take()
    scene.server.reply = None
    scene.send_all()
    assert scene.server.sequences == [1, 2, 3]


def test_the_server_reports_when_to_come_back_but_not_for_ever(scene: Scene) -> None:
    scene.take()
    scene.server.reply = {"status": 503, "retry_after_s": 30.0}
    first = scene.shipping.step()
    scene.server.reply = {"status": 429, "retry_after_s": 1e9}
    second = scene.shipping.step()

    assert 22.0 < first < 38.0
    assert second <= 750.0


@pytest.mark.parametrize(
    "expected",
    [
        {"status": 400, "problem": "its label is wrong", "where": "parcel"},
        {"status": 413, "problem": "too large"},
    ],
)
def test_a_parcel_that_is_wrong_is_dropped_and_reported(
    scene: Scene, expected: dict[str, Any]
) -> None:
    scene.take()
    scene.send_all()
    scene.take()
    scene.server.reply = expected

    assert scene.shipping.step() == 0.0
    scene.server.reply = None
    scene.take()
    scene.send_all()

    assert scene.server.sequences == [1, 3]
    assert expected["problem"] in scene.server.events("telemetry.gap")[0]
    assert scene.shipping.lost_parcels == 1


def test_a_server_that_refuses_every_request_does_not_empty_the_buffer(scene: Scene) -> None:
    scene.take()
    scene.server.reply = {"status": 400, "problem": "for another host", "where": "Host header"}

    assert scene.shipping.step() > 0.5
    assert scene.shipping.buffer.waiting_parcels == 1


# -- clocks ------------------------------------------------------------------------------------


def test_an_agent_that_is_90_s_behind_is_put_right_and_this_is_reported(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ahead_s=90.0)
    scene.take()
    scene.send_all()
    scene.clocks.pass_(10.0)
    scene.take()
    scene.send_all()

    assert [t_s for each in scene.server.got for t_s, _ in busy_of(each)] == pytest.approx(
        [T0 + 90, T0 + 100], abs=0.1
    )
    assert "90.000 s behind the server's" in scene.server.events("clock.shifted")[0]
    assert len({each.label.shift_s for each in scene.server.got}) == 1
    scene.spool.close()


def test_clocks_that_nearly_agree_are_left_alone(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ahead_s=0.04)
    scene.take()
    scene.send_all()

    assert busy_of(scene.server.got[0])[0][0] == T0
    scene.spool.close()


def test_what_was_packed_before_the_clock_was_set_is_put_right_too(scene: Scene) -> None:
    scene.server.away = True
    scene.take()  # with a clock that is an hour behind
    scene.clocks.wall_s += 3600.0
    scene.take()
    scene.server.away = False
    scene.send_all()

    assert [t_s for each in scene.server.got for t_s, _ in busy_of(each)] == pytest.approx(
        [T0 + 3600, T0 + 3600], abs=0.1
    )


def test_what_was_packed_before_the_machine_was_started_keeps_its_times(scene: Scene) -> None:
    scene.server.away = True
    scene.take()
    scene.clocks.boot, scene.clocks.booted_s = "boot-2", 5.0
    scene.clocks.wall_s += 500.0
    scene.server.away, scene.server.ahead_s = False, 90.0
    scene.send_all()

    assert busy_of(scene.server.got[0])[0][0] == T0


# -- state of the server ---------------------------------------------------------------


def test_a_server_that_starts_anew_is_reported_what_still_holds(scene: Scene) -> None:
    span = Span(id="s1", entity="n1/*", kind="job", name="1", from_s=T0)
    ended = job("2", on=("n1/gpu0",), state=JobState.COMPLETED)
    result = Observation(
        cluster=cluster(node("n1")), jobs=(job("1", on=("n1/gpu0",)), ended), spans=(span,)
    )
    scene.shipping.take(result)
    scene.send_all()
    scene.take()
    scene.send_all()
    scene.server.name = "server-2"
    scene.take()
    scene.send_all()
    scene.take()
    scene.send_all()

    clusters = [each.rest.cluster is not None for each in scene.server.got]
    assert clusters == [True, False, False, True]
    assert [each.id for each in scene.server.got[-1].rest.jobs] == ["1"]
    assert scene.server.got[-1].rest.spans == (span,)


# -- what does not fit -------------------------------------------------------------------------


def test_a_storm_of_lines_becomes_several_parcels(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PARCEL_BYTES", 4000)
    dice = random.Random(0)  # noqa: S311 - text that does not compress
    lines = tuple(
        LogLine(t_s=T0, entity="n1", source="app", text=dice.randbytes(100).hex())
        for _ in range(100)
    )
    scene.shipping.take(Observation(lines=lines, events=()))
    scene.send_all()

    assert len(scene.server.got) > 2
    assert tuple(line for each in scene.server.got for line in each.rest.lines) == lines
    assert scene.server.sequences == list(range(1, len(scene.server.got) + 1))


def test_a_line_of_a_megabyte_is_cut(scene: Scene) -> None:
    line = LogLine(t_s=T0, entity="n1", source="app", text="x" * 2**20)
    scene.shipping.take(Observation(lines=(line,)))
    scene.send_all()

    assert len(scene.server.got[0].rest.lines[0].text) == 65_536


# -- disks -------------------------------------------------------------------------------------


def full_disk(*_args: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_does_not_stop_sending(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full_disk)
        scene.take()
        scene.take()
        assert "no space left" in scene.shipping.buffer.problem
        scene.send_all()
        assert scene.server.sequences == [1, 2]
        scene.server.away = True
        scene.take()
    scene.take()
    scene.server.away = False
    scene.send_all()

    assert scene.server.sequences == [1, 2, 3, 4]
    assert scene.shipping.buffer.problem == ""


def test_what_not_even_memory_can_hold_is_reported_as_a_gap(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.server.away = True
    monkeypatch.setattr(os, "pwrite", full_disk)
    for _ in range(20):
        scene.take()
        scene.shipping.step()
        scene.clocks.pass_(1.0)
    scene.server.away = False
    scene.send_all()
    scene.take()
    scene.send_all()

    assert scene.shipping.lost_parcels > 0
    assert len(scene.server.got) + scene.shipping.lost_parcels == 21
    assert "no space left" in scene.server.events("telemetry.gap")[0]


def test_a_parcel_in_flight_is_not_dropped_twice(tmp_path: Path) -> None:
    scene = Scene(tmp_path, max_bytes=4000)
    scene.server.away = True
    scene.take()
    scene.shipping.step()  # holds the first while the buffer runs over
    for _ in range(20):
        scene.take()
    scene.server.away = False
    scene.send_all()

    sequences = scene.server.sequences
    assert sequences == sorted(set(sequences))
    assert sequences[-1] == 21
    scene.spool.close()


def test_the_limits_of_both_ends_agree() -> None:
    assert module.MAX_PARCEL_BYTES == parcels.MAX_PARCEL_BYTES

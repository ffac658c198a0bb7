"""The agent's main loop: it collects, sends, reports changes, and stops on request."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from observe.agent.test_shipper import SENDER, Clocks, FakeServer
from observe.parcels import small
from patience import LONG_S, until
from steward.clock import WallClock
from steward.errors import StewardError
from steward.model.event import Availability, Observation
from steward.observe.agent.agent import Agent, agent_id, read_status
from steward.observe.agent.buffer import ParcelBuffer
from steward.observe.agent.shipper import Shipper
from steward.observe.watch import Watch
from steward.store.spool import Spool


class Source:
    """A collector with one sample per look, and a fault where the test sets one."""

    name, vocabulary = "source", "canonical"

    def __init__(self) -> None:
        self.broken = self.closed = False

    def close(self) -> None:
        self.closed = True

    def available(self) -> Availability:
        return Availability(status="ok", reason="")

    def collect(self, t_s: float) -> Observation:
        if self.broken:
            raise StewardError("the sensor is gone")
        return small(t_s)


class Scene:
    def __init__(self, folder: Path, source: Source | None = None) -> None:
        self.folder = folder
        self.source = source or Source()
        self.reports: list[str] = []
        self.clocks = Clocks()
        self.server = FakeServer(self.clocks)
        self.spool = Spool(folder, max_bytes=2**20)
        self.shipping = Shipper(
            ParcelBuffer(self.spool), self.server, sender=SENDER, clocks=self.clocks
        )
        self.agent = Agent(
            Watch((self.source,), timeout_s=LONG_S),
            self.shipping,
            clock=WallClock(),
            folder=folder,
            send_every_s=0.05,
            report=self.reports.append,
        )

    def run(self, enough: Callable[[], bool]) -> None:
        """Run it until there is enough."""
        stop = threading.Event()

        def end() -> None:
            try:
                until(enough)
            finally:
                stop.set()

        waiting = threading.Thread(target=end)
        waiting.start()
        self.agent.run(stop)
        waiting.join()

    def got(self, count: int) -> Callable[[], bool]:
        return lambda: len(self.server.got) >= count


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.spool.close()


def test_an_agent_sends_until_it_is_reported_to_stop_and_then_the_rest(scene: Scene) -> None:
    scene.run(scene.got(3))

    assert scene.shipping.buffer.waiting_parcels == 0
    assert scene.reports[0] == "sending"
    assert scene.reports[-1] == "stopped"
    assert scene.source.closed


def test_it_writes_how_it_is_doing(scene: Scene) -> None:
    scene.run(scene.got(1))

    message = read_status(scene.folder)

    assert (message["node"], message["collectors"]) == ("n1", ["source"])
    assert message["lost_parcels"] == 0
    assert isinstance(message["clock_offset_s"], float)


def test_a_fault_is_reported_once_and_sent_as_an_event(scene: Scene) -> None:
    scene.source.broken = True
    scene.run(scene.got(3))

    assert [line for line in scene.reports if "sensor is gone" in line] == [
        "collector source: the sensor is gone"
    ]
    assert len(scene.server.events("steward.fault")) == 1


def test_a_server_that_is_away_does_not_keep_it_from_ending(scene: Scene) -> None:
    scene.server.away = True
    scene.run(lambda: scene.shipping.buffer.waiting_parcels >= 2)

    assert "no answer: refused" in scene.reports[0]
    assert "parcels wait in" in scene.reports[-1]


def test_once_reports_whether_the_server_has_it(scene: Scene) -> None:
    assert scene.agent.once(0.01)
    assert len(scene.server.got) == 1

    scene.server.away = True
    assert not scene.agent.once(0.01)


def test_an_agent_keeps_its_id_and_replaces_one_that_is_broken(tmp_path: Path) -> None:
    first = agent_id(tmp_path / "new")

    assert agent_id(tmp_path / "new") == first
    (tmp_path / "new" / "agent-id").write_text("../\n")
    assert agent_id(tmp_path / "new") != first
    assert agent_id(tmp_path / "new").isalnum()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StewardError, match="nothing can be kept here"):
        agent_id(tmp_path / "file" / "agent")


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_status_that_is_not_there_is_reported(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "status.json").write_text(content)

    if content == "[]":
        assert read_status(tmp_path) == {}
    else:
        with pytest.raises(StewardError, match="no agent has written"):
            read_status(tmp_path)


def test_the_status_is_json(scene: Scene) -> None:
    scene.agent.once(0.01)

    assert json.loads((scene.folder / "status.json").read_text())["agent"] == "a-1"


def test_an_agent_continues_in_streams_where_it_was(tmp_path: Path) -> None:
    class Stream(Source):
        at = 0

        def collect(self, t_s: float) -> Observation:
            self.at += 1
            return super().collect(t_s)

        def close(self) -> None: ...

        def positions(self) -> dict[str, int]:
            return {"at": self.at}

        def resume(self, positions: dict[str, int]) -> None:
            self.at = positions["at"]

    first = Scene(tmp_path, Stream())
    first.run(first.got(2))
    first.spool.close()
    reached = first.source.positions()["at"]  # type: ignore[attr-defined]
    second = Scene(tmp_path, Stream())

    assert reached >= 2
    assert second.source.positions() == {"at": reached}  # type: ignore[attr-defined]
    second.spool.close()

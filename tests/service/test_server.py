"""The service as a program: it listens, streams, refuses, and ends well."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from patience import LONG_S
from service.bed import START_S
from service.running import TESTS, running
from steward.clock import ManualClock
from steward.config.settings import Settings
from steward.errors import StewardError
from steward.service import serve
from steward.store.journal import open_journal
from steward.store.telemetry import Telemetry
from tiny_world import TinyWorld, tiny_loop


def events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Read a stream of server-sent events."""
    event: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif event:
            yield event
            event = {}


Event = dict[str, str]
FROM_THE_START = {"Last-Event-ID": "0"}


def first(seen: Iterator[Event], wanted: Callable[[Event], bool]) -> Event:
    return next(event for event in seen if wanted(event))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_with_everything_on_disk(
    tmp_path: Path, how: signal.Signals
) -> None:
    with (
        running(tmp_path) as service,
        httpx.stream(
            "GET",
            f"{service.address}/api/v1/stream",
            headers=FROM_THE_START | service.headers,
            timeout=120,
        ) as stream,
    ):
        first(events(stream.iter_lines()), lambda event: event.get("event") == "entry")
        service.program.send_signal(how)
        code = service.program.wait(timeout=120)

    assert code == 0
    with closing(open_journal(f"sqlite:///{tmp_path / 'journal.sqlite3'}")) as journal:
        assert journal.newest() > 0
        assert journal.damage() == ()
    kept = Telemetry(tmp_path / "telemetry").read(from_s=START_S, to_s=START_S + 1e6)
    assert kept.height > 0


SCANNED = """
import gc, sys, threading
from pathlib import Path
from steward.config.settings import Settings
from steward.service import serve
from tiny_world import tiny_loop, TinyWorld
from steward.clock import ManualClock

scan = gc.get_objects
def scanned():
    print("scanned beside", sorted(each.name for each in threading.enumerate()))
    return scan()
gc.get_objects = scanned
folder = sys.argv[1]
settings = Settings.model_validate({"store": {"folder": folder}, "service": {"port": 0}})
loop = tiny_loop(Path(folder), TinyWorld(), ManualClock(0.0))
serve(loop, settings, stop_after_s=0.5)
print("turns", loop.status.turns > 0)
"""


def test_the_loop_begins_after_the_page_framework_has_looked_at_all_objects(
    tmp_path: Path,
) -> None:
    # A tuple that a thread is building while somebody else holds it cannot be finished.
    said = subprocess.run(
        [sys.executable, "-c", SCANNED, tmp_path],
        env={**os.environ, "PYTHONPATH": f"{TESTS}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )

    assert (said.returncode, said.stderr) == (0, "")
    lines = said.stdout.splitlines()
    assert [line.startswith("scanned beside ['MainThread'") for line in lines] == [True, False]
    assert "'loop'" not in lines[0]
    assert lines[-1] == "turns True"


def test_a_stream_goes_on_where_a_client_was_cut_off(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        url = f"{service.address}/api/v1/stream"
        with httpx.stream(
            "GET", url, headers=FROM_THE_START | service.headers, timeout=120
        ) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            seen = events(stream.iter_lines())
            entry = first(seen, lambda event: event["event"] == "entry")
            turn = first(seen, lambda event: event["event"] == "turn")
        cut = {"Last-Event-ID": str(int(entry["id"]) - 1)} | service.headers
        with httpx.stream("GET", url, headers=cut, timeout=120) as stream:
            again = first(events(stream.iter_lines()), lambda event: event["event"] == "entry")
        wrong = httpx.get(
            url, headers={"Last-Event-ID": "yesterday"} | service.headers, timeout=120
        )

    assert json.loads(turn["data"]).keys() == {"turns", "t_s", "last_turn_s"}
    assert again == entry
    assert json.loads(entry["data"])["seq"] == int(entry["id"])
    assert wrong.status_code == 400


def settings(folder: Path, **service: object) -> Settings:
    return Settings.model_validate({"store": {"folder": str(folder)}, "service": service})


def test_a_port_in_use_is_named_before_anything_starts(tmp_path: Path) -> None:
    loop = tiny_loop(tmp_path, TinyWorld(), ManualClock(START_S))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(StewardError, match="in use") as caught:
            serve(loop, settings(tmp_path, port=port))

    loop.close()
    assert caught.value.where == f"127.0.0.1:{port}"
    assert "--port" in caught.value.hint
    assert loop.status.turns == 0


@pytest.mark.parametrize("host", ["203.0.113.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_refused(tmp_path: Path, host: str) -> None:
    loop = tiny_loop(tmp_path, TinyWorld(), ManualClock(START_S))
    given = settings(tmp_path, host=host, port=0, plain_http=True)
    given.store.tokens_file.write_text(
        '[{"name": "ada", "role": "viewer", "made_s": 0.0, "sha256": "00"}]'
    )

    with pytest.raises(StewardError) as caught:
        serve(loop, given)

    loop.close()
    assert host in f"{caught.value}"
    assert caught.value.hint


def test_an_open_address_needs_a_certificate_or_an_explicit_word(tmp_path: Path) -> None:
    loop = tiny_loop(tmp_path, TinyWorld(), ManualClock(START_S))

    with pytest.raises(StewardError, match="in the clear") as caught:
        serve(loop, settings(tmp_path, host="0.0.0.0", port=0))  # noqa: S104 - that is the test

    loop.close()
    assert "tls_certificate" in caught.value.hint
    assert "--plain-http" in caught.value.hint

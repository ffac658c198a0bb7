"""Recorded telemetry leaves in every format, and comes back the same."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from steward.cli.app import app
from steward.clients.wire.exposition import decode_text
from steward.observe.receive import Decoders, observation_of
from steward.store.telemetry import Telemetry
from wire_messages import pushed

T_S = 1_700_000_000.0


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    telemetry = Telemetry(tmp_path / "rec" / "telemetry")
    for gpu in range(2):
        telemetry.append(
            pl.DataFrame(
                {
                    "t_s": [T_S + t for t in range(100)],
                    "entity": [f"n01/gpu{gpu}"] * 100,
                    "gpu.busy_share": [t / 100 for t in range(100)],
                    "gpu.power_watts": [None if t % 2 else 70.5 for t in range(100)],
                }
            )
        )
    telemetry.append(pl.DataFrame({"t_s": [T_S + 4000], "entity": ["n01"], "host.load_1m": [0.25]}))
    telemetry.close()
    return tmp_path / "rec"


def run(recording: Path, *options: str) -> Any:
    return CliRunner().invoke(app, ["observe", "export", "--data", str(recording), *options])


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Return an address that takes everything, and what it took."""
    taken: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            busy = self.path == "/busy" and len(taken) == 1
            self.send_response(404 if self.path == "/wrong" else 503 if busy else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_rest: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", taken
    server.shutdown()
    server.server_close()


def rows(*tables: pl.DataFrame) -> list[tuple[float, str, str, float]]:
    long = [
        table.unpivot(index=["t_s", "entity"], variable_name="metric").drop_nulls()
        for table in tables
    ]
    return sorted(pl.concat(long).select("t_s", "entity", "metric", "value").rows())


def expected(recording: Path) -> list[tuple[float, str, str, float]]:
    telemetry = Telemetry(recording / "telemetry")
    frame = telemetry.read(from_s=0, to_s=1e12)
    telemetry.close()
    return rows(frame)


def test_csv_has_a_line_per_value(recording: Path, tmp_path: Path) -> None:
    done = run(recording, "--to", str(tmp_path / "out.csv"))

    assert done.exit_code == 0, done.output
    assert "wrote 301 samples" in done.output
    read = pl.read_csv(tmp_path / "out.csv")
    assert sorted(read.rows()) == expected(recording)


def test_parquet_is_one_wide_table(recording: Path, tmp_path: Path) -> None:
    run(recording, "--to", str(tmp_path / "out.parquet"))

    assert rows(pl.read_parquet(tmp_path / "out.parquet")) == expected(recording)


def test_json_lines_leave_out_what_is_missing(recording: Path) -> None:
    done = run(recording, "--format", "json-lines", "--entity", "*/gpu1", "--to", "-")

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 100
    assert lines[1] == {"t_s": T_S + 1, "entity": "n01/gpu1", "gpu.busy_share": 0.01}


def test_prometheus_text_has_all_of_a_metric_together_with_times(
    recording: Path, tmp_path: Path
) -> None:
    file = tmp_path / "out.prom"
    run(recording, "--to", str(file))

    text = file.read_bytes()
    found = decode_text(text, now_ms=0, openmetrics=True)
    assert len(found.values) == 301
    assert int(found.t_ms.max()) == int((T_S + 4000) * 1000)
    assert text.endswith(b"# EOF\n")
    assert text.count(b"# TYPE steward_gpu_busy_share") == 1


def test_remote_write_brings_what_steward_takes_in_again(
    recording: Path, receiver: tuple[str, list[tuple[str, bytes]]]
) -> None:
    address, taken = receiver

    done = run(recording, "--format", "remote-write", "--to", f"{address}/w", "--json")

    assert json.loads(done.stdout)["sent"] == 301
    decoders = Decoders()
    seen = observation_of([decoders.remote_write(pushed(body)).convert() for _, body in taken])
    assert rows(*seen.tables) == expected(recording)


def test_otlp_brings_what_steward_takes_in_again(
    recording: Path, receiver: tuple[str, list[tuple[str, bytes]]]
) -> None:
    address, taken = receiver

    run(recording, "--format", "otlp-http", "--to", address)

    assert {path for path, _ in taken} == {"/v1/metrics"}
    decoders = Decoders()
    bodies = [pushed(body, encoding="gzip") for _, body in taken]
    seen = observation_of([decoders.otlp_metrics(body).convert() for body in bodies])
    assert rows(*seen.tables) == expected(recording)


def test_a_receiver_that_refuses_is_status_1(
    recording: Path, receiver: tuple[str, list[tuple[str, bytes]]]
) -> None:
    address, _ = receiver

    done = run(recording, "--format", "remote-write", "--to", f"{address}/wrong")

    assert done.exit_code == 1
    assert "refused 301" in done.output
    assert "answers 404" in done.output


def test_a_receiver_that_is_away_for_a_moment_is_told_and_gets_all(
    recording: Path, receiver: tuple[str, list[tuple[str, bytes]]]
) -> None:
    address, _ = receiver

    done = run(recording, "--format", "remote-write", "--to", f"{address}/busy")

    assert done.exit_code == 0, done.output
    assert "answers 503" in done.output
    assert "trying again for 60 s" in done.output
    assert "sent 301" in done.output


def test_times_choose_what_is_exported(recording: Path) -> None:
    last = run(recording, "--format", "csv", "--since", "10s")
    between = run(
        recording, "--format", "csv", "--from", str(T_S + 5), "--until", "2023-11-14T22:13:27"
    )

    assert len(last.stdout.splitlines()) == 2
    assert {line.split(",")[0] for line in between.stdout.splitlines()[1:]} == {
        str(T_S + 5),
        str(T_S + 6),
        str(T_S + 7),
    }


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--to", "x.foo"), "--format"),
        (("--format", "xml"), "no format called 'xml'"),
        (("--format", "csv", "--metric", "gpu.bussy"), "no metric called"),
        (("--format", "csv", "--from", "yesterday"), "'yesterday' is not a time"),
        (("--format", "remote-write", "--to", "nowhere"), "is not an address"),
        (("--format", "remote-write"), "remote-write goes to an address"),
        (("--to", "/dev/full/x.csv"), "/dev/full/x.csv: cannot be written: Not a directory"),
    ],
)
def test_wrong_use_is_said_in_words(recording: Path, options: tuple[str, ...], word: str) -> None:
    done = run(recording, *options)

    assert done.exit_code == 2
    assert word in done.output


def test_a_folder_without_telemetry_is_said_so(tmp_path: Path) -> None:
    done = run(tmp_path, "--to", str(tmp_path / "x.csv"))

    assert done.exit_code == 2
    assert "no telemetry here" in done.output
    assert not (tmp_path / "x.csv").exists()

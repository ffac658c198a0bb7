"""A server without pages, to be killed: python server.py FOLDER PORT."""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from steward.observe.agent.parcel import read_header
from steward.observe.intake import Intake, StreamPosition
from steward.store.recording import Recording

KEPT_EVERY_S = 0.15


def main(folder: str, port: str) -> None:
    intake = Intake(Path(folder) / "intake")
    recording = Recording(Path(folder) / "store", flush_every_s=0.1)
    threading.Thread(target=keep, args=(intake, recording), daemon=True).start()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            label = read_header(body)
            once = StreamPosition(stream=f"{label.agent}/{label.run}", number=label.sequence)
            intake.accept("parcel", body, position=once)
            self._answer()

        def _answer(self) -> None:
            now_s = time.time()
            text = json.dumps({"received_s": now_s, "answered_s": now_s, "server": "s"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_args: object) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


def keep(intake: Intake, recording: Recording) -> None:
    """Do what the loop does, only faster."""
    kept_s = time.monotonic()
    while True:
        recording.keep(intake.collect(time.time()))
        recording.upkeep(time.time())
        if time.monotonic() - kept_s > KEPT_EVERY_S:
            kept_s = time.monotonic()
            recording.flush()
            intake.release(intake.stored)
        time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A server that answers `/health`, for tests of those who start and stop it.

`--children N` starts as many processes that do nothing; `--stubborn` ignores TERM.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--name", default="")
    options.add_argument("--children", type=int, default=0)
    options.add_argument("--stubborn", action="store_true")
    given = options.parse_args()
    if given.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleep = [sys.executable, "-S", "-c", "import time; time.sleep(1000)"]
    for _ in range(given.children):
        subprocess.Popen(sleep)
    ThreadingHTTPServer(("127.0.0.1", given.port), _Handler).serve_forever()


if __name__ == "__main__":
    main()

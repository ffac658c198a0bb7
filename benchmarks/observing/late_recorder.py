"""`steward`, with a clock that is moved, and leave to go on in a folder that has an hour already.

    python late_recorder.py SECONDS_AHEAD observe record ...

So a benchmark sees the end of an hour without waiting for one.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module

ahead_s = float(sys.argv.pop(1))
clock = time.time
time.time = lambda: clock() + ahead_s

from steward.cli import main  # noqa: E402 - whoever asks for the time gets ours

vars(import_module("steward.cli.observe.record"))["_check_empty"] = lambda _out: None
main()

from __future__ import annotations

import os
import subprocess
import sys

ASK = """
import os
from steward.cli.small import stay_small
stay_small()
import polars
print(polars.thread_pool_size(), len(os.listdir("/proc/self/task")))
"""


def told(**settings: str) -> tuple[int, int]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("POLARS_")}
    said = subprocess.run(
        [sys.executable, "-c", ASK],
        env=clean | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    tables, threads = said.stdout.split()
    return int(tables), int(threads)


def test_a_program_that_stays_small_has_one_thread_for_tables_and_none_for_memory() -> None:
    assert told() == (1, 1)


def test_what_the_operator_has_set_stays() -> None:
    assert told(POLARS_MAX_THREADS="3")[0] == 3

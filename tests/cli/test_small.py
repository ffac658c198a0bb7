from __future__ import annotations

import os
import subprocess
import sys

ASK = """
from pathlib import Path
from steward.cli.small import stay_small
stay_small()
import polars
names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
print(polars.thread_pool_size(), *names)
"""


def told(**settings: str) -> tuple[int, list[str]]:
    # Polars, which tests have loaded already, tells its children how to keep memory.
    own = ("POLARS_", "_RJEM_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    said = subprocess.run(
        [sys.executable, "-c", ASK],
        env=clean | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    tables, *names = said.stdout.split()
    return int(tables), names


def test_a_program_that_stays_small_has_one_thread_for_tables_and_none_for_memory() -> None:
    tables, threads = told()

    assert tables == 1
    assert not [name for name in threads if name.startswith("jemalloc")]


def test_what_the_operator_has_set_stays() -> None:
    assert told(POLARS_MAX_THREADS="3")[0] == 3

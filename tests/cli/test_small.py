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
    ours = ("POLARS_", "_RJEM_")  # polars itself has set the latter, in this process
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
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


LET_GO = """
from pathlib import Path
from steward.cli.small import let_go_of_code, stay_small
stay_small()
import polars
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
def work():
    return polars.DataFrame({"a": [2, 1, 2]}).group_by("a").len().sort("a").rows()
first = work()
before = resident()
let_go_of_code()
print(before - resident(), first == work())
"""


def test_code_that_is_let_go_of_comes_back_when_it_is_needed() -> None:
    said = subprocess.run(
        [sys.executable, "-c", LET_GO], capture_output=True, text=True, check=True
    )

    freed_bytes, same = said.stdout.split()
    assert int(freed_bytes) > 5_000_000
    assert same == "True"


def test_what_the_operator_has_set_stays() -> None:
    assert told(POLARS_MAX_THREADS="3")[0] == 3

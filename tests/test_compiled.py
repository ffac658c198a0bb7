"""Compiled code is kept on disk, in a folder that belongs to exactly this code."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import steward.compiled
from steward.compiled import njit, reference_to

CODE = Path(steward.compiled.__file__)
ASK = "import numba, steward.compiled; print(numba.config.CACHE_DIR)"


def cache_of(code: Path, home: Path) -> Path:
    """Start a program with this copy of the code, and ask where it keeps what it compiles."""
    environment = {"PYTHONPATH": str(code), "XDG_CACHE_HOME": str(home), "PATH": "/usr/bin:/bin"}
    told = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path += {sys.path!r}; {ASK}"],
        env={**environment, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(told.stdout.strip())


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return a package with only the compiler module and one compiled function."""
    package = tmp_path / "code" / "steward"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    shutil.copy(CODE, package / "compiled.py")
    (package / "loop.py").write_text("# njit\nA = 1\n")
    (package / "plain.py").write_text("A = 1\n")
    return package


def test_the_cache_changes_with_compiled_code_and_with_nothing_else(
    copied: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    first = cache_of(copied.parent, home)

    (copied / "plain.py").write_text("A = 2\n")
    same = cache_of(copied.parent, home)
    (copied / "loop.py").write_text("# njit\nA = 2\n")
    other = cache_of(copied.parent, home)

    assert first == same != other
    assert first.parent == other.parent == home / "steward/compiled"


def test_a_few_older_caches_are_kept_and_the_oldest_go(copied: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    kept = home / "steward/compiled"
    for i in range(8):
        (kept / f"old{i}").mkdir(parents=True)

    now = cache_of(copied.parent, home)

    assert now in kept.iterdir()
    assert len(list(kept.iterdir())) == 4


def test_a_home_that_cannot_be_written_to_is_no_obstacle(copied: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("a file, where a folder should be")

    elsewhere = cache_of(copied.parent, home)

    assert elsewhere.is_dir()
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700
    elsewhere.rmdir()


@njit
def _doubled(values: np.ndarray) -> float:
    return float(2.0 * values.sum())


def test_compiled_functions_do_what_they_say() -> None:
    assert _doubled(np.arange(4.0)) == 12.0
    assert isinstance(_doubled, numba.core.dispatcher.Dispatcher)


PairRef, PairRefType = reference_to("PairRef", ("left", "right"), module=__name__)


@njit
def _swapped(left: np.ndarray, right: np.ndarray) -> float:
    pair = PairRef(left, right)
    pair.left = right
    return float(pair.left[0] - pair.right[0])


def test_a_record_by_reference_can_be_changed_in_compiled_code() -> None:
    assert _swapped(np.array([5.0]), np.array([3.0])) == 0.0

from __future__ import annotations

from pathlib import Path

import pytest

from steward.clients.linux.pages.damon import availability, read_kdamonds

# The layout of Linux 6.18, as a machine of ours shows it, with regions as its manual has them.
FILES = {
    "kdamonds/nr_kdamonds": "1",
    "kdamonds/0/state": "on",
    "kdamonds/0/pid": "812",
    "kdamonds/0/contexts/nr_contexts": "1",
    "kdamonds/0/contexts/0/operations": "vaddr",
    "kdamonds/0/contexts/0/monitoring_attrs/intervals/sample_us": "5000",
    "kdamonds/0/contexts/0/monitoring_attrs/intervals/aggr_us": "100000",
    "kdamonds/0/contexts/0/targets/0/pid_target": "4242",
    "kdamonds/0/contexts/0/schemes/0/tried_regions/total_bytes": "8192",
    "kdamonds/0/contexts/0/schemes/0/tried_regions/0/start": "4096",
    "kdamonds/0/contexts/0/schemes/0/tried_regions/0/end": "8192",
    "kdamonds/0/contexts/0/schemes/0/tried_regions/0/nr_accesses": "10",
    "kdamonds/0/contexts/0/schemes/0/tried_regions/0/age": "7",
    "kdamonds/0/contexts/0/schemes/0/tried_regions/1/start": "8192",
    "kdamonds/0/contexts/0/schemes/0/tried_regions/1/end": "12288",
    "kdamonds/0/contexts/0/schemes/0/tried_regions/1/nr_accesses": "4294967295",
    "kdamonds/0/contexts/0/schemes/0/tried_regions/2/start": "9",
    "kdamonds/0/contexts/0/schemes/0/tried_regions/2/end": "",
}


@pytest.fixture
def damon(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="ascii")
    return tmp_path


def test_regions_are_read_with_the_share_of_samples_that_found_them_used(damon: Path) -> None:
    (found,) = read_kdamonds(damon)

    assert (found.state, found.operations, found.targets) == ("on", ("vaddr",), (4242,))
    assert [(each.start, each.end) for each in found.regions] == [(4096, 8192), (8192, 12288)]
    assert found.access_share(found.regions[0]) == 0.5
    assert found.regions[0].age == 7


def test_a_counter_that_was_reset_while_it_was_read_counts_as_always(damon: Path) -> None:
    (found,) = read_kdamonds(damon)

    assert found.access_share(found.regions[1]) == 1.0


def test_nothing_is_ever_written(damon: Path) -> None:
    before = {each: each.stat().st_mtime_ns for each in damon.rglob("*")}

    read_kdamonds(damon)
    availability(damon)

    assert {each: each.stat().st_mtime_ns for each in damon.rglob("*")} == before


def test_a_kdamond_without_contexts_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "kdamonds" / "0").mkdir(parents=True)

    (found,) = read_kdamonds(tmp_path)

    assert (found.state, found.regions, found.targets) == ("", (), ())


def test_availability_says_what_would_help(tmp_path: Path, damon: Path) -> None:
    assert availability(damon).status == "ok"
    assert availability(tmp_path / "none").status == "missing"
    (damon / "kdamonds/0/state").write_text("off", encoding="ascii")
    assert availability(damon).status == "limited"

"""A store becomes one file and comes back as it was, or not at all."""

from __future__ import annotations

import os
import sqlite3
import tarfile
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factories import finding
from steward.errors import StewardError
from steward.store.archive import MANIFEST, archive_store, restore_store
from steward.store.journal import open_journal


def filled(folder: Path) -> Path:
    store = folder / "store"
    for name, text in {
        "learned/a.learned": "x",
        "telemetry/date=1/part.parquet": "PAR1",
        "jobs/1/log": "secret of a job",
        "tokens.json": "{}",
        "steward.lock": "1",
        "telemetry/.lock": "",
        "journal.sqlite3-wal": "no",
    }.items():
        file = store / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (store / "journal.sqlite3-wal").unlink()
    journal = open_journal(f"sqlite:///{store}/journal.sqlite3")
    journal.append([finding("j1")])
    journal.close()
    return store


def archived(store: Path, file: Path, **what: bool) -> Path:
    archive_store(store, file, made_s=1000.0, version="1", **what)
    return file


def test_what_was_stored_comes_back(tmp_path: Path) -> None:
    store = filled(tmp_path)

    found = restore_store(archived(store, tmp_path / "a.tar.gz"), tmp_path / "new")

    new = tmp_path / "new"
    assert (new / "learned/a.learned").read_text() == "x"
    assert (new / "telemetry/date=1/part.parquet").read_text() == "PAR1"
    journal = open_journal(f"sqlite:///{new}/journal.sqlite3")
    assert [entry.id for entry in journal.read()] == ["f-j1"]
    journal.close()
    assert found.left_out == ("jobs",)
    assert not (new / "jobs").exists()
    assert not (new / "steward.lock").exists()
    assert new.stat().st_mode & 0o077 == 0


def test_telemetry_can_be_left_out_and_jobs_taken(tmp_path: Path) -> None:
    file = archived(filled(tmp_path), tmp_path / "a.tar.gz", telemetry=False, jobs=True)

    restore_store(file, tmp_path / "new")

    assert (tmp_path / "new/jobs/1/log").exists()
    assert not (tmp_path / "new/telemetry").exists()


def test_an_archive_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = archived(filled(tmp_path), tmp_path / "a.tar.gz")

    assert file.stat().st_mode & 0o777 == 0o600


def test_a_database_is_whole_though_others_write_to_it(tmp_path: Path) -> None:
    store = filled(tmp_path)
    stop = threading.Event()

    def write() -> None:
        journal = open_journal(f"sqlite:///{store}/journal.sqlite3")
        number = 0
        while not stop.is_set():
            journal.append([finding(f"j{number}"), finding(f"k{number}")])  # always two together
            number += 1
        journal.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for round_ in range(3):
            file = archived(store, tmp_path / f"{round_}.tar.gz")
            restore_store(file, tmp_path / str(round_))
    finally:
        stop.set()
        writer.join()

    for round_ in range(3):
        with sqlite3.connect(tmp_path / str(round_) / "journal.sqlite3") as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert database.execute("SELECT count(*) FROM entries").fetchone()[0] % 2 == 1


def test_a_store_that_is_not_there_and_an_archive_inside_it_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="no store here"):
        archived(tmp_path / "none", tmp_path / "a.tar.gz")
    store = filled(tmp_path)
    with pytest.raises(StewardError, match="inside the store"):
        archived(store, store / "a.tar.gz")


def test_nothing_is_restored_over_something(tmp_path: Path) -> None:
    store = filled(tmp_path)
    file = archived(store, tmp_path / "a.tar.gz")

    with pytest.raises(StewardError, match="not empty"):
        restore_store(file, store)


def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    for number, name in enumerate(("../evil", "/evil", "a/../../evil")):
        file = tmp_path / f"{number}.tar.gz"
        with tarfile.open(file, "w:gz") as tar:
            tar.addfile(tarfile.TarInfo(name))

        with pytest.raises(StewardError, match="nothing that steward archives"):
            restore_store(file, tmp_path / "new")
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path / "new").exists()


def test_a_link_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        link = tarfile.TarInfo("tokens.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)

    with pytest.raises(StewardError, match="nothing that steward archives"):
        restore_store(file, tmp_path / "new")


def test_an_archive_of_a_newer_format_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.tar.gz"
    (tmp_path / MANIFEST).write_text('{"format": 9, "sha256": {}}', encoding="utf-8")
    with tarfile.open(file, "w:gz") as tar:
        tar.add(tmp_path / MANIFEST, MANIFEST)

    with pytest.raises(StewardError, match="has the format 9, this version knows 1"):
        restore_store(file, tmp_path / "new")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.data())
def test_damaged_archives_restore_nothing(tmp_path: Path, data: st.DataObject) -> None:
    whole = tmp_path / "a.tar.gz"
    if not whole.exists():
        archived(filled(tmp_path), whole)
    content = bytearray(whole.read_bytes())
    place = data.draw(st.integers(20, len(content) - 1))  # behind the header, whose time is free
    if data.draw(st.booleans()):
        content = content[:place]
    else:
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    file = tmp_path / "b.tar.gz"
    file.write_bytes(content)

    try:
        restore_store(file, tmp_path / "new")
    except StewardError:
        assert not (tmp_path / "new").exists()
    else:  # a bit that carries nothing: the padding of a block
        assert (tmp_path / "new/tokens.json").read_text() == "{}"
        (tmp_path / "new").rename(tmp_path / f"kept-{os.urandom(4).hex()}")
    assert not (tmp_path / ".new.restoring").exists()

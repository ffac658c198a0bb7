"""The journal: entries in all their forms, and a real journald that is followed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patience import LONG_S, until
from steward.clients.logs.journald import JournalctlFollower, JournaldEntry, parse
from steward.errors import StewardError

RECORDED = Path(__file__).parents[2] / "data" / "journald-252" / "entries.jsonl"


def recorded() -> list[JournaldEntry | None]:
    return [parse(line) for line in RECORDED.read_bytes().splitlines()]


def test_what_a_real_journald_wrote_is_read() -> None:
    entries = [entry for entry in recorded() if entry is not None]

    assert [entry.text for entry in entries] == [
        "Journal started",
        "plain words",
        "two\nlines",
        "not UTF-8: \ufffd\ufffd",
        "a control \x01 character",
    ]
    assert [entry.level for entry in entries] == [6, 3, 4, 6, 6]
    assert entries[1].unit == "trainer"
    assert entries[1].t_s == pytest.approx(1794752912.3, abs=600.0)
    assert len({entry.cursor for entry in entries}) == len(entries)


def test_an_entry_of_a_service_has_its_unit_and_control_group() -> None:
    raw = {
        "__CURSOR": "s=1;i=2",
        "__REALTIME_TIMESTAMP": "1794751710126850",
        "MESSAGE": "launched",
        "PRIORITY": "5",
        "_PID": "6938",
        "_TRANSPORT": "stdout",
        "_SYSTEMD_UNIT": "slurmstepd.scope",
        "SYSLOG_IDENTIFIER": "python",
        "_SYSTEMD_CGROUP": "/system.slice/slurmstepd.scope/job_812/step_0/user/task_0",
    }

    entry = parse(json.dumps(raw).encode())

    assert entry is not None
    assert (entry.unit, entry.level, entry.pid) == ("slurmstepd.scope", 5, 6938)
    assert entry.cgroup.endswith("job_812/step_0/user/task_0")
    assert entry.t_s == 1794751710.12685


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ([104, 195, 188], "hü"),
        (["first", "second"], "first"),
        ([[104, 105], "second"], "hi"),
    ],
)
def test_a_message_may_be_bytes_or_several(message: object, text: str) -> None:
    entry = parse(json.dumps({"__REALTIME_TIMESTAMP": "1", "MESSAGE": message}).encode())

    assert entry is not None
    assert entry.text == text


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b'{"MESSAGE": "no time"}',
        b'{"__REALTIME_TIMESTAMP": "1"}',
        b'{"__REALTIME_TIMESTAMP": "1", "MESSAGE": null}',
        b'{"__REALTIME_TIMESTAMP": "1", "MESSAGE": [300]}',
        b'{"__REALTIME_TIMESTAMP": "1", "MESSAGE": [1, "a"]}',
        b'{"__REALTIME_TIMESTAMP": "x", "MESSAGE": "a"}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_entry_is_none(raw: bytes) -> None:
    assert parse(raw) is None


@given(
    st.dictionaries(
        st.sampled_from(["MESSAGE", "PRIORITY", "_PID", "__CURSOR"]),
        st.none() | st.text() | st.integers() | st.lists(st.integers()),
    )
)
def test_no_fields_break_it(fields: dict[str, object]) -> None:
    entry = parse(json.dumps({"__REALTIME_TIMESTAMP": "1", **fields}).encode())

    assert entry is None or 0 <= entry.level <= 7


# -- following, with a program that stands in for journalctl ---------------------------------------


def program(folder: Path, script: str) -> JournalctlFollower:
    """Return a journal whose journalctl is a shell script; `$*` are its arguments."""
    file = folder / "journalctl"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return JournalctlFollower(program=str(file), arguments=("--quiet",))


def looked(journal: JournalctlFollower, *, until: int) -> list[str]:
    """Look until so many entries have come, or waiting makes no sense."""
    texts: list[str] = []
    end_s = time.monotonic() + LONG_S
    while len(texts) < until and time.monotonic() < end_s:
        texts += [entry.text for entry in journal.look()]
        time.sleep(0.01)
    return texts


ENTRY = '{"__CURSOR": "%s", "__REALTIME_TIMESTAMP": "1000000", "MESSAGE": "%s"}'


def test_a_follower_that_ends_is_started_again_after_the_last_entry(tmp_path: Path) -> None:
    script = f"""
    case "$*" in
      *--lines=1*) echo '{ENTRY % ("c0", "old")}' ;;
      *after-cursor=c0*) echo '{ENTRY % ("c1", "one")}' ;;
      *after-cursor=c1*) echo '{ENTRY % ("c2", "two")}'; exec sleep 60 ;;
    esac"""
    journal = program(tmp_path, script)

    assert looked(journal, until=2) == ["one", "two"]
    assert journal.positions() == {"cursor": "c2"}
    journal.close()


def test_a_restart_continues_after_the_cursor_that_was_kept(tmp_path: Path) -> None:
    script = f"""
    case "$*" in *after-cursor=c7*) echo '{ENTRY % ("c8", "new")}';; *) echo wrong;; esac
    exec sleep 60"""
    journal = program(tmp_path, script)
    journal.resume({"cursor": "c7"})

    assert looked(journal, until=1) == ["new"]
    assert journal.unreadable == 0
    journal.close()


def test_a_journalctl_that_fails_has_a_reason(tmp_path: Path) -> None:
    journal = program(tmp_path, "echo 'No permission to read the journal' >&2; exit 1")

    with pytest.raises(StewardError, match="No permission to read the journal") as caught:
        journal.look()
    assert "systemd-journal" in caught.value.hint


def test_an_endless_entry_is_dropped_and_counted(tmp_path: Path) -> None:
    script = f"""
    case "$*" in *--lines=1*) exit 0 ;; esac
    head -c 3000000 /dev/zero | tr '\\0' x; echo
    echo '{ENTRY % ("c1", "after")}'; exec sleep 60"""
    journal = program(tmp_path, script)

    assert looked(journal, until=1) == ["after"]
    assert journal.unreadable == 1
    journal.close()


def test_a_look_takes_no_more_than_it_may(tmp_path: Path) -> None:
    lines = "\n".join(f"echo '{ENTRY % (f'c{i}', i)}'" for i in range(6))
    journal = program(tmp_path, f'case "$*" in *--lines=1*) exit 0;; esac\n{lines}\nexec sleep 60')
    texts: list[str] = []
    while len(texts) < 6:
        some = [entry.text for entry in journal.look(at_most=2)]
        assert len(some) <= 2
        texts += some
        time.sleep(0.01)

    assert texts == [str(i) for i in range(6)]
    journal.close()


def test_no_journalctl_is_reported() -> None:
    assert (
        JournalctlFollower(program="no-such-journalctl").missing()
        == "there is no no-such-journalctl"
    )


# -- a real journald -------------------------------------------------------------------------------


@pytest.fixture
def namespace() -> Iterator[str]:
    """Run a second journald, next to that of the machine."""
    name = f"stewardtest{os.getpid()}"
    folder = Path(f"/run/systemd/journal.{name}")
    folder.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        ["/usr/lib/systemd/systemd-journald", name],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until((folder / "socket").exists)
    yield name
    process.terminate()
    process.wait(timeout=LONG_S)
    shutil.rmtree(folder, ignore_errors=True)
    for base in ("/var/log/journal", "/run/log/journal"):
        for each in Path(base).glob(f"*.{name}"):
            shutil.rmtree(each)


def journalctl_output(namespace: str) -> bytes:
    command = ["journalctl", f"--namespace={namespace}", "--no-pager"]
    return subprocess.run(command, capture_output=True, check=False).stdout


def send(namespace: str, *fields: bytes) -> None:
    """Write an entry by journald's own protocol."""
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.sendto(b"\n".join(fields) + b"\n", f"/run/systemd/journal.{namespace}/socket")
    sender.close()


@pytest.mark.real
def test_a_real_journal_is_followed_through_a_restart_of_ours(namespace: str) -> None:
    journal = JournalctlFollower(arguments=(f"--namespace={namespace}",))
    send(namespace, b"MESSAGE=before we came", b"PRIORITY=6")
    until(lambda: b"before we came" in journalctl_output(namespace))
    assert looked(journal, until=0) == []
    journal.look()

    send(namespace, b"MESSAGE=plain words", b"PRIORITY=3", b"SYSLOG_IDENTIFIER=trainer")
    binary = b"not UTF-8: \xff\xfe"
    send(namespace, b"PRIORITY=4\nMESSAGE\n" + len(binary).to_bytes(8, "little") + binary)
    first = looked(journal, until=2)
    journal.close()
    send(namespace, b"MESSAGE=while we were away", b"PRIORITY=6")
    again = JournalctlFollower(arguments=(f"--namespace={namespace}",))
    again.resume(journal.positions())
    second = looked(again, until=1)
    again.close()

    assert first == ["plain words", "not UTF-8: \ufffd\ufffd"]
    assert second == ["while we were away"]

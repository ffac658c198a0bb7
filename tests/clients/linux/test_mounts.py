"""How full file systems are: each once, those on disks at once, those far away when they answer."""

from __future__ import annotations

import math
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import fake_machine as fake
from patience import LONG_S, until
from steward.clients.host import HostSource
from steward.clients.linux.files import AbsentError
from steward.clients.linux.mounts import BoundedStatvfs, FileSystems, Mount, mounted

# Written by hand after proc(5); only the lines of /proc and / were recorded. Disks, a bind mount, a
# pod's /etc/hosts, images, containers, two Btrfs subvolumes, a ZFS pool, NFS and what is below.
TABLE = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
28 27 259:3 / /scratch rw,relatime shared:1 master:2 - xfs /dev/nvme0n1p3 rw
29 27 259:3 / /very/deep/scratch rw,relatime shared:1 - xfs /dev/nvme0n1p3 rw
30 27 259:3 /ann /ann rw,relatime shared:1 - xfs /dev/nvme0n1p3 rw
31 27 259:4 /pods/hosts /etc/hosts rw,relatime - ext4 /dev/nvme0n1p4 rw
32 27 0:45 / /tmp rw,nosuid - tmpfs tmpfs rw
33 27 0:46 / /var/lib/docker/overlay2/merged rw - overlay overlay rw,lowerdir=/l
34 27 7:1 / /snap/core ro,nodev - squashfs /dev/loop1 ro
35 27 7:2 / /image rw - ext4 /dev/loop2 rw
36 27 11:0 / /cd ro - iso9660 /dev/sr0 ro
37 27 0:50 /@home /pool/home rw - btrfs /dev/sdb rw,subvolid=256,subvol=/@home
38 27 0:51 /@var /pool/deep/var rw - btrfs /dev/sdb rw,subvolid=257,subvol=/@var
39 27 0:51 /@var/hosts /hosts rw - btrfs /dev/sdb rw,subvolid=257,subvol=/@var
40 27 0:53 / /tank rw - zfs tank rw,xattr
41 27 0:54 / /tank/ann rw - zfs tank/ann rw,xattr
42 27 259:5 / /my\040data rw - ext4 /dev/nvme1n1 rw
43 27 0:60 / /data rw,relatime - nfs4 filer:/data rw,vers=4.2
44 27 0:60 /ann /data2 rw,relatime - nfs4 filer:/data/ann rw,vers=4.2
45 43 259:6 / /data/local rw - ext4 /dev/nvme2n1 rw
46 27 0:61 / /lustre rw - lustre mgs@tcp:/lustre rw
47 27 259:7 / /database rw - ext4 /dev/nvme3n1 rw
"""
GIB = 2.0**30


class Disk:
    """A clock that is set by hand, and file systems with prepared answers."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.used = 25
        self.called: list[str] = []
        self.hangs: dict[str, threading.Event] = {}
        self.refuses = False

    def clock(self) -> float:
        return self.now_s

    def statvfs(self, path: str) -> os.statvfs_result:
        self.called.append(path)
        if path in self.hangs:
            assert self.hangs[path].wait(LONG_S)
        if self.refuses:
            raise OSError(116, "Stale file handle", path)
        # 100 GiB, 5 of them for root; half of the inodes taken
        block = 4096
        blocks = 100 * 2**30 // block
        free = blocks - self.used * 2**30 // block
        kept = 5 * 2**30 // block
        return os.statvfs_result((65536, block, blocks, free, free - kept, 1000, 500, 500, 0, 255))

    def systems(self, proc: Path, bounded: BoundedStatvfs | None = None) -> FileSystems:
        return FileSystems(proc, bounded or BoundedStatvfs(self.statvfs), clock=self.clock)


@pytest.fixture
def disk() -> Disk:
    return Disk()


def shown(proc: Path, *lines: str) -> Path:
    fake.write(proc / "self/mountinfo", "\n".join(lines) + "\n")
    return proc


def by_entity(systems: FileSystems) -> dict[str, list[float]]:
    values = systems.read()
    rows = [values[at : at + 4] for at in range(0, len(values), 4)]
    return dict(zip((block.entity for block in systems.blocks), rows, strict=True))


def unknown(values: list[float]) -> bool:
    return all(math.isnan(each) for each in values)


ROOT = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw"
NFS = "43 27 0:60 / /data rw,relatime - nfs4 filer:/data rw,vers=4.2"
LUSTRE = "46 27 0:61 / /lustre rw - lustre mgs@tcp:/lustre rw"


# -- which there are -------------------------------------------------------------------------------


def test_each_file_system_is_named_once_and_images_and_memory_not_at_all() -> None:
    assert [each.point for each in mounted(TABLE)] == [
        "/",
        "/data",
        "/data/local",
        "/database",
        "/lustre",
        "/my data",
        "/pool/home",
        "/scratch",
        "/tank",
    ]


def test_those_far_away_and_those_below_them_may_hang() -> None:
    far = {each.point for each in mounted(TABLE) if each.far}

    assert far == {"/data", "/data/local", "/lustre"}


def test_on_a_machine_without_disks_of_its_own_everything_may_hang() -> None:
    table = f"27 1 0:20 / / rw - nfs filer:/root rw\n{ROOT.replace(' / / ', ' / /scratch ')}\n"

    assert mounted(table) == (Mount(point="/", far=True), Mount(point="/scratch", far=True))


def test_what_is_mounted_over_another_one_hides_it() -> None:
    over = ROOT.replace("254:0", "0:99").replace("ext4", "overlay")

    assert mounted(f"{ROOT}\n{over}\n") == ()


def test_a_table_that_is_cut_short_keeps_its_whole_lines() -> None:
    assert mounted(f"{ROOT}\n46 27 0:61 / /lus") == (Mount(point="/", far=False),)


def test_a_machine_without_any_has_nothing_to_hide(tmp_path: Path, disk: Disk) -> None:
    with pytest.raises(AbsentError):
        disk.systems(shown(tmp_path, "32 27 0:45 / /tmp rw - tmpfs tmpfs rw"))


def test_a_path_may_have_anything_in_it(tmp_path: Path, disk: Disk) -> None:
    proc = shown(tmp_path, ROOT.replace(" / / ", r" / /ann@lab\040100%\134* "))

    assert list(by_entity(disk.systems(proc))) == ["/fs:/ann%40lab 100%25\\%2A"]
    assert disk.called == ["/ann@lab 100%\\*"]


# -- how full they are -----------------------------------------------------------------------------


def test_figures_are_those_of_df(tmp_path: Path, disk: Disk) -> None:
    seen = by_entity(disk.systems(shown(tmp_path, ROOT)))

    assert seen == {"/fs:/": [25 * GIB, 100 * GIB, 70 * GIB, 0.5]}


def test_disks_are_queried_twice_a_minute_and_held_in_between(tmp_path: Path, disk: Disk) -> None:
    systems = disk.systems(shown(tmp_path, ROOT))
    by_entity(systems)
    disk.used = 50

    disk.now_s = 29.0
    early = by_entity(systems)
    disk.now_s = 30.0
    due = by_entity(systems)

    assert (early["/fs:/"][0], due["/fs:/"][0]) == (25 * GIB, 50 * GIB)
    assert disk.called == ["/", "/"]


def test_what_refuses_to_answer_is_unknown_until_it_does(tmp_path: Path, disk: Disk) -> None:
    systems = disk.systems(shown(tmp_path, ROOT, NFS))
    disk.refuses = True
    by_entity(systems)
    until(lambda: len(disk.called) == 2)
    refused = by_entity(systems)
    disk.refuses, disk.now_s = False, 30.0
    by_entity(systems)

    until(lambda: not unknown(by_entity(systems)["/fs:/data"]))
    assert unknown(refused["/fs:/"])
    assert unknown(refused["/fs:/data"])


def test_what_is_unmounted_does_not_show_the_figures_of_what_is_below(
    tmp_path: Path, disk: Disk
) -> None:
    scratch = ROOT.replace("254:0 / /", "259:3 / /scratch")
    systems = disk.systems(shown(tmp_path, ROOT, scratch, NFS))
    by_entity(systems)
    until(lambda: not unknown(by_entity(systems)["/fs:/data"]))
    shown(tmp_path, ROOT)

    disk.now_s = 30.0
    seen = by_entity(systems)

    assert seen["/fs:/"] == [25 * GIB, 100 * GIB, 70 * GIB, 0.5]
    assert unknown(seen["/fs:/scratch"])
    assert unknown(seen["/fs:/data"])
    assert systems.changed


# -- what hangs ------------------------------------------------------------------------------------


@pytest.fixture
def hung(disk: Disk) -> Iterator[threading.Event]:
    """A server that does not answer until the event is set."""
    event = disk.hangs["/data"] = threading.Event()
    yield event
    event.set()


def test_a_server_that_hangs_is_a_gap_and_blocks_no_other(
    tmp_path: Path, disk: Disk, hung: threading.Event
) -> None:
    systems = disk.systems(shown(tmp_path, ROOT, NFS, LUSTRE))

    first = by_entity(systems)
    until(lambda: not unknown(by_entity(systems)["/fs:/lustre"]))
    for now_s in range(1, 200):
        disk.now_s = float(now_s)
        seen = by_entity(systems)
        assert unknown(seen["/fs:/data"])
        assert seen["/fs:/"][0] == 25 * GIB
    threads = [each for each in threading.enumerate() if each.name == "statvfs /data"]
    hung.set()
    until(lambda: not unknown(by_entity(systems)["/fs:/data"]))

    assert unknown(first["/fs:/data"])
    assert len(threads) == 1


def test_old_figures_are_not_shown_for_a_server_that_hangs_later(
    tmp_path: Path, disk: Disk
) -> None:
    systems = disk.systems(shown(tmp_path, NFS))
    until(lambda: not unknown(by_entity(systems)["/fs:/data"]))
    event = disk.hangs["/data"] = threading.Event()

    disk.now_s = 30.0
    at_once = by_entity(systems)
    disk.now_s = 33.0
    soon = by_entity(systems)
    event.set()

    assert not unknown(at_once["/fs:/data"])
    assert unknown(soon["/fs:/data"])


def test_a_mount_that_comes_gives_a_hanging_one_no_second_thread(
    tmp_path: Path, disk: Disk, hung: threading.Event
) -> None:
    bounded = BoundedStatvfs(disk.statvfs)
    by_entity(disk.systems(shown(tmp_path, ROOT, NFS), bounded))
    disk.now_s = 100.0

    by_entity(disk.systems(shown(tmp_path, ROOT, NFS, LUSTRE), bounded))

    assert not hung.is_set()
    assert disk.called.count("/data") == 1


def test_a_machine_without_threads_left_continues(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    seen = by_entity(disk.systems(shown(tmp_path, ROOT, NFS)))

    assert unknown(seen["/fs:/data"])
    assert seen["/fs:/"][0] == 25 * GIB


# -- in a container, and on a real machine ---------------------------------------------------------


def test_in_a_container_it_is_the_first_process_that_sees_the_mounts(
    tmp_path: Path, disk: Disk
) -> None:
    shown(tmp_path, ROOT)
    (tmp_path / "1/root").mkdir(parents=True)
    fake.write(tmp_path / "1/mountinfo", ROOT.replace(" / / ", " / /host/disk ") + "\n")

    seen = by_entity(disk.systems(tmp_path))

    assert list(seen) == ["/fs:/host/disk"]
    assert disk.called == [f"{tmp_path}/1/root/host/disk"]


def test_the_file_system_that_this_runs_on_agrees_with_the_kernel() -> None:
    systems = FileSystems(Path("/proc"), BoundedStatvfs())

    seen = by_entity(systems)

    assert seen
    for entity, values in seen.items():
        if not unknown(values):
            used, limit, available, _ = values
            assert 0 < used <= limit, entity
            assert used + available <= limit, entity


@contextmanager
def real_mount(kind: str, folder: Path) -> Iterator[Path]:
    point = folder / "here"
    point.mkdir()
    if kind == "tmpfs":
        command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(point)]
    else:
        image = folder / "image"
        with image.open("wb") as file:
            file.truncate(64 * 2**20)
        subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
        command = ["mount", "-o", "loop", str(image), str(point)]
    subprocess.run(command, check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)


@pytest.mark.real
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_bytes_that_are_written_are_bytes_that_are_used(tmp_path: Path, kind: str) -> None:
    """The mount is real; that it is on a disk is made up, since loops and memory are left out."""
    written = 16 * 2**20
    with real_mount(kind, tmp_path) as point:
        proc = fake.proc(tmp_path / "proc")
        shown(proc, ROOT, ROOT.replace("254:0 / /", f"259:9 / {point}"))
        before = FileSystems(proc, BoundedStatvfs()).read()[4:]
        (point / "file").write_bytes(os.urandom(written))
        os.sync()
        after = FileSystems(proc, BoundedStatvfs()).read()[4:]
        blocks = HostSource(proc=proc, sys=tmp_path / "sys").blocks()

    assert f"/fs:{point}" in {block.entity for block in blocks}
    assert after[0] - before[0] == pytest.approx(written, rel=0.05)
    assert before[2] - after[2] == pytest.approx(written, rel=0.05)
    assert after[1] == before[1] == pytest.approx(64 * 2**20, rel=0.15)
    assert after[3] > before[3]

"""The probes against programs that do a known amount of work, in a job's control group."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from kernel_load import Load, grown, job_group, read
from patience import until
from steward.observe.collectors.ebpf import Ebpf

pytestmark = pytest.mark.real
_SECONDS = count(start=0, step=100)


@contextmanager
def probing(*sets: str, max_groups: int = 256) -> Iterator[Ebpf]:
    """Run probe sets. Time jumps at each reading, so that a new job is seen at once."""
    probes = Ebpf(node="n1", sets=sets, max_groups=max_groups, now_s=lambda: float(next(_SECONDS)))
    try:
        probes.layout()
        assert probes.available().status == "ok", probes.available()
        yield probes
    finally:
        probes.close()


def worked(probes: Ebpf, work: str) -> dict[str, float]:
    """Return what a job was seen to do while it did that work."""
    with job_group() as (job, group):
        load = Load(work, group=group)
        try:
            before = read(probes)
            load.go()
            load.wait()
            after = read(probes)
        finally:
            load.end()
    return grown(before.get(f"n1@{job}", {}), after[f"n1@{job}"])


def test_time_asleep_is_counted_under_what_was_waited_for(tmp_path: Path) -> None:
    # A busy machine wakes no task on time: what the load slept is what it measures, less the time
    # that it then waited for a processor.
    work = f"""
    lock = threading.Lock(); lock.acquire()
    a, b = socket.socketpair()
    waits = dict(
        sleep=lambda: time.sleep(0.01),
        lock=lambda: lock.acquire(timeout=0.01),
        network=lambda: select.select([a], [], [], 0.01),
    )
    def awake_ns():
        delay = int(open("/proc/self/schedstat").read().split()[1])
        return time.monotonic_ns() - delay
    def work():
        for cause, wait in waits.items():
            began = awake_ns()
            for _ in range(100):
                wait()
            open({str(tmp_path)!r} + "/" + cause, "w").write(str(awake_ns() - began))
    """
    with probing("sched") as probes:
        seen = worked(probes, work)

    for cause in ("sleep", "lock", "network"):
        slept_ns = int((tmp_path / cause).read_text())
        assert slept_ns >= 1e9
        assert seen[f"wait.{cause}.ns"] == pytest.approx(slept_ns, rel=0.05), (cause, seen)
        assert seen[f"wait.{cause}.count"] == pytest.approx(100, rel=0.05), cause


def is_asleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def is_counted_asleep(probes: Ebpf, load: Load, job: str) -> bool:
    """Return True if the load sleeps and its sleep is counted; else wake it to sleep once more.

    Kernels leave out a few switches (`sched.bpf.c`), so that a single sleep may never be counted.
    """
    looks = [read(probes).get(f"n1@{job}", {}).get("wait.file.ns", 0.0) for _ in range(2)]
    if is_asleep(load.pid) and looks[1] > looks[0]:
        return True
    load.go()
    return False


def test_a_wait_that_lasts_is_seen_before_it_ends() -> None:
    work = """
    def work():
        while os.read(0, 1): pass
    """
    with probing("sched") as probes, job_group() as (job, group):
        load = Load(work, group=group)  # which now reads from a pipe
        try:
            until(lambda: is_counted_asleep(probes, load, job), why="its wait")
            at_s, looks = [time.monotonic()], []
            for rest_s in (0.5, 0.0):
                looks.append(read(probes)[f"n1@{job}"])
                at_s.append(time.monotonic())
                time.sleep(rest_s)
                at_s.append(time.monotonic())
            before, after = looks
        finally:
            load.end()

    least_s, most_s = at_s[2] - at_s[1], at_s[3] - at_s[0]  # a busy machine takes long to read
    assert 0.95 * least_s <= grown(before, after)["wait.file.ns"] * 1e-9 <= 1.05 * most_s
    assert grown(before, after)["wait.file.count"] == 0


def test_waiting_for_a_processor_is_what_the_scheduler_reports_it_was() -> None:
    spin = """
    def work():
        end = time.monotonic() + 1.5
        while time.monotonic() < end: pass
    """
    with probing("sched") as probes, job_group() as (job, group):
        loads = [Load(spin, group=group, pin=0) for _ in range(2)]
        try:
            before, waited = read(probes), sum(run_delay_ns(load.pid) for load in loads)
            for load in loads:
                load.go()
            for load in loads:
                load.wait()
            after = read(probes)
            waited = sum(run_delay_ns(load.pid) for load in loads) - waited
        finally:
            for load in loads:
                load.end()

    seen = grown(before.get(f"n1@{job}", {}), after[f"n1@{job}"])
    assert waited > 1e9  # or it was no test
    assert seen["runq.ns"] == pytest.approx(waited, rel=0.05)
    assert seen["wait.preempted.ns"] == pytest.approx(waited, rel=0.1)
    assert 0 < after[f"n1@{job}"]["runq.p50"] <= after[f"n1@{job}"]["runq.p99"] < 1.5


def run_delay_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])


def test_touched_pages_are_counted() -> None:
    work = """
    pages = 8192
    memory = mmap.mmap(-1, pages * 4096)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    def work():
        for at in range(0, pages * 4096, 4096):
            memory[at] = 1
    """
    with probing("faults") as probes:
        seen = worked(probes, work)

    assert seen["faults.count"] == pytest.approx(8192, rel=0.05)


def test_every_read_is_counted() -> None:
    work = """
    file = os.open(sys.executable, os.O_RDONLY)
    def work():
        for at in range(10_000):
            os.pread(file, 16, at)
        for _ in range(123):
            os.close(os.open("/dev/null", os.O_RDONLY))
    """
    with probing("syscalls") as probes:
        seen = worked(probes, work)

    assert seen["calls.pread64.count"] == 10_000
    assert seen["calls.openat.count"] == 123
    assert 10_000 * 50 < seen["calls.pread64.ns"] < 10_000 * 100_000


def test_time_inside_a_call_is_what_the_caller_measures(tmp_path: Path) -> None:
    work = f"""
    inside, outside = os.pipe()
    def write():
        for _ in range(20):
            time.sleep(0.05)
            os.write(outside, b'x')
    def work():
        threading.Thread(target=write).start()
        took = 0
        for _ in range(20):
            began = time.monotonic_ns()
            os.read(inside, 1)
            took += time.monotonic_ns() - began
        open({str(tmp_path / "took")!r}, "w").write(str(took))
    """
    with probing("syscalls") as probes:
        seen = worked(probes, work)

    took_ns = int((tmp_path / "took").read_text())
    assert seen["calls.read.count"] == 21  # and the one that starts the load
    assert seen["calls.read.ns"] == pytest.approx(took_ns, rel=0.05, abs=5e7)


def test_disks_have_moved_what_diskstats_has(tmp_path: Path) -> None:
    size, chunk = 32 << 20, 1 << 20
    with probing("block") as probes:
        read(probes)
        before, known = read(probes), diskstats()
        copy_past_the_cache(tmp_path / "data", size, chunk)
        after, later = read(probes), diskstats()

    disk = max(later, key=lambda name: sum(later[name]) - sum(known.get(name, (0, 0, 0, 0))))
    entity = f"n1/disk:{disk}"
    seen = grown(before.get(entity, {}), after[entity])
    names = ("block.read.count", "block.read.bytes", "block.write.count", "block.write.bytes")
    for name, now, then in zip(names, later[disk], known[disk], strict=True):
        assert seen[name] == pytest.approx(now - then, rel=0.05, abs=16 << 10), name
    assert seen["block.read.bytes"] >= size * 0.95
    assert seen["block.write.bytes"] >= size * 0.95
    assert 0 < after[entity]["block.p50"] <= after[entity]["block.p99"]


def copy_past_the_cache(path: Path, size: int, chunk: int) -> None:
    import mmap

    memory = mmap.mmap(-1, chunk)  # O_DIRECT needs it aligned
    memory.write(os.urandom(chunk))
    for flags, move in ((os.O_WRONLY | os.O_CREAT, os.writev), (os.O_RDONLY, os.readv)):
        file = os.open(path, flags | os.O_DIRECT, 0o600)
        try:
            for _ in range(size // chunk):
                assert move(file, [memory]) == chunk
        finally:
            os.close(file)


def diskstats() -> dict[str, tuple[int, int, int, int]]:
    """Return reads, bytes read, writes, bytes written of each disk, by Linux' own account."""
    found = {}
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if Path(f"/sys/block/{fields[2]}").exists():
            reads, _, sectors_read, _, writes, _, sectors_written = map(int, fields[3:10])
            found[fields[2]] = (reads, sectors_read * 512, writes, sectors_written * 512)
    return found


def test_segments_sent_again_are_what_the_tcp_counters_have() -> None:
    # A link whose other end does not answer: each attempt to connect is repeated after a second.
    script = """
set -e
ip link set lo up
ip link add v0 type veth peer name v1
ip addr add 10.255.0.1/24 dev v0
ip link set v0 up
ip link set v1 up
ip neigh add 10.255.0.2 lladdr 02:00:00:00:00:02 dev v0
python3 - <<'END'
import socket, time
connections = [socket.socket() for _ in range(100)]
for each in connections:
    each.setblocking(False)
    each.connect_ex(("10.255.0.2", 80))
time.sleep(2.5)
END
grep ^Tcp: /proc/net/snmp
"""
    with probing("tcp") as probes:
        before = read(probes)["n1"]
        finished = subprocess.run(
            ["unshare", "-n", "sh", "-c", script], capture_output=True, text=True, check=True
        )
        seen = grown(before, read(probes)["n1"])

    names, values = (line.split() for line in finished.stdout.splitlines())
    sent_again = int(values[names.index("RetransSegs")])
    assert sent_again >= 100
    assert seen["tcp.retransmits"] == pytest.approx(sent_again, rel=0.05)


def test_round_trips_of_a_connection_are_those_of_its_socket() -> None:
    import socket
    import struct

    with probing("tcp") as probes, socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
        before, known_s = read(probes)["n1"], []
        for _ in range(500):
            client.sendall(b"x")
            peer.sendall(peer.recv(1))
            client.recv(1)
            tcp_info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
            known_s.append(struct.unpack_from("<I", tcp_info, 68)[0] * 1e-6)
        after = read(probes)["n1"]
        client.close()
        peer.close()

    assert grown(before, after)["tcp.rtt.count"] >= 900
    # a busy machine takes longer for some than for others
    assert min(known_s) / 2 <= after["tcp.rtt.p50"] <= 2 * max(known_s)


FAKE = """
#include <stddef.h>
#include <unistd.h>
int cuLaunchKernel(void) { return 0; }
int cuMemcpyHtoD_v2(void *to, const void *from, size_t bytes) { return bytes == 0; }
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream) { return 0; }
int cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes) { return bytes == 0; }
int cuMemAlloc_v2(void **to, size_t bytes) { return 0; }
int cuStreamSynchronize(void *stream) { usleep(50000); return 0; }
"""


def test_calls_of_a_cuda_library_are_counted(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.1"
    (tmp_path / "fake.c").write_text(FAKE)
    compile_ = ["gcc", "-shared", "-fPIC", "-O1", "-o", library, tmp_path / "fake.c"]
    subprocess.run(compile_, check=True)
    ctypes.CDLL(str(library))  # this process has it mapped: that is how it is found
    work = f"""
    cuda = ctypes.CDLL({str(library)!r})
    size = ctypes.c_size_t
    def work():
        for _ in range(1000):
            cuda.cuLaunchKernel()
        for _ in range(200):
            cuda.cuMemcpyHtoD_v2(None, None, size(4096))
            cuda.cuMemcpyHtoDAsync_v2(None, None, size(100), None)
        for _ in range(30):
            cuda.cuMemcpyDtoH_v2(None, None, size(1 << 33))
        cuda.cuMemAlloc_v2(None, size(12345))
        began = time.monotonic_ns()
        for _ in range(10):
            cuda.cuStreamSynchronize(None)
        open({str(tmp_path / "took")!r}, "w").write(str(time.monotonic_ns() - began))
    """
    with probing("cuda", "cuda-launch") as probes:
        assert "cuda.launches.count" not in read(probes)["n1"]  # unknown is not zero
        probes.collect(0.0)
        seen = worked(probes, work)

    assert {name: value for name, value in seen.items() if not name.endswith(".ns")} == {
        "cuda.launches.count": 1000,
        "cuda.copies.to_device.count": 400,
        "cuda.copies.to_device.bytes": 200 * 4196,
        "cuda.copies.to_host.count": 30,
        "cuda.copies.to_host.bytes": 30 << 33,
        "cuda.copies.other.count": 0,
        "cuda.copies.other.bytes": 0,
        "cuda.synchronise.count": 10,
        "cuda.allocations.count": 1,
        "cuda.allocations.bytes": 12345,
        "nvtx.pushes.count": 0,
        "nvtx.pops.count": 0,
    }
    took_ns = int((tmp_path / "took").read_text())
    assert took_ns >= 0.5e9
    assert seen["cuda.synchronise.ns"] == pytest.approx(took_ns, rel=0.05)


def test_jobs_that_come_and_go_leave_the_total_of_the_node_growing() -> None:
    with probing("syscalls") as probes:
        totals, jobs = [], []
        for _ in range(3):
            seen = worked(probes, "def work():\n        [os.read(0, 0) for _ in range(1000)]")
            assert seen["calls.read.count"] >= 1000
            after = read(probes)
            totals.append(after["n1"]["calls.read.count"])
            jobs.append([entity for entity in after if "@" in entity])
        read(probes)
        last = read(probes)

    assert totals == sorted(totals)
    assert totals[2] - totals[0] >= 2000
    assert last["n1"]["calls.read.count"] >= totals[2]
    assert not [entity for entity in last if "@" in entity]


def test_more_groups_than_slots_are_counted_and_reported() -> None:
    with probing("faults", max_groups=2) as probes, job_group() as one, job_group() as other:
        loads = [Load("def work(): bytearray(1 << 24)", group=group) for _, group in (one, other)]
        try:
            before = read(probes)
            for load in loads:
                load.go()
                load.wait()
            after = read(probes)
        finally:
            for load in loads:
                load.end()
        events = probes.collect(1.0).events

    jobs = [entity for entity in after if "@" in entity]
    assert len(jobs) <= 1
    assert after["n1"]["probes.unattributed"] > 0
    assert grown(before["n1"], after["n1"])["faults.count"] >= 2 * 4000  # the node has them all
    assert [event.kind for event in events] == ["probes.full"]

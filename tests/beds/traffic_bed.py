"""Two machines and a slow router between them, as network namespaces of this one.

All traffic stays inside them: addresses are of three namespaces that nobody else is in.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

BULK_PORT, CHAT_PORT = 5001, 5002
TARGET = "10.78.0.1"
SLOWEST_BYTES_PER_S = 25e6  # 200 Mbit/s of the router
_RECEIVE = """
import socket, sys, threading, time
server = socket.create_server(("0.0.0.0", 5001))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(("0.0.0.0", 5002))
total = 0
def echo():
    while True:
        data, whom = udp.recvfrom(2048); udp.sendto(data, whom)
def bulk(connection):
    global total
    while data := connection.recv(1 << 16): total += len(data)
def accept():
    while True:
        threading.Thread(target=bulk, args=(server.accept()[0],), daemon=True).start()
for each in (echo, accept): threading.Thread(target=each, daemon=True).start()
print("ready", flush=True)
while sys.stdin.readline(): print(total, flush=True)
"""
_SEND = """
import os, socket, sys
if len(sys.argv) > 1: open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
link = socket.create_connection(("10.78.0.1", 5001)); block = b"x" * 65536
print("ready", flush=True)
while True: link.sendall(block)
"""
_CHAT = """
import json, socket, sys, time
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.settimeout(1.0)
took = []; until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    begun = time.monotonic()
    udp.sendto(b"x" * 64, ("10.78.0.1", 5002))
    try: udp.recv(2048); took.append(time.monotonic() - begun)
    except TimeoutError: took.append(1.0)
    time.sleep(0.005)
print(json.dumps(took))
"""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@dataclass
class TrafficBed:
    """`sender` is the namespace whose interface `out` is to be shaped."""

    sender: str
    router: str
    receiver: str
    out: str = "out"
    _children: list[subprocess.Popen[str]] = field(default_factory=list)
    _counter: subprocess.Popen[str] | None = None

    def _start(self, namespace: str, program: str, *words: str) -> subprocess.Popen[str]:
        command = ["ip", "netns", "exec", namespace, sys.executable, "-c", program, *words]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._children.append(child)
        return child

    def listen(self) -> None:
        self._counter = self._start(self.receiver, _RECEIVE)
        assert self._counter.stdout is not None
        assert self._counter.stdout.readline().strip() == "ready"

    def send(self, cgroup: str = "") -> None:
        """Send as fast as it goes, until the bed is closed."""
        child = self._start(self.sender, _SEND, *([cgroup] if cgroup else []))
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "ready"

    def received(self) -> int:
        assert self._counter is not None
        assert self._counter.stdin is not None
        assert self._counter.stdout is not None
        self._counter.stdin.write("\n")
        self._counter.stdin.flush()
        return int(self._counter.stdout.readline())

    def rate(self, seconds: float) -> float:
        """Return the bytes a second that arrive over so long."""
        before, begun = self.received(), time.monotonic()
        time.sleep(seconds)
        return (self.received() - before) / (time.monotonic() - begun)

    def latencies_s(self, seconds: float) -> list[float]:
        """Return how long small messages and their answers took."""
        command = ["ip", "netns", "exec", self.sender, sys.executable, "-c", _CHAT, str(seconds)]
        ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
        return [float(each) for each in json.loads(ran.stdout)]

    def close(self) -> None:
        for child in self._children:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()


@contextlib.contextmanager
def traffic_bed() -> Iterator[TrafficBed]:
    """Set the namespaces up, and take them away again."""
    mark = f"st{os.getpid() % 100_000}"
    a, r, b = f"{mark}a", f"{mark}r", f"{mark}b"
    bed = TrafficBed(a, r, b)
    made: list[str] = []
    try:
        for name in (a, r, b):
            _ip("netns", "add", name)
            made.append(name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("link", "add", "out", "netns", a, "type", "veth", "peer", "name", "left", "netns", r)
        _ip("link", "add", "right", "netns", r, "type", "veth", "peer", "name", "in", "netns", b)
        for name, interface, address in (
            (a, "out", "10.77.0.1/24"),
            (r, "left", "10.77.0.254/24"),
            (r, "right", "10.78.0.254/24"),
            (b, "in", "10.78.0.1/24"),
        ):
            _ip("-n", name, "addr", "add", address, "dev", interface)
            _ip("-n", name, "link", "set", interface, "up")
        _ip("-n", a, "route", "add", "default", "via", "10.77.0.254")
        _ip("-n", b, "route", "add", "default", "via", "10.78.0.254")
        _ip("netns", "exec", r, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        queue = "tc qdisc add dev right root tbf rate 200mbit burst 64kb limit 1mb"
        _ip("netns", "exec", r, *queue.split())
        yield bed
    finally:
        bed.close()
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def cgroup_mount() -> Path:
    """Return where cgroups of version 2 are mounted."""
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[2] == "cgroup2":
            return Path(words[1])
    raise AssertionError("no cgroup2 is mounted")

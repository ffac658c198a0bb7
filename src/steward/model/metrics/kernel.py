"""What the kernel can be asked about itself and about a job: scheduler, disks, TCP, faults.

Each is there for a node and for one job's part of it (`n01@812`); disks have their own.
"""

from __future__ import annotations

from steward.model.metric import Metric, alias, counted

__all__ = ["KERNEL_METRICS"]

_CAUSES = {
    "other": "something that is none of the other causes",
    "preempted": "a processor that was taken from them while they ran",
    "disk": "a disk",
    "uninterruptible": "the kernel, uninterruptibly, but not for a disk",
    "lock": "a lock (futex and the like)",
    "network": "a socket or an event (poll, epoll, receive, accept)",
    "file": "reading or writing a pipe, terminal or file",
    "sleep": "time to pass",
}
_CALLS = (
    "read",
    "pread64",
    "readv",
    "openat",
    "newfstatat",
    "mmap",
    "io_uring_enter",
    "getdents64",
)


def _quantiles(name: str, word: str, *, of: str, meaning: str) -> tuple[Metric, Metric]:
    p50, p99 = (
        Metric(
            name=f"{name}.{quantile}_seconds",
            unit="s",
            of=of,
            meaning=f"{meaning}: {quantile} since the last reading",
            aliases=(alias("ebpf", f"{word}.{quantile}"),),
        )
        for quantile in ("p50", "p99")
    )
    return p50, p99


def _counts(name: str, word: str, *, of: str = "node", meaning: str) -> tuple[Metric, Metric]:
    return counted(
        f"{name}_count", f"{name}_per_s", of=of, meaning=meaning, aliases=(alias("ebpf", word),)
    )


def _bytes(name: str, word: str, *, of: str = "node", meaning: str) -> tuple[Metric, Metric]:
    names = f"{name}_bytes", f"{name}_bytes_per_s"
    return counted(*names, of=of, meaning=meaning, aliases=(alias("ebpf", word),))


def _times(
    name: str, word: str, *, who: str = "threads", of: str = "node", meaning: str
) -> tuple[Metric, Metric]:
    """Return a counter of time and its rate: how many did it at one time, on average."""
    names = f"{name}_seconds", f"{name}.{who}_count"
    return counted(*names, of=of, meaning=meaning, aliases=(alias("ebpf", word, 1e-9),))


def _scheduler() -> tuple[Metric, ...]:
    waits = "times that a thread had to wait for a processor"
    return (
        *_counts("kernel.run_queue.waits", "runq.count", meaning=waits),
        *_times("kernel.run_queue.wait", "runq.ns", meaning="time spent waiting for a processor"),
        *_quantiles("kernel.run_queue.wait", "runq", of="node", meaning="one wait for a processor"),
        *(
            metric
            for cause, words in _CAUSES.items()
            for metric in (
                *_times(
                    f"kernel.wait.{cause}",
                    f"wait.{cause}.ns",
                    meaning=f"time that threads waited for {words}",
                ),
                *_counts(
                    f"kernel.wait.{cause}",
                    f"wait.{cause}.count",
                    meaning=f"times that threads waited for {words}",
                ),
            )
        ),
    )


def _calls() -> tuple[Metric, ...]:
    return tuple(
        metric
        for call in _CALLS
        for metric in (
            *_counts(f"kernel.calls.{call}", f"calls.{call}.count", meaning=f"calls of {call}"),
            *_times(f"kernel.calls.{call}", f"calls.{call}.ns", meaning=f"time inside {call}"),
        )
    )


def _disks() -> tuple[Metric, ...]:
    return (
        *(
            metric
            for way in ("read", "write")
            for metric in (
                *_counts(
                    f"kernel.disk.{way}",
                    f"block.{way}.count",
                    of="disk",
                    meaning=f"{way} requests that the disk has done",
                ),
                *_bytes(
                    f"kernel.disk.{way}",
                    f"block.{way}.bytes",
                    of="disk",
                    meaning=f"bytes of {way} requests that the disk has done",
                ),
                *_times(
                    f"kernel.disk.{way}",
                    f"block.{way}.ns",
                    who="requests",
                    of="disk",
                    meaning=f"time that {way} requests were with the disk",
                ),
            )
        ),
        *_quantiles("kernel.disk.latency", "block", of="disk", meaning="one request"),
    )


def _cuda() -> tuple[Metric, ...]:
    copies = {"to_device": "to the GPU", "to_host": "from the GPU", "other": "elsewhere"}
    allocations = "calls for device memory"
    return (
        *_counts("cuda.launches", "cuda.launches.count", meaning="CUDA kernels and graphs started"),
        *(
            metric
            for way, words in copies.items()
            for metric in (
                *_counts(
                    f"cuda.copies.{way}",
                    f"cuda.copies.{way}.count",
                    meaning=f"CUDA copies {words}",
                ),
                *_bytes(
                    f"cuda.copies.{way}",
                    f"cuda.copies.{way}.bytes",
                    meaning=f"bytes of CUDA copies {words}",
                ),
            )
        ),
        *_counts("cuda.synchronise", "cuda.synchronise.count", meaning="waits for a GPU to finish"),
        *_times("cuda.synchronise", "cuda.synchronise.ns", meaning="time in waits for a GPU"),
        *_counts("cuda.allocations", "cuda.allocations.count", meaning=allocations),
        *_bytes("cuda.allocations", "cuda.allocations.bytes", meaning=f"bytes in {allocations}"),
        *_counts("nvtx.pushes", "nvtx.pushes.count", meaning="NVTX ranges begun"),
        *_counts("nvtx.pops", "nvtx.pops.count", meaning="NVTX ranges ended"),
    )


KERNEL_METRICS: tuple[Metric, ...] = (
    *_scheduler(),
    *_disks(),
    *_counts("kernel.page_faults", "faults.count", meaning="page faults of programs"),
    *_counts("kernel.tcp.retransmits", "tcp.retransmits", meaning="TCP segments sent again"),
    *_counts(
        "kernel.tcp.round_trips", "tcp.rtt.count", meaning="TCP segments with a round-trip time"
    ),
    *_quantiles(
        "kernel.tcp.round_trip", "tcp.rtt", of="node", meaning="smoothed TCP round-trip time"
    ),
    *_calls(),
    *_cuda(),
    *_counts(
        "kernel.probes.lost",
        "probes.lost",
        meaning="events that steward's probes could not remember",
    ),
    *_counts(
        "kernel.probes.unattributed",
        "probes.unattributed",
        meaning="events of jobs that found all places for jobs taken",
    ),
)

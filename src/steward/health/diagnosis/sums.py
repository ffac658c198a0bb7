"""The sum over all devices, as training makes it: each ends with the sum of what all had."""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.queues import SimpleQueue

import numpy as np

__all__ = ["ring_sum", "torch_sum"]

PATIENCE_S = 120.0
Results = SimpleQueue[tuple[int, float]]


def ring_sum(members: int, words: int) -> tuple[int, float]:
    """Sum over processes in a ring of pipes; return wrong values and bytes a second."""
    context: SpawnContext = multiprocessing.get_context("spawn")
    pipes = [context.Pipe(duplex=False) for _ in range(members)]
    results: Results = context.SimpleQueue()
    workers = [
        context.Process(
            target=_ring_member,
            args=(rank, members, words, pipes[rank][1], pipes[rank - 1][0], results),
            daemon=True,
        )
        for rank in range(members)
    ]
    return _gathered(workers, results, members, words)


def torch_sum(devices: Sequence[str], words: int) -> tuple[int, float]:
    """Sum over devices by NCCL, or over processes by Gloo; return wrong values, bytes a second."""
    context: SpawnContext = multiprocessing.get_context("spawn")
    results: Results = context.SimpleQueue()
    port = _free_port()
    workers = [
        context.Process(
            target=_torch_member,
            args=(rank, len(devices), device, words, port, results),
            daemon=True,
        )
        for rank, device in enumerate(devices)
    ]
    return _gathered(workers, results, len(devices), words)


def _gathered(
    workers: list[SpawnProcess], results: Results, members: int, words: int
) -> tuple[int, float]:
    for each in workers:
        each.start()
    end_s = time.monotonic() + PATIENCE_S
    for each in workers:
        each.join(max(0.0, end_s - time.monotonic()))
    late = [each for each in workers if each.is_alive()]
    for each in late:
        each.kill()
    found: list[tuple[int, float]] = []
    while not results.empty():
        found.append(results.get())
    silent = members - len(found)
    wrong = sum(each for each, _ in found) + silent * words  # who says nothing has nothing right
    slowest_s = max((took_s for _, took_s in found), default=PATIENCE_S)
    return wrong, 4.0 * words / max(slowest_s, 1e-9)


def _ring_member(
    rank: int, members: int, words: int, after: Connection, before: Connection, results: Results
) -> None:
    own = np.full(words, rank + 1, np.int32)
    total, passing = own.copy(), own
    began_s = time.perf_counter()
    for _ in range(members - 1):
        if rank % 2:  # else all would wait for one another where pipes are full
            got = before.recv_bytes()
            after.send_bytes(passing.tobytes())
        else:
            after.send_bytes(passing.tobytes())
            got = before.recv_bytes()
        passing = np.frombuffer(got, np.int32)
        total = total + passing
    took_s = time.perf_counter() - began_s
    results.put((int(np.count_nonzero(total != members * (members + 1) // 2)), took_s))


def _torch_member(
    rank: int, members: int, device: str, words: int, port: int, results: Results
) -> None:
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    cuda = device.startswith("cuda")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if cuda else "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=members,
    )
    block = torch.full((words,), float(rank + 1), device=device)
    dist.all_reduce(block)
    wrong = int((block != members * (members + 1) / 2).sum())
    block = torch.full((words,), float(rank + 1), device=device)
    if cuda:
        torch.cuda.synchronize()
    began_s = time.perf_counter()
    dist.all_reduce(block)
    if cuda:
        torch.cuda.synchronize()
    took_s = time.perf_counter() - began_s
    wrong += int((block != members * (members + 1) / 2).sum())
    dist.destroy_process_group()
    results.put((wrong, took_s))


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])

"""What a thousand agents cost one server: parcels through the intake into Parquet, on one core.

Each simulated agent sends a parcel of ten ticks: 300 numbers of the node and 50 of each of eight
GPUs. Time is this process's CPU time: decoding, checking, the spool with its syncs, merging, the
store. HTTP is not in it (see `observe_ingest.py` for that).
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from report import bar, finish, progress, quick
from steward.model.event import Observation
from steward.model.frame import Frame
from steward.observe.agent.authorisation import check_authorised
from steward.observe.agent.parcel import Parcel, ParcelHeader, open_parcel, pack_parcel, read_header
from steward.observe.intake import Intake, StreamPosition
from steward.store.recording import Recording

AGENTS, QUICK_AGENTS, TURNS, TICKS = 1000, 100, 2, 10
NODE_NUMBERS, GPUS, GPU_NUMBERS = 300, 8, 50


def main() -> None:
    """Measure and print the result."""
    agents = QUICK_AGENTS if quick() else AGENTS
    progress(f"packing what {agents} agents send")
    begin_s = time.time() // 3600 * 3600
    bodies = [
        [_body(agent, turn, begin_s + turn * TICKS) for agent in range(agents)]
        for turn in range(TURNS)
    ]
    samples = sum(read_header(body).samples for turn in bodies for body in turn)
    with tempfile.TemporaryDirectory() as folder:
        intake = Intake(Path(folder) / "intake", max_open_bytes=2**30)
        recording = Recording(Path(folder) / "store")
        accept_s = collect_s = store_s = 0.0
        for turn in bodies:
            progress("taking them")
            accept_s += _cpu(lambda turn=turn: _accept(intake, turn))
            began_s = time.process_time()
            seen = intake.collect(begin_s)
            collect_s += time.process_time() - began_s
            store_s += _cpu(lambda seen=seen: _store(recording, intake, seen))
        recording.close()
        intake.close()
    label, seen = read_header(bodies[0][0]), open_parcel(bodies[0][0]).observation
    pack_s = _cpu(lambda: [pack_parcel(label, seen) for _ in range(50)]) / 50
    parcels = agents * TURNS
    total_s = accept_s + collect_s + store_s
    share = total_s / TURNS / 10.0 * AGENTS / agents
    finish(
        "observe_agents",
        {
            "agents": agents,
            "parcels": parcels,
            "samples": samples,
            "bytes_per_parcel": round(np.mean([len(body) for body in bodies[0]])),
            "accept_ms_per_parcel": 1e3 * accept_s / parcels,
            "collect_ms_per_parcel": 1e3 * collect_s / parcels,
            "store_ms_per_parcel": 1e3 * store_s / parcels,
            "parcels_per_cpu_s": parcels / total_s,
            "samples_per_cpu_s": samples / total_s,
            "core_share_of_1000_agents": share,
            "seal_ms": 1e3 * pack_s,
            "open_ms": 1e3 * _cpu(lambda: [open_parcel(bodies[0][0]) for _ in range(50)]) / 50,
        },
        [bar("core share of 1,000 agents, a parcel every 10 s each", share, "<", 0.5)],
    )


def _cpu(work: object) -> float:
    assert callable(work)
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def _accept(intake: Intake, bodies: list[bytes]) -> None:
    for body in bodies:
        label = read_header(body)
        once = StreamPosition(stream=f"{label.agent}/{label.run}", number=label.sequence)
        intake.accept("parcel", body, position=once, check=_check)


def _check(seen: object) -> None:
    assert isinstance(seen, Parcel)
    check_authorised(seen, seen.label.node)


def _store(recording: Recording, intake: Intake, seen: Observation) -> None:
    recording.keep(seen)
    recording.flush()
    intake.release(intake.stored)


def _body(agent: int, turn: int, from_s: float) -> bytes:
    dice = np.random.default_rng(agent)
    node = f"n{agent:04d}"
    gpus = [f"{node}/gpu{gpu}" for gpu in range(GPUS)]
    seen = Observation(
        frames=(
            _frame([node], "host", NODE_NUMBERS, from_s, dice),
            _frame(gpus, "gpu", GPU_NUMBERS, from_s, dice),
        )
    )
    label = ParcelHeader(agent=f"a{agent}", run="r", sequence=turn + 1, node=node)
    return pack_parcel(label, seen)


def _frame(
    entities: list[str], kind: str, numbers: int, from_s: float, dice: np.random.Generator
) -> Frame:
    """Return numbers that wander as sensors do: a few digits, small steps."""
    rows = len(entities) * TICKS
    steps = dice.normal(size=(numbers, rows)).cumsum(axis=1).round(2) + 100.0
    columns = {f"{kind}.part.number_{each}_bytes_per_s": steps[each] for each in range(numbers)}
    return pl.DataFrame(
        {
            "t_s": np.tile(from_s + np.arange(TICKS, dtype=float), len(entities)),
            "entity": [entity for entity in entities for _ in range(TICKS)],
            **columns,
        }
    )


if __name__ == "__main__":
    main()

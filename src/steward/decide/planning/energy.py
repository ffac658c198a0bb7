"""What a job's share of its machines draws, and the energy and carbon of it."""

from __future__ import annotations

from steward.decide.planning.charges import Occupied
from steward.decide.planning.durations import Spans, range_of
from steward.model.planning.catalog import Queue
from steward.model.planning.plan import Range

__all__ = ["IDLE_GPU_SHARE", "WATTS_PER_CORE", "WATTS_PER_GB", "co2_of", "energy_of", "host_watts"]

WATTS_PER_CORE = 4.0  # at work: between the clouds' 3.5 per vCPU and 6 per core of HPC nodes
WATTS_PER_GB = 0.37  # of memory; cloud-carbon-coefficients has 0.392 per GiB
IDLE_GPU_SHARE = 0.15  # of what it draws at work: held and not used
_J_PER_KWH = 3.6e6


def host_watts(queue: Queue, held: Occupied, memory_bytes: int) -> float:
    """Return what the cores and the memory draw that a job keeps from others."""
    whole = held.cores >= held.nodes * queue.cores_per_node > 0
    each = max(memory_bytes, queue.memory_bytes_per_node) if whole else memory_bytes
    return held.cores * WATTS_PER_CORE + held.nodes * each / 1e9 * WATTS_PER_GB


def energy_of(spans: Spans, *, gpus: int, held_gpus: int, host_w: float, pue: float) -> Range:
    """Return the energy in kWh, with cooling and what else the building takes."""
    busy_gpus = gpus + IDLE_GPU_SHARE * max(0, held_gpus - gpus)
    joules = (busy_gpus * spans.watts + host_w) * spans.busy_s * pue
    return range_of(joules / _J_PER_KWH)


def co2_of(kwh: Range, grams: tuple[float, float, float]) -> Range:
    """Return the carbon in kg, of a short, a usual and a long run, each in its own hours."""
    kg = (kwh.low * grams[0] / 1000.0, kwh.mid * grams[1] / 1000.0, kwh.high * grams[2] / 1000.0)
    return Range(low=min(kg), mid=kg[1], high=max(kg))

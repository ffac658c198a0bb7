"""The smallest values of planning: a test states only what it is about."""

from __future__ import annotations

from typing import Any

from steward.model.planning.catalog import (
    Accelerator,
    Basis,
    Catalog,
    CatalogSite,
    Charging,
    Engine,
    Queue,
    Source,
)
from steward.model.planning.plan import Choice, PlanRequest, Range, Way

__all__ = [
    "HOUR_S",
    "NOW_S",
    "about",
    "accelerator",
    "catalog_of",
    "choice",
    "exactly",
    "per_gpu",
    "per_node",
    "queue",
    "request",
    "site",
    "way",
]

HOUR_S = 3600.0
NOW_S = 1_795_000_000.0  # 2026-11-18
FRESH = Source(text="a price list", as_of="2026-11-01")


def exactly(value: float) -> Range:
    """Return a value that is known."""
    return Range(low=value, mid=value, high=value)


def about(hours: float, *, factor: float = 1.5) -> Range:
    """Return a length of time of so many hours, in seconds."""
    mid = hours * HOUR_S
    return Range(low=mid / factor, mid=mid, high=mid * factor)


def way(**but: Any) -> Way:
    """Return one GPU for two hours at 300 W."""
    facts: dict[str, Any] = {
        "gpu_model": "A100",
        "gpus": 1,
        "run_s": exactly(2 * HOUR_S),
        "watts": exactly(300.0),
    }
    return Way(**(facts | but))


def request(*ways: Way, **but: Any) -> PlanRequest:
    """Return a request that starts now."""
    facts: dict[str, Any] = {"name": "train", "ways": ways or (way(),), "now_s": NOW_S}
    return PlanRequest(**(facts | but))


def per_gpu(usd: float) -> Charging:
    """Return a price for each GPU and hour."""
    return Charging(basis=Basis.GPU_S, rate=usd)


def per_node(usd: float) -> Charging:
    """Return a price for each node and hour."""
    return Charging(basis=Basis.NODE_S, rate=usd)


def queue(name: str = "gpu", **but: Any) -> Queue:
    """Return a queue of nodes of four GPUs, at 1 USD for each GPU and hour."""
    facts: dict[str, Any] = {
        "name": name,
        "cores_per_node": 64,
        "memory_bytes_per_node": 256 * 10**9,
        "gpus_per_node": 4,
        "gpu_model": "A100",
        "charging": per_gpu(1.0),
        "source": FRESH,
    }
    return Queue(**(facts | but))


def site(name: str, *queues: Queue, **but: Any) -> CatalogSite:
    """Return a site whose queues nobody waits in."""
    facts: dict[str, Any] = {
        "name": name,
        "engine": Engine.LOCAL,
        "queues": queues or (queue(),),
        "grams_per_kwh": 400.0,
    }
    return CatalogSite(**(facts | but))


def accelerator(name: str = "A100", **but: Any) -> Accelerator:
    """Return a GPU of 80 GB."""
    facts: dict[str, Any] = {
        "name": name,
        "memory_bytes": 80 * 10**9,
        "memory_bytes_per_s": 2e12,
        "watts": 400.0,
        "flops": {"bf16": 312e12},
    }
    return Accelerator(**(facts | but))


def catalog_of(*sites: CatalogSite) -> Catalog:
    """Return the sites, with one kind of GPU described."""
    return Catalog(sites=sites, accelerators=(accelerator(aliases=("a100-80gb",)),))


def choice(**but: Any) -> Choice:
    """Return a choice that ends in two hours for 2 USD and 1 kg."""
    facts: dict[str, Any] = {
        "site": "here",
        "queue": "gpu",
        "way": way(),
        "nodes": 1,
        "start_s": NOW_S,
        "wait_s": exactly(0.0),
        "run_s": exactly(2 * HOUR_S),
        "end_s": exactly(NOW_S + 2 * HOUR_S),
        "links": 1,
        "interruptible": False,
        "usd": exactly(2.0),
        "units": {"USD": 2.0},
        "kwh": exactly(1.0),
        "co2_kg": exactly(1.0),
        "deadline_chance": None,
    }
    return Choice(**(facts | but))

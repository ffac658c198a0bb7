"""What a queue allows, and how old the facts about it are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from steward.decide.planning.charges import Occupied, occupied
from steward.errors import StewardError
from steward.model.planning.catalog import Accelerator, Catalog, CatalogSite, Queue

__all__ = ["Asked", "Fit", "Violation", "age_notes", "validate", "validate_site"]

OLD_S = 365 * 86400.0  # facts older than this are marked in every answer
_SLACK = 1e-9  # of a link: rounding must not add one


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a job asks for: GPUs in all; cores and memory of each of its nodes."""

    gpus: int = 0
    gpu_model: str = ""  # any when empty
    gpu_memory_bytes: int = 0  # that each GPU must have
    cores: int = 1
    memory_bytes: int = 0
    nodes: int | None = None  # None: as few as hold the GPUs
    run_s: float = 0.0
    saves: bool = False  # has checkpoints: may run as a chain of jobs
    save_s: float = 0.0  # what one save and restore costs

    def __post_init__(self) -> None:
        numbers = (self.gpus, self.gpu_memory_bytes, self.memory_bytes, self.run_s, self.save_s)
        if not all(0 <= each < math.inf for each in numbers) or self.cores < 1:
            problem = f"a request with negative or endless numbers, or without a core: {self}"
            raise StewardError(problem, hint="ask for 0 or more, and for one core at least")
        if self.nodes is not None and self.nodes < 1:
            raise StewardError(f"nodes is {self.nodes}", hint="ask for one node at least")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A limit that a request breaks, and the nearest value that does not.

    `limit` is gpus, gpu_model, gpu_memory, cores, memory, nodes or time; `nearest` is in its base
    unit, or the name of a GPU.
    """

    limit: str
    text: str
    nearest: float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What a request becomes in a queue. Where it does not fit, `violations` has each reason."""

    queue: str
    nodes: int
    occupied: Occupied  # and charged
    links: int  # jobs of the chain; 1 where one job is enough
    link_s: float  # run time of each of them, with saves
    violations: tuple[Violation, ...]
    notes: tuple[str, ...]  # what could not be checked

    @property
    def fits(self) -> bool:
        """Whether the queue takes the request."""
        return not self.violations


def validate(asked: Asked, queue: Queue, accelerator: Accelerator | None = None) -> Fit:
    """Check a request against the limits of a queue; `accelerator` describes its GPUs."""
    nodes = asked.nodes or _least_nodes(asked, queue)
    links, link_s = _chain(asked, queue)
    found = (
        *_gpu_violations(asked, queue, accelerator, nodes),
        *_node_violations(queue, nodes),
        *_share_violations(asked, queue),
        *_time_violations(asked, queue),
    )
    return Fit(
        queue=queue.name,
        nodes=nodes,
        occupied=occupied(
            queue, nodes=nodes, cores=asked.cores, gpus=asked.gpus, memory_bytes=asked.memory_bytes
        ),
        links=links,
        link_s=link_s,
        violations=found,
        notes=tuple(_unchecked(asked, queue, accelerator)),
    )


def validate_site(asked: Asked, site: CatalogSite, catalog: Catalog) -> tuple[Fit, ...]:
    """Check a request against every queue of a site."""
    return tuple(
        validate(asked, queue, catalog.accelerator(queue.gpu_model)) for queue in site.queues
    )


def age_notes(site: CatalogSite, queue: Queue, now_s: float) -> tuple[str, ...]:
    """Return a sentence if the limits and prices of a queue are older than a year, or undated."""
    source = queue.source if queue.source.as_of else site.source
    name = f"{site.name}/{queue.name}"
    whence = f" ({source.text})" if source.text else ""
    age_s = source.age_s(now_s)
    if age_s is None:
        return (f"as of when limits and prices of {name} hold is not known{whence}",)
    if age_s <= OLD_S:
        return ()
    years = age_s / OLD_S
    return (f"limits and prices of {name} are of {source.as_of}, {years:.1f} years ago{whence}",)


def _least_nodes(asked: Asked, queue: Queue) -> int:
    return max(1, -(-asked.gpus // (queue.gpus_per_node or asked.gpus or 1)))


def _gpu_violations(
    asked: Asked, queue: Queue, accelerator: Accelerator | None, nodes: int
) -> Iterator[Violation]:
    if not asked.gpus:
        return
    if not queue.gpus_per_node:
        text = f"{queue.name} has no GPUs, and {asked.gpus} are asked"
        yield Violation(limit="gpus", text=text, nearest=0)
        return
    if asked.gpus > nodes * queue.gpus_per_node:
        most = nodes * queue.gpus_per_node
        text = (
            f"{_count(nodes, 'node')} of {queue.name} have {most} GPUs, and {asked.gpus} are "
            f"asked: ask for {most} GPUs, or for {_least_nodes(asked, queue)} nodes"
        )
        yield Violation(limit="gpus", text=text, nearest=most)
    elif asked.gpus % nodes:
        yield _uneven(asked.gpus, nodes, queue)
    if asked.gpu_model and not _is_model(asked.gpu_model, queue, accelerator):
        has = queue.gpu_model or "unknown"
        text = f"GPUs of {queue.name} are {has}, and {asked.gpu_model} is asked"
        yield Violation(limit="gpu_model", text=text, nearest=queue.gpu_model)
    if accelerator is not None and asked.gpu_memory_bytes > accelerator.memory_bytes:
        text = (
            f"a GPU of {queue.name} ({accelerator.name}) has {_size(accelerator.memory_bytes)}, "
            f"and {_size(asked.gpu_memory_bytes)} are asked"
        )
        yield Violation(limit="gpu_memory", text=text, nearest=accelerator.memory_bytes)


def _uneven(gpus: int, nodes: int, queue: Queue) -> Violation:
    low, high = gpus // nodes * nodes, -(-gpus // nodes) * nodes
    nearest = high if not low or high - gpus < gpus - low else low
    choice = f"{low} or {high}" if low else str(high)
    text = (
        f"{gpus} GPUs cannot be divided evenly over {nodes} nodes of {queue.name}, which have "
        f"{queue.gpus_per_node} each: ask for {choice}"
    )
    return Violation(limit="gpus", text=text, nearest=nearest)


def _is_model(name: str, queue: Queue, accelerator: Accelerator | None) -> bool:
    if accelerator is not None and accelerator.is_called(name):
        return True
    return name.casefold() == queue.gpu_model.casefold()


def _node_violations(queue: Queue, nodes: int) -> Iterator[Violation]:
    if nodes < queue.min_nodes:
        text = (
            f"a job in {queue.name} has {_count(queue.min_nodes, 'node')} at least, "
            f"and {nodes} would do"
        )
        yield Violation(limit="nodes", text=text, nearest=queue.min_nodes)
    most = min(queue.max_nodes or math.inf, queue.nodes or math.inf)
    if nodes > most:
        why = "a job may have" if most == queue.max_nodes else "there are"
        text = f"{why} {_count(int(most), 'node')} in {queue.name}, and {nodes} are needed"
        yield Violation(limit="nodes", text=text, nearest=int(most))


def _share_violations(asked: Asked, queue: Queue) -> Iterator[Violation]:
    if 0 < queue.cores_per_node < asked.cores:
        text = (
            f"a node of {queue.name} has {_count(queue.cores_per_node, 'core')}, "
            f"and {asked.cores} are asked"
        )
        yield Violation(limit="cores", text=text, nearest=queue.cores_per_node)
    if 0 < queue.memory_bytes_per_node < asked.memory_bytes:
        text = (
            f"a node of {queue.name} has {_size(queue.memory_bytes_per_node)} of memory, "
            f"and {_size(asked.memory_bytes)} are asked"
        )
        yield Violation(limit="memory", text=text, nearest=queue.memory_bytes_per_node)


def _time_violations(asked: Asked, queue: Queue) -> Iterator[Violation]:
    if queue.max_s is None or asked.run_s <= queue.max_s:
        return
    most, needed = _span(queue.max_s), _span(asked.run_s)
    if not asked.saves:
        text = (
            f"a job in {queue.name} runs {most} at most, and this needs {needed} "
            "and saves no checkpoints to go on from"
        )
        yield Violation(limit="time", text=text, nearest=queue.max_s)
    elif asked.save_s >= queue.max_s:
        text = (
            f"a job in {queue.name} runs {most} at most, and saving and restoring alone "
            f"takes {_span(asked.save_s)}"
        )
        yield Violation(limit="time", text=text, nearest=queue.max_s)


def _chain(asked: Asked, queue: Queue) -> tuple[int, float]:
    """Return the fewest jobs that do the work, and how long each runs."""
    most = queue.max_s
    if most is None or asked.run_s <= most or not asked.saves or asked.save_s >= most:
        return 1, asked.run_s
    links = math.ceil((asked.run_s - asked.save_s) / (most - asked.save_s) - _SLACK)
    return links, min(most, (asked.run_s + (links - 1) * asked.save_s) / links)


def _unchecked(asked: Asked, queue: Queue, accelerator: Accelerator | None) -> Iterator[str]:
    if asked.cores > 1 and not queue.cores_per_node:
        yield f"how many cores a node of {queue.name} has is not known"
    if asked.memory_bytes and not queue.memory_bytes_per_node:
        yield f"how much memory a node of {queue.name} has is not known"
    if asked.gpu_memory_bytes and queue.gpus_per_node and accelerator is None:
        model = queue.gpu_model or "of an unknown model"
        yield f"how much memory a GPU of {queue.name} has is not known: it is {model}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _size(value: int) -> str:
    return f"{value / 1e9:.4g} GB"


def _span(value_s: float) -> str:
    return f"{value_s / 3600:.4g} h" if value_s >= 3600 else f"{value_s:.4g} s"

"""Tiers of memory, and the link that far ones share with others."""

from __future__ import annotations

from dataclasses import dataclass, field

from steward.errors import StewardError

__all__ = ["LINE_BYTES", "MemorySystem", "MoveCosts", "Tier"]

LINE_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One kind of memory. What is `linked` is reached over the shared link."""

    name: str
    latency_s: float  # of one cache line, without load
    pages: int  # that it holds
    linked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveCosts:
    """What moving and watching pages costs the program itself, besides the link.

    The copy runs beside the program: it stalls while the page is unmapped and its TLB entries are
    flushed, and when it touches a page before its copy has arrived.
    """

    move_s: float = 1.0e-6  # unmap, flush and map one page, in a batch
    fault_s: float = 0.7e-6  # a minor fault: hint faults of AutoNUMA and TPP
    watch_s: float = 2.0e-9  # a page walk for one touched page whose accessed bit was cleared


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySystem:
    """Tiers, nearest first, and the link. An access fetches `lines`, `parallel` at once."""

    tiers: tuple[Tier, ...]
    page_bytes: int = 4096
    link_bytes_per_s: float = 12.5e9
    packet_s: float = 2.0e-7  # service time of one packet of others, that a line may wait behind
    lines: int = 1
    parallel: float = 4.0  # outstanding cache misses
    costs: MoveCosts = field(default_factory=MoveCosts)

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated, all faults at once."""
        wrong = []
        if not self.tiers:
            wrong.append("there are no tiers")
        wrong += [
            f"tier {each.name}: latency_s is {each.latency_s} and pages {each.pages}"
            for each in self.tiers
            if not each.latency_s > 0.0 or each.pages < 0
        ]
        numbers = {
            "page_bytes": self.page_bytes,
            "link_bytes_per_s": self.link_bytes_per_s,
            "lines": self.lines,
            "parallel": self.parallel,
        }
        wrong += [f"{name} is {value}" for name, value in numbers.items() if not value > 0]
        if wrong:
            raise StewardError(
                "; ".join(wrong), where="memory system", hint="all of these are above 0"
            )

    @property
    def pages(self) -> int:
        """Return how many pages all tiers hold."""
        return sum(each.pages for each in self.tiers)

    def access_s(self, tier: int, load: float = 0.0) -> float:
        """Return how long one access stalls when `load` of the link is taken by others."""
        found = self.lines * self.tiers[tier].latency_s / self.parallel
        if self.tiers[tier].linked:
            free = 1.0 - load
            wire_s = self.lines * LINE_BYTES / (self.link_bytes_per_s * free)
            found += wire_s + self.packet_s * load / free
        return found

    def copy_s(self, load: float = 0.0) -> float:
        """Return how long the link is busy with one page."""
        return self.page_bytes / (self.link_bytes_per_s * (1.0 - load))

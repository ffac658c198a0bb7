"""Where work goes once it is chosen: a plug of its own, beside who is served.

Belongs here: compiled choices of nodes and GPUs over arrays of what is free, and words for why
something does not fit. Does not: who goes first, when, and for how long.
"""

from steward.decide.placement.kernels import (
    Demand,
    Guide,
    NodeOccupancy,
    Placement,
    TieBreak,
    Typical,
    give,
    locality,
    place,
    place_guided,
    place_unscored,
    take,
)
from steward.decide.placement.words import DESCRIPTIONS, why_not

__all__ = [
    "DESCRIPTIONS",
    "PLACEMENTS",
    "Demand",
    "Guide",
    "NodeOccupancy",
    "Placement",
    "TieBreak",
    "Typical",
    "give",
    "locality",
    "place",
    "place_guided",
    "place_unscored",
    "take",
    "why_not",
]

PLACEMENTS: dict[str, Placement] = {
    "count": Placement.COUNT,
    "packed": Placement.PACKED,
    "spread": Placement.SPREAD,
    "topology": Placement.TOPOLOGY,
    "fgd": Placement.FGD,
    "best-fit": Placement.BEST_FIT,
    "dot-product": Placement.DOT_PRODUCT,
    "gpu-packing": Placement.GPU_PACKING,
    "gpu-clustering": Placement.GPU_CLUSTERING,
    "random": Placement.RANDOM,
}

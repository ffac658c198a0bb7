"""Where work goes once it is chosen: a plug of its own, beside who is served.

Belongs here: compiled choices of nodes and GPUs over arrays of what is free. Does not: who goes
first, when, and for how long.
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
DESCRIPTIONS: dict[Placement, str] = {
    Placement.COUNT: "only counts free GPUs; where they are makes no difference",
    Placement.PACKED: "one node if one can hold the job, else wholly free nodes; fullest first",
    Placement.SPREAD: "emptiest node first",
    Placement.TOPOLOGY: "smallest domain that holds the job: node, rack, switch; fullest first",
    Placement.FGD: "where the idle GPUs stay most useful for the jobs to be expected",
    Placement.BEST_FIT: "node with the least CPU and GPU left after the job",
    Placement.DOT_PRODUCT: "node whose free CPU and GPU line up least with what the job asks for",
    Placement.GPU_PACKING: "GPUs in use first, then nodes in use, then untouched nodes",
    Placement.GPU_CLUSTERING: "nodes that hold jobs of the same size first",
    Placement.RANDOM: "any node that holds the job",
}

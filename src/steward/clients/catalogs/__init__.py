"""Tables of prices, sites, GPUs and carbon that others publish, as values of the catalogue.

Belongs here: columns and words of such files. Does not: catalogues of our own (`store.catalog`),
what Slurm and Kubernetes print (`clients.slurm`, `clients.kubernetes`).
"""

from __future__ import annotations

from steward.clients.catalogs.carbon_table import Carbon, carbon_sites, read_carbon
from steward.clients.catalogs.gpu_names import GpuNames
from steward.clients.catalogs.gpu_table import read_gpus
from steward.clients.catalogs.price_table import read_prices
from steward.clients.catalogs.site_table import read_sites
from steward.clients.catalogs.table import Imported

__all__ = [
    "Carbon",
    "GpuNames",
    "Imported",
    "carbon_sites",
    "read_carbon",
    "read_gpus",
    "read_prices",
    "read_sites",
]

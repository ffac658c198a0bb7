"""Reads what a fabric is wired like, and what its links count, from what other tools write.

Belongs here: one file per form, each from text to a `FabricTopology`. Does not: asking the tools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from steward.errors import StewardError
from steward.model.fabric.topology import FabricTopology
from steward.observe.fabric.ibnetdiscover import read_ibnetdiscover
from steward.observe.fabric.kubernetes_labels import read_kubernetes
from steward.observe.fabric.lingjun import read_lingjun
from steward.observe.fabric.lldp import read_lldp
from steward.observe.fabric.nvidia_topo import read_nvidia_topo
from steward.observe.fabric.slurm_conf import read_slurm_conf
from steward.observe.fabric.slurm_yaml import read_slurm_yaml
from steward.observe.fabric.topograph import read_topograph

__all__ = ["FORMS", "form_of", "read_topology"]

FORMS: Mapping[str, Callable[[str, str], FabricTopology]] = MappingProxyType(
    {
        "slurm-conf": read_slurm_conf,
        "slurm-yaml": read_slurm_yaml,
        "topograph": read_topograph,
        "ibnetdiscover": read_ibnetdiscover,
        "lldp": read_lldp,
        "kubernetes": read_kubernetes,
        "nvidia-topo": read_nvidia_topo,
        "lingjun": read_lingjun,
    }
)


def form_of(text: str) -> str:
    """Return which form a text has, by what only that form holds; "" if it has none."""
    marks: tuple[tuple[str, Callable[[str], bool]], ...] = (
        ("lldp", lambda t: '"lldp"' in t[:400] or t.lstrip().startswith("lldp.")),
        ("kubernetes", lambda t: t.lstrip().startswith("{") and '"metadata"' in t),
        ("ibnetdiscover", lambda t: _line(t, ("Switch\t", "Ca\t", "switchguid="))),
        ("nvidia-topo", lambda t: "GPU0" in t and " X " in t.replace("\t", " ")),
        ("lingjun", lambda t: t.startswith("host,") and ",asw" in t.split("\n", 1)[0]),
        ("slurm-conf", lambda t: _line(t.lower(), ("switchname=", "blockname="))),
        ("topograph", lambda t: _line(t, ("switches:", "blocks:"))),
        ("slurm-yaml", lambda t: "topology:" in t),
    )
    return next((form for form, holds in marks if holds(text)), "")


def read_topology(text: str, *, where: str = "", form: str = "") -> FabricTopology:
    """Read a topology in a form that is named, or found by its content."""
    form = form or form_of(text)
    read = FORMS.get(form)
    if read is None:
        problem = f"there is no form '{form}'" if form else "this is no topology in a known form"
        raise StewardError(problem, where=where, hint=f"known forms: {', '.join(FORMS)}")
    topology = read(text, where)
    if not len(topology.vertices):
        raise StewardError(f"it names neither switch nor node (read as {form})", where=where)
    return topology


def _line(text: str, begins: tuple[str, ...]) -> bool:
    return any(line.startswith(begins) for line in text.splitlines())

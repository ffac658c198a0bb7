"""Reading topology files for commands."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.model.fabric.topology import FabricTopology

__all__ = ["File", "Form", "read_file"]

_MOST_BYTES = 256 * 2**20
File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A topology: Slurm's topology.conf or .yaml, a topograph model, ibnetdiscover, "
        "lldpctl (json or keyvalue), kubectl get nodes -o json, nvidia-smi topo -m, Lingjun's table.",
    ),
]
Form = Annotated[
    str, typer.Option("--form", metavar="NAME", help="Its form, where it is not found by itself.")
]


def read_file(file: Path, form: str) -> FabricTopology:
    """Read a topology file, packed or not."""
    from steward.observe.fabric import read_topology

    try:
        if file.stat().st_size > _MOST_BYTES:
            raise StewardError("it is larger than any topology", where=str(file))
        data = file.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
    except (OSError, EOFError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise StewardError(f"it cannot be read: {said}", where=str(file)) from None
    text = data.decode("utf-8", errors="replace")
    return read_topology(text, where=str(file), form=form)

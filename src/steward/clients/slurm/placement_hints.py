"""A chosen placement as Slurm is asked for it: options of sbatch, and lines of topology files."""

from __future__ import annotations

from collections.abc import Sequence

from steward.errors import StewardError

__all__ = ["sbatch_options", "wait_text"]

_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def sbatch_options(
    nodes: Sequence[str], gpus: Sequence[int], *, switches: int, wait_s: float = 0.0
) -> tuple[str, ...]:
    """Return options for a job on these nodes: their list, GPUs per node, and `--switches`.

    Slurm gives the same number of GPUs on every node, so nodes with different numbers get no
    `--gpus-per-node` but the total. `--switches=N@TIME` bounds how long Slurm waits for a placement
    under so few leaf switches; the topology plugin ignores it without a topology.
    """
    bad = [each for each in nodes if not each or not _SAFE.issuperset(each)]
    if bad or not nodes or len(nodes) != len(gpus):
        raise StewardError(
            f"not names of nodes: {', '.join(map(repr, bad)) or 'none given'}",
            where="placement hints for Slurm",
            hint="give names of nodes and as many numbers of GPUs",
        )
    same = len(set(gpus)) == 1
    options = [f"--nodes={len(nodes)}", f"--nodelist={','.join(nodes)}"]
    options.append(f"--gpus-per-node={gpus[0]}" if same else f"--gpus={sum(gpus)}")
    if switches > 0:
        options.append(f"--switches={switches}" + (f"@{wait_text(wait_s)}" if wait_s > 0 else ""))
    return tuple(options)


def wait_text(seconds: float) -> str:
    """Return a time as Slurm reads it.

    >>> wait_text(90), wait_text(90061)
    ('00:01:30', '1-01:01:01')
    """
    whole = int(seconds)
    days, rest = divmod(whole, 86_400)
    text = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text

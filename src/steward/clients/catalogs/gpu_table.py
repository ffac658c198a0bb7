"""A table of accelerators: one row each, dense rates in TFLOP/s, sizes in GB."""

from __future__ import annotations

from steward.clients.catalogs.table import Imported, Row, Table
from steward.model.planning.catalog import Accelerator, Source

__all__ = ["read_gpus"]

_FORMATS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8")
_NEEDED = ("name", "mem_gb", "mem_bw_gbs", "tdp_w")


def read_gpus(text: str, *, source: Source, where: str) -> Imported:
    """Return the accelerators of rows that have memory, bandwidth and power."""
    table = Table.of(text, needed=_NEEDED, where=where)
    found: dict[str, Accelerator] = {}
    left_out = []
    for row in table:
        name, memory, bandwidth, watts = (
            row.text("name"),
            *(row.amount(column) for column in _NEEDED[1:]),
        )
        if name in found:
            row.fault(f"a second row for '{name}'")
        elif not name:
            row.fault("it has no name")
        elif memory and bandwidth and watts:
            found[name] = Accelerator(
                name=name,
                memory_bytes=round(memory * 1e9),
                memory_bytes_per_s=bandwidth * 1e9,
                watts=watts,
                flops=_flops(row),
                source=_source(row, source),
            )
        else:
            left_out.append(name)
    table.finish()
    note = f"memory, bandwidth or power is blank, left out: {', '.join(left_out)}"
    return Imported(accelerators=tuple(found.values()), notes=(note,) if left_out else ())


def _flops(row: Row) -> dict[str, float]:
    rates = {name: row.amount(f"{name}_tflops") for name in _FORMATS}
    return {name: rate * 1e12 for name, rate in rates.items() if rate}


def _source(row: Row, source: Source) -> Source:
    listed = row.text("sources")
    text = f"{source.text} ({listed or 'not checked against a document'})"
    return Source(text=text.strip(), as_of=source.as_of)

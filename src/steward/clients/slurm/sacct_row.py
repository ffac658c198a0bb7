"""One line of sacct: what every reader of accounting needs of it, under whatever columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steward.clients.slurm.syntax import epoch_s, gpu_count, hosts, tres, whole_number

__all__ = ["ROW_FIELDS", "SacctRow", "row_from_line"]

ROW_FIELDS = (
    "JobIDRaw",
    "JobID",
    "JobName",
    "User",
    "Account",
    "Partition",
    "State",
    "ExitCode",
    "Submit",
    "Start",
    "End",
    "NodeList",
    "AllocTRES",
    "ReqTRES",
    "Priority",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SacctRow:
    """One run of a job. `cell` has its columns as sacct prints them."""

    cell: Mapping[str, str]

    @property
    def state(self) -> str:
        """Its state in upper case: `CANCELLED` of `CANCELLED by 1000`."""
        return self.cell["State"].partition(" ")[0].upper()

    @property
    def exit(self) -> tuple[int, int]:
        """Exit code and signal."""
        code, _, signal = self.cell["ExitCode"].partition(":")
        return whole_number(code), whole_number(signal)

    @property
    def submit_s(self) -> float:
        return epoch_s(self.cell["Submit"]) or 0.0

    @property
    def start_s(self) -> float | None:
        return epoch_s(self.cell["Start"])

    @property
    def end_s(self) -> float | None:
        return epoch_s(self.cell["End"])

    @property
    def priority(self) -> int:
        return whole_number(self.cell["Priority"])

    @property
    def nodes(self) -> tuple[str, ...]:
        return hosts(self.cell["NodeList"])

    @property
    def wanted(self) -> Mapping[str, str]:
        return tres(self.cell["ReqTRES"])

    @property
    def resources(self) -> Mapping[str, str]:
        """What it held, or wanted if it never ran."""
        return tres(self.cell["AllocTRES"]) or self.wanted

    @property
    def gpus(self) -> int:
        return gpu_count(tres(self.cell["AllocTRES"])) or gpu_count(self.wanted)

    @property
    def cpus(self) -> int:
        return whole_number(self.resources.get("cpu", ""))


def row_from_line(line: str, columns: Sequence[str], separator: str) -> SacctRow | None:
    """Read a line of these columns, `ROW_FIELDS` among them; None when it is not one."""
    cells = line.split(separator)
    if len(cells) != len(columns) or not cells[0].isdecimal():
        return None
    return SacctRow(cell=dict(zip(columns, cells, strict=True)))

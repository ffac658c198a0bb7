"""Mappings of a process, from /proc/PID/smaps: sizes, what is in swap, what was referenced."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mapping", "forget_references", "mappings_of", "parse_smaps"]

_FIELDS = {
    b"Rss:": "rss_bytes",
    b"Swap:": "swap_bytes",
    b"Referenced:": "referenced_bytes",
    b"AnonHugePages:": "huge_bytes",
    b"KernelPageSize:": "page_bytes",
    b"Locked:": "locked_bytes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """One range of addresses of a process."""

    start: int
    end: int
    access: str  # as `rw-p`
    name: str
    rss_bytes: int = 0
    swap_bytes: int = 0
    referenced_bytes: int = 0
    huge_bytes: int = 0
    locked_bytes: int = 0
    page_bytes: int = 4096

    @property
    def can_be_moved(self) -> bool:
        """Return whether its pages are private memory that may go to swap or to another node.

        Pages of hugetlbfs cannot be swapped; locked ones must not be.
        """
        private = self.access.startswith("rw") and self.access.endswith("p")
        anonymous = not self.name or self.name == "[heap]" or self.name.startswith("[anon:")
        return private and anonymous and self.page_bytes <= 65536 and not self.locked_bytes


def mappings_of(pid: int, proc: Path = Path("/proc")) -> list[Mapping]:
    """Return the mappings of a process. Raise `OSError` where it is gone or may not be read.

    Linux answers with an empty file for a process that has just ended.
    """
    data = (proc / str(pid) / "smaps").read_bytes()
    if not data:
        raise ProcessLookupError(3, "the process has ended", str(proc / str(pid) / "smaps"))
    return parse_smaps(data)


def parse_smaps(data: bytes) -> list[Mapping]:
    """Return the mappings in the text of an smaps file; a cut last one as far as it goes."""
    found: list[Mapping] = []
    head: dict[str, object] | None = None
    for line in data.splitlines():
        cells = line.split(None, 5)
        if not cells:
            continue
        name = _FIELDS.get(cells[0])
        if name is not None and head is not None and len(cells) > 1 and cells[1].isdigit():
            head[name] = int(cells[1]) * 1024
        elif b"-" in cells[0] and not cells[0].endswith(b":"):
            if head is not None:
                found.append(Mapping(**head))  # type: ignore[arg-type]  # by the fields' names
            head = _header(cells)
    if head is not None:
        found.append(Mapping(**head))  # type: ignore[arg-type]
    return found


def _header(cells: list[bytes]) -> dict[str, object] | None:
    start, _, end = cells[0].partition(b"-")
    try:
        return {
            "start": int(start, 16),
            "end": int(end, 16),
            "access": cells[1].decode("ascii", "replace") if len(cells) > 1 else "",
            "name": cells[5].decode("utf-8", "replace") if len(cells) > 5 else "",
        }
    except ValueError:
        return None


def forget_references(pid: int, proc: Path = Path("/proc")) -> None:
    """Clear the accessed bits of a process: what is referenced later is so since then."""
    (proc / str(pid) / "clear_refs").write_bytes(b"1")

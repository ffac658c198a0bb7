"""Lines of a look as blocks, by who wrote them, under the names that rules have for sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

import numpy as np

from steward.model.event import LogLine
from steward.model.rules import LogBlock, Stream

__all__ = ["SOURCES", "SourceNames"]

# What wrote a line, as collectors name it, and what rules call that. The first that fits counts.
# Whatever fits nothing is looked at by all rules: the output of a job may be of any program.
SOURCES: Mapping[str, str] = {
    "kernel": "cre.log.kernel",
    "*slurmctld*": "cre.log.slurm.slurmctld",
    "*slurmdbd*": "cre.log.slurm.slurmdbd",
    "*slurmd*": "cre.log.slurm.slurmd",
    "*kubelet*": "cre.log.kubelet",
    "*vllm*": "cre.log.vllm",
    "*.service": "cre.log.syslog",
    "*/syslog": "cre.log.syslog",
    "*/messages": "cre.log.syslog",
}
_REMEMBERED = 10_000  # names of what writes lines


class SourceNames:
    """Says what rules call a source. What a site names comes before what everybody has."""

    def __init__(self, named: Mapping[str, str] | None = None) -> None:
        self._patterns = [*(named or {}).items(), *SOURCES.items()]
        self._called = lru_cache(maxsize=_REMEMBERED)(self._look_up)

    def called(self, source: str) -> str:
        """Return the name that rules have for a source; '' where it may be anything."""
        return self._called(source)

    def blocks(self, lines: Sequence[LogLine]) -> list[LogBlock]:
        """Put lines together that one program wrote about one entity, by their times."""
        written: dict[tuple[str, str], list[LogLine]] = {}
        for line in lines:
            written.setdefault((line.source, line.entity), []).append(line)
        return [self._block(source, entity, group) for (source, entity), group in written.items()]

    def _look_up(self, source: str) -> str:
        found = (name for pattern, name in self._patterns if fnmatchcase(source, pattern))
        return next(found, "")

    def _block(self, source: str, entity: str, lines: list[LogLine]) -> LogBlock:
        lines.sort(key=lambda line: line.t_s)  # stable: lines of one moment stay in their order
        texts = [line.text.encode("utf-8", "replace") for line in lines]
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        return LogBlock(
            stream=Stream(name=source, source=self.called(source), entity=entity),
            buffer=b"".join(texts),
            start=np.append(0, ends[:-1]).astype(np.int64),
            end=ends,
            t_ns=np.array([round(line.t_s * 1e9) for line in lines], dtype=np.int64),
            line=np.array([line.number for line in lines], dtype=np.int64),
            joined=np.array([b"\n" in text for text in texts], dtype=bool),
            timed=np.ones(len(lines), dtype=bool),
        )

"""Lines of an observation as blocks, by source and entity, under the names that rules use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

import numpy as np

from steward.model.event import LogLine
from steward.model.rules import LogBlock, Stream

__all__ = ["SOURCES", "SourceNames", "has_usable_time"]

# Source names of collectors, and the names that rules use. The first match wins.
# Other sources are read by all rules: the output of a job may be of any program.
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
_REMEMBERED = 10_000  # cached source names
_AHEAD_S = 3600.0  # a clock further ahead than this is wrong


def has_usable_time(t_s: float, now_s: float) -> bool:
    """Return False for NaN, for times before 1970 and for times far ahead of now."""
    return 0.0 <= t_s <= now_s + _AHEAD_S


class SourceNames:
    """Map source names of collectors to those of rules. The site's mapping wins."""

    def __init__(self, named: Mapping[str, str] | None = None) -> None:
        self._patterns = [*(named or {}).items(), *SOURCES.items()]
        self._called = lru_cache(maxsize=_REMEMBERED)(self._look_up)

    def called(self, source: str) -> str:
        """Return the name that rules use for a source; '' where it is unknown."""
        return self._called(source)

    def blocks(self, lines: Sequence[LogLine], now_s: float) -> list[LogBlock]:
        """Group lines by source and entity, in the order of their times.

        A line without a usable time is left out: it must not fail the whole turn, nor move
        the clock of its stream.
        """
        written: dict[tuple[str, str], list[LogLine]] = {}
        for line in lines:
            if has_usable_time(line.t_s, now_s):
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
            t_ns=np.rint(1e9 * np.array([line.t_s for line in lines])).astype(np.int64),
            line=np.array([line.number for line in lines], dtype=np.int64),
            joined=np.array([b"\n" in text for text in texts], dtype=bool),
            timed=np.ones(len(lines), dtype=bool),
        )

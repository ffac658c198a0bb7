"""Sparklines beside findings: the samples of their evidence, read once each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from steward.errors import StewardError
from steward.model.finding import Evidence, Finding
from steward.model.frame import T_S, Frame
from steward.model.identity import FindingId
from steward.store.telemetry import Telemetry

__all__ = ["Spark", "Sparklines", "samples_around"]

Spark = tuple[float | None, ...]
POINTS = 60
LEAD_SHARE = 0.5  # of the time that the evidence is about, shown before it


class Sparklines:
    """Reads a few per call, so that a hundred new findings do not hold up a page."""

    def __init__(self, telemetry: Telemetry, *, most: int = 200, per_call: int = 5) -> None:
        self._telemetry = telemetry
        self._most = most
        self._per_call = per_call
        self._lock = threading.Lock()
        self._known: OrderedDict[FindingId, Spark] = OrderedDict()

    def __getitem__(self, finding: FindingId) -> Spark:
        return self._known.get(finding, ())

    def catch_up(self, findings: Iterable[Finding]) -> None:
        """Read the samples of findings that have none yet, newest findings first."""
        with self._lock:
            missing = [finding for finding in findings if finding.id not in self._known]
            for finding in missing[: self._per_call]:
                self._known[finding.id] = self._read(finding)
                while len(self._known) > self._most:
                    self._known.popitem(last=False)

    def _read(self, finding: Finding) -> Spark:
        for evidence in finding.evidence:
            spark = self._samples(evidence)
            if spark:
                return spark
        return ()

    def _samples(self, evidence: Evidence) -> Spark:
        try:
            frame = samples_around(self._telemetry, evidence, points=POINTS)
        except StewardError:
            return ()  # a finding can be shown without its curve; the loop reports the fault
        values: list[float | None] = frame[evidence.metric].to_list()
        return tuple(values)


def samples_around(
    telemetry: Telemetry, evidence: Evidence, *, points: int, until_s: float | None = None
) -> Frame:
    """Read the samples of a piece of evidence and what came before, so that the change is seen."""
    lead_s = LEAD_SHARE * (evidence.to_s - evidence.from_s)
    frame = telemetry.read(
        entities=[evidence.entity],
        metrics=[evidence.metric],
        from_s=evidence.from_s - lead_s,
        to_s=max(evidence.to_s, until_s or evidence.to_s),
    )
    return frame.sort(T_S).gather_every(max(1, -(-frame.height // points)))

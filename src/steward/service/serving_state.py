"""What the gateways report, polled in the background: pages read it and never wait for one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol

from steward.clients.gateway_status import GatewayStatusReader
from steward.clients.web import Endpoint
from steward.config.forward import secret_in
from steward.config.serving_settings import ServingSettings
from steward.config.shown_gateways import shown_gateways
from steward.errors import StewardError
from steward.model.serving.gateway_snapshot import GatewaySnapshot
from steward.store.journal_summary import DownsampledCurve

__all__ = ["Gateway", "GatewayReader", "KeptPoint", "ServingState", "kept_shares"]

POLL_EVERY_S = 2.0
ANSWER_S = 3.0  # a gateway that is slower counts as not answering
_POINTS = 240
_AT_ONCE = 16


class GatewayReader(Protocol):
    """Returns what one gateway reports, or raises a `StewardError`."""

    def read(self) -> GatewaySnapshot: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPoint:
    """How many promises of each class were kept and missed up to one time."""

    t_s: float
    counts: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """What is known about one gateway. `snapshot` is its last answer, however old."""

    url: str
    snapshot: GatewaySnapshot | None = None
    answered_s: float | None = None  # when that came, by this machine's clock
    fault: str = ""  # why there is no newer one
    kept: tuple[KeptPoint, ...] = ()


@dataclass(slots=True)
class _Polled:
    reader: GatewayReader
    known: Gateway
    curve: DownsampledCurve[KeptPoint] = field(default_factory=lambda: DownsampledCurve(_POINTS))


class ServingState:
    """Polls each gateway and keeps its last answer, with a curve of the promises it kept."""

    def __init__(
        self,
        readers: Mapping[str, GatewayReader],
        *,
        every_s: float = POLL_EVERY_S,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.every_s = every_s
        self._now_s = now_s
        self._polled = [
            _Polled(reader=reader, known=Gateway(url=url)) for url, reader in readers.items()
        ]
        self._lock = threading.Lock()
        self.version = 0  # rises with every poll

    @classmethod
    def of(cls, settings: ServingSettings) -> ServingState:
        """Return the state of the configured gateways; raise if their key cannot be read."""
        faults: list[str] = []
        key = secret_in("serving.key_file", settings.key_file, faults)
        if faults:
            raise StewardError("; ".join(faults), hint="correct this file, or leave it out")
        plain, ca = settings.plain_http, settings.ca_file
        return cls(
            {
                url: GatewayStatusReader(
                    Endpoint(url=url, token=key, timeout_s=ANSWER_S, plain_http=plain, ca=ca)
                )
                for url in shown_gateways(settings)
            }
        )

    @property
    def gateways(self) -> Sequence[Gateway]:
        """Return what is known about each, in the order of the configuration."""
        with self._lock:
            return [each.known for each in self._polled]

    def poll(self) -> None:
        """Ask all of them at once, so that a silent one delays no other. Never raises."""
        if not self._polled:
            return
        with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(self._polled))) as pool:
            answers = list(pool.map(lambda each: _read(each.reader), self._polled))
        now_s = self._now_s()
        with self._lock:
            for each, answer in zip(self._polled, answers, strict=True):
                each.known = _known(each, answer, now_s)
            self.version += 1


def _read(reader: GatewayReader) -> GatewaySnapshot | str:
    try:
        return reader.read()
    except StewardError as fault:
        return f"{fault.problem}; {fault.hint}" if fault.hint else fault.problem


def _known(polled: _Polled, answer: GatewaySnapshot | str, now_s: float) -> Gateway:
    if isinstance(answer, str):
        return replace(polled.known, fault=answer)
    counts = {
        each.name: (each.met, each.missed)
        for each in answer.classes
        if each.met is not None and each.missed is not None
    }
    polled.curve.add(KeptPoint(t_s=now_s, counts=counts))
    return replace(
        polled.known, snapshot=answer, answered_s=now_s, fault="", kept=polled.curve.points
    )


def kept_shares(points: Sequence[KeptPoint]) -> dict[str, list[tuple[float, float | None]]]:
    """Return for each class the share of promises kept between one point and the next.

    None where nothing ended in between, or counts fell: the gateway was started again.
    """
    names = dict.fromkeys(name for point in points for name in point.counts)
    found: dict[str, list[tuple[float, float | None]]] = {name: [] for name in names}
    for before, after in pairwise(points):
        for name, shares in found.items():
            old, new = before.counts.get(name), after.counts.get(name)
            shares.append((after.t_s, _share(old, new)))
    return found


def _share(old: tuple[float, float] | None, new: tuple[float, float] | None) -> float | None:
    if old is None or new is None:
        return None
    met, missed = new[0] - old[0], new[1] - old[1]
    return met / (met + missed) if min(met, missed) >= 0 and met + missed > 0 else None

"""Reads exporters, and a Prometheus server, as sources: what they show becomes our samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from steward.errors import StewardError
from steward.model.event import Availability, Event, Observation
from steward.model.metrics import CANONICAL

if TYPE_CHECKING:
    from steward.observe.receive import Readings
    from steward.observe.receive.scrape_targets import QueryTarget, ScrapeTarget

__all__ = ["Prometheus"]

AT_ONCE = 16


class Prometheus:
    """Exporters (`targets`) and questions to a Prometheus server (`server`, `queries`).

    A target is `http://HOST:PORT/metrics`, or `NODE=http://...` to name its node.
    `queries` has a name for each PromQL expression; an answer whose series have no name gets that
    one, which may be one of our metrics. `token_file`, `ca` and `plain_http` (other machines
    without TLS) are for all of them.
    """

    name = "prometheus"
    vocabulary = CANONICAL

    def __init__(  # noqa: PLR0913 - a plug's options are its parameters
        self,
        *,
        targets: tuple[str, ...] = (),
        server: str = "",
        queries: Mapping[str, str] | None = None,
        token_file: str = "",
        ca: str = "",
        timeout_s: float = 3.0,
        plain_http: bool = False,
    ) -> None:
        self._silent: set[str] = set()
        self._sources: tuple[ScrapeTarget | QueryTarget, ...] = ()
        if not targets and not (server and queries):
            return
        # What decodes is compiled and takes memory: an agent that scrapes nothing goes without.
        from steward.clients.web import Endpoint  # noqa: PLC0415
        from steward.observe.receive.scrape_targets import QueryTarget, ScrapeTarget  # noqa: PLC0415

        endpoint = partial(
            Endpoint, token=_token(token_file), ca=ca, timeout_s=timeout_s, plain_http=plain_http
        )
        queried = (QueryTarget(endpoint(url=server), queries),) if server and queries else ()
        self._sources = (*(ScrapeTarget(each, endpoint) for each in targets), *queried)

    def available(self) -> Availability:
        if not self._sources:
            return Availability(
                status="missing",
                reason="no exporter and no server is named",
                hint="set targets, or server and queries, in [plugs.prometheus]",
            )
        named = ", ".join(source.where for source in self._sources[:3])
        return Availability(status="ok", reason=f"{len(self._sources)} to be read: {named}")

    def collect(self, t_s: float) -> Observation:
        if not self._sources:
            return Observation()
        from steward.observe.receive import Readings, observation_of  # noqa: PLC0415

        with ThreadPoolExecutor(min(AT_ONCE, len(self._sources))) as pool:
            answers = list(pool.map(partial(_answer, t_s=t_s), self._sources))
        readings = [each for each in answers if isinstance(each, Readings)]
        seen = observation_of(readings)
        events = self._changes(zip(self._sources, answers, strict=True), t_s)
        return Observation(frames=seen.frames, other=seen.other, events=(*seen.events, *events))

    def close(self) -> None:
        """Close all connections."""
        for source in self._sources:
            source.close()

    def _changes(
        self,
        answers: Iterable[tuple[ScrapeTarget | QueryTarget, Readings | StewardError]],
        t_s: float,
    ) -> list[Event]:
        """Return an event for each target that stopped or resumed answering."""
        events = []
        for source, answer in answers:
            failed = isinstance(answer, StewardError)
            if failed != (source.where in self._silent):
                kind = "telemetry.scrape-failed" if failed else "telemetry.scrape-works"
                text = str(answer) if failed else "it answers again"
                events.append(
                    Event(t_s=t_s, kind=kind, subject=source.where, text=text, source=self.name)
                )
            (self._silent.add if failed else self._silent.discard)(source.where)
        return events


def _answer(source: ScrapeTarget | QueryTarget, *, t_s: float) -> Readings | StewardError:
    try:
        return source.read(t_s)
    except StewardError as fault:
        return fault


def _token(file: str) -> str:
    if not file:
        return ""
    try:
        return Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        raise StewardError(f"the token cannot be read: {fault}", where=file) from fault

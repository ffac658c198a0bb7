"""Scrapes exporters and queries a Prometheus; `remote_writer` writes to one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steward.clients.web import Endpoint, open_client, read_up_to
from steward.clients.wire.exposition import decode_text
from steward.clients.wire.samples import WireLimits, WireSamples
from steward.errors import StewardError, TemporaryError

__all__ = ["Exporter", "PrometheusServer", "QuerySeries"]

_ACCEPT = (
    "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
_ANSWER_BYTES = 256 * 2**20


class Exporter:
    """One address that is scraped."""

    def __init__(self, endpoint: Endpoint, *, limits: WireLimits | None = None) -> None:
        self.url = endpoint.url
        self._limits = limits or WireLimits()
        self._client = open_client(endpoint, owner=self)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def scrape(self, t_s: float) -> WireSamples:
        """Return all that the exporter shows; samples without a time are of `t_s`."""
        answer = read_up_to(
            self._client,
            self.url,
            most_bytes=self._limits.body_bytes,
            headers={"Accept": _ACCEPT, "Accept-Encoding": "gzip"},
        )
        openmetrics = "openmetrics" in answer.headers["content-type"]
        return decode_text(
            answer.content, now_ms=int(t_s * 1000), openmetrics=openmetrics, limits=self._limits
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySeries:
    """One series of an answer."""

    labels: Mapping[str, str]
    t_s: tuple[float, ...]
    values: tuple[float, ...]


class PrometheusServer:
    """A Prometheus, or anything that answers as one."""

    def __init__(self, endpoint: Endpoint, *, most_series: int = 100_000) -> None:
        self.url = endpoint.url.rstrip("/")
        self._most_series = most_series
        self._client = open_client(endpoint, owner=self)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def version(self) -> str:
        """Return the server's version; raises if it is not a Prometheus."""
        answer = self._get("/api/v1/status/buildinfo", {})
        return str(answer.get("version", "unknown"))

    def query(self, promql: str, *, at_s: float | None = None) -> list[QuerySeries]:
        """Return the value of an expression at one time, now unless given."""
        parameters = {"query": promql} | ({} if at_s is None else {"time": repr(at_s)})
        return self._series(self._get("/api/v1/query", parameters))

    def query_range(
        self, promql: str, *, from_s: float, to_s: float, step_s: float
    ) -> list[QuerySeries]:
        """Return the values of an expression between two times."""
        parameters = {
            "query": promql,
            "start": repr(from_s),
            "end": repr(to_s),
            "step": repr(step_s),
        }
        return self._series(self._get("/api/v1/query_range", parameters))

    def _get(self, path: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        import httpx  # noqa: PLC0415 - 7 MB that most agents need not load

        try:
            answer = self._client.get(f"{self.url}{path}", params=dict(parameters))
        except httpx.HTTPError as fault:
            problem = f"cannot be reached: {fault or type(fault).__name__}"
            raise TemporaryError(problem, where=self.url, hint="is it running?") from fault
        if len(answer.content) > _ANSWER_BYTES:
            raise StewardError("the answer is too large", where=self.url, hint="query less")
        try:
            reply = answer.json()
            failed = reply["status"] != "success"
            data = reply.get("data")
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            problem = f"answers {answer.status_code}, and not as a Prometheus"
            raise StewardError(problem, where=self.url, hint="is this its address?") from fault
        if failed or not isinstance(data, dict):
            problem = f"refuses: {reply.get('error', answer.status_code)}"
            raise StewardError(problem, where=parameters.get("query", self.url))
        return data

    def _series(self, data: Mapping[str, Any]) -> list[QuerySeries]:
        kind, result = data.get("resultType"), data.get("result", [])
        if kind == "scalar":
            result = [{"metric": {}, "value": result}]
        if kind not in ("scalar", "vector", "matrix"):
            problem = f"the answer is of kind '{kind}'"
            raise StewardError(problem, where=self.url, hint="query numbers")
        if len(result) > self._most_series:
            problem = f"the answer has {len(result)} series, more than {self._most_series}"
            raise StewardError(problem, where=self.url, hint="query less")
        try:
            return [_series_of(each) for each in result]
        except (KeyError, ValueError, TypeError) as fault:
            raise StewardError(f"the answer is malformed: {fault}", where=self.url) from fault


def _series_of(each: Mapping[str, Any]) -> QuerySeries:
    points = each["values"] if "values" in each else [each["value"]]
    return QuerySeries(
        labels={str(name): str(value) for name, value in each["metric"].items()},
        t_s=tuple(float(t_s) for t_s, _ in points),
        values=tuple(float(value) for _, value in points),
    )

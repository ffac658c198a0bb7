"""Reads a dcgm-exporter: NVIDIA's daemon that exposes GPUs' fields as Prometheus text."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from steward.errors import StewardError

if TYPE_CHECKING:
    import httpx

__all__ = ["LOOPBACK", "DcgmExporter", "DcgmSample", "has_dcgm_library", "read_samples"]

MOST_BYTES = 32 * 2**20  # a node with 16 GPUs, MIG and every field is below 2 MiB
MOST_SAMPLES = 200_000
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class DcgmSample:
    """One value with the labels of what it belongs to."""

    name: str
    labels: Mapping[str, str]
    value: float


class DcgmExporter:
    """One exporter by its address, as in http://127.0.0.1:9400/metrics."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 2.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url
        try:
            parsed = urlsplit(url)
            port = parsed.port or (443 if parsed.scheme == "https" else 80)
        except ValueError as fault:
            raise StewardError(f"'{url}' is no address: {fault}", hint=_EXAMPLE) from fault
        if parsed.scheme not in ("http", "https") or not parsed.hostname:
            raise StewardError(f"'{url}' is no address of an exporter", hint=_EXAMPLE)
        self.host = parsed.hostname
        self._port = port
        self._timeout_s = timeout_s
        self._transport = transport
        self._client: httpx.Client | None = None

    def read(self) -> list[DcgmSample]:
        """Fetch and parse everything once; raise with the reason where it cannot be."""
        return read_samples(self._text(), self.url)

    def close(self) -> None:
        """Close the connection; the next reading opens another."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _text(self) -> str:
        if self._client is None and self._transport is None and self.host in LOOPBACK:
            self._knock()
        import httpx  # noqa: PLC0415 - 7 MB that most agents need not load

        if self._client is None:  # kept: a connection per look costs more than the answer
            self._client = httpx.Client(timeout=self._timeout_s, transport=self._transport)
        body = bytearray()
        try:
            with self._client.stream("GET", self.url) as answer:
                if answer.status_code != 200:
                    problem = f"answers {answer.status_code}, not 200"
                    raise StewardError(problem, where=self.url, hint=_HINT)
                for piece in answer.iter_bytes():
                    body += piece
                    if len(body) > MOST_BYTES:
                        problem = f"its answer is larger than {MOST_BYTES // 2**20} MiB"
                        raise StewardError(problem, where=self.url, hint=_HINT)
        except httpx.HTTPError as fault:
            problem = f"does not answer: {fault or type(fault).__name__}"
            raise StewardError(problem, where=self.url, hint=_START) from fault
        return body.decode("utf-8", "replace")

    def _knock(self) -> None:
        """Raise if the port is closed, which is usual, before the HTTP client is loaded."""
        try:
            socket.create_connection((self.host, self._port), timeout=self._timeout_s).close()
        except OSError as fault:
            raise StewardError(f"does not answer: {fault}", where=self.url, hint=_START) from fault


_EXAMPLE = "an exporter is at, e.g., http://127.0.0.1:9400/metrics"
_HINT = "is this a dcgm-exporter? its page /metrics should begin with `# HELP DCGM_FI_`"
_LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
_START = "start NVIDIA's dcgm-exporter, or set the option `url` to where it is"


def read_samples(text: str, where: str) -> list[DcgmSample]:
    """Parse what an exporter answered; raise with the reason where it is something else."""
    try:
        return list(_samples(text, where))
    except (ValueError, KeyError, IndexError) as fault:  # the parser raises all of these
        problem = f"its answer is no Prometheus text: {fault}"
        raise StewardError(problem, where=where, hint=_HINT) from fault


def has_dcgm_library() -> bool:
    """Return whether DCGM is installed: its library is not used, but an exporter could be."""
    return any(any(Path(folder).glob("libdcgm.so*")) for folder in _LIBRARIES)


def _samples(text: str, url: str) -> Iterator[DcgmSample]:
    from prometheus_client.parser import (  # noqa: PLC0415 - with the HTTP client
        text_string_to_metric_families,
    )

    count = 0
    # Without the types, since the parser would add `_total` to the names of counters.
    bare = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    for family in text_string_to_metric_families(bare):
        for sample in family.samples:
            count += 1
            if count > MOST_SAMPLES:
                problem = f"its answer has more than {MOST_SAMPLES} values"
                raise StewardError(problem, where=url, hint=_HINT)
            yield DcgmSample(sample.name, sample.labels, float(sample.value))

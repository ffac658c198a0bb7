"""Sends to a Prometheus, or to anything that takes remote write 1.0."""

from __future__ import annotations

from steward.clients.web import Endpoint, open_client, post

__all__ = ["RemoteWriter"]


class RemoteWriter:
    """Sends encoded requests to a remote write receiver."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._url = endpoint.url
        self._client = open_client(endpoint, owner=self)

    def send(self, body: bytes) -> None:
        """Send one request; see `clients.web.post` for what it may raise."""
        headers = {
            "Content-Encoding": "snappy",
            "Content-Type": "application/x-protobuf",
            "X-Prometheus-Remote-Write-Version": "0.1.0",
        }
        post(self._client, self._url, body, headers)

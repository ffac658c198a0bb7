"""Sends metrics and logs by OTLP, over HTTP or gRPC; the receiver may take a part of them only."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path
from urllib.parse import urlsplit

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)

from steward.clients.web import Endpoint, open_client, post
from steward.errors import PermanentError, StewardError, TemporaryError

__all__ = ["LOGS_METHOD", "METRICS_METHOD", "OtlpGrpc", "OtlpHttp"]

METRICS_METHOD = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
LOGS_METHOD = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
_AGAIN = frozenset(
    {
        "CANCELLED",
        "DEADLINE_EXCEEDED",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNAVAILABLE",
        "DATA_LOSS",
        "RESOURCE_EXHAUSTED",
    }
)  # as the OTLP specification lists them


class OtlpHttp:
    """OTLP/HTTP with protobuf, packed by gzip."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._url = endpoint.url.rstrip("/")
        self._client = open_client(endpoint, owner=self)

    def send_metrics(self, body: bytes) -> None:
        """Send an encoded `ExportMetricsServiceRequest`."""
        reply = self._post("/v1/metrics", body)
        partial = ExportMetricsServiceResponse.FromString(reply).partial_success
        _check_taken(partial.rejected_data_points, partial.error_message)

    def send_logs(self, body: bytes) -> None:
        """Send an encoded `ExportLogsServiceRequest`."""
        partial = ExportLogsServiceResponse.FromString(self._post("/v1/logs", body)).partial_success
        _check_taken(partial.rejected_log_records, partial.error_message)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _post(self, path: str, body: bytes) -> bytes:
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        return post(
            self._client, f"{self._url}{path}", gzip.compress(body, compresslevel=1), headers
        )


class OtlpGrpc:
    """OTLP over gRPC. An `https://` address uses TLS."""

    def __init__(self, endpoint: Endpoint) -> None:
        import grpc  # noqa: PLC0415 - 8 MB that HTTP does not need

        self._grpc = grpc
        parts = urlsplit(endpoint.url)
        self._timeout_s = endpoint.timeout_s
        self._where = parts.netloc
        self._headers = _authorization(endpoint)
        self._channel = (
            grpc.secure_channel(parts.netloc, grpc.ssl_channel_credentials(_pem(endpoint.ca)))
            if parts.scheme == "https"
            else grpc.insecure_channel(parts.netloc)
        )

    def send_metrics(self, body: bytes) -> None:
        """Send an encoded `ExportMetricsServiceRequest`."""
        reply = self._call(METRICS_METHOD, body)
        partial = ExportMetricsServiceResponse.FromString(reply).partial_success
        _check_taken(partial.rejected_data_points, partial.error_message)

    def send_logs(self, body: bytes) -> None:
        """Send an encoded `ExportLogsServiceRequest`."""
        reply = self._call(LOGS_METHOD, body)
        partial = ExportLogsServiceResponse.FromString(reply).partial_success
        _check_taken(partial.rejected_log_records, partial.error_message)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def _call(self, method: str, body: bytes) -> bytes:
        call = self._channel.unary_unary(method)  # no serialisers: bytes in, bytes out
        try:
            return bytes(
                call(
                    body,
                    timeout=self._timeout_s,
                    metadata=self._headers,
                    compression=self._grpc.Compression.Gzip,
                )
            )
        except self._grpc.RpcError as fault:
            code = fault.code().name
            problem = f"{code.lower()}: {fault.details()}"
            kind = TemporaryError if code in _AGAIN else PermanentError
            raise kind(problem, where=self._where) from fault


def _authorization(endpoint: Endpoint) -> list[tuple[str, str]]:
    if endpoint.user:
        known = base64.b64encode(f"{endpoint.user}:{endpoint.password}".encode()).decode()
        return [("authorization", f"Basic {known}")]
    return [("authorization", f"Bearer {endpoint.token}")] if endpoint.token else []


def _pem(ca: str) -> bytes | None:
    if not ca:
        return None
    try:
        return Path(ca).read_bytes()
    except OSError as fault:
        raise StewardError("the certificate file cannot be read", where=ca) from fault


def _check_taken(rejected: int, message: str) -> None:
    if rejected:
        raise PermanentError(f"took all but {rejected}: {message}")

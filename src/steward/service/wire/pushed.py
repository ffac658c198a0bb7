"""Passes a pushed body to the intake and returns what was refused of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)

from steward.observe.intake.budget import ByteBudget
from steward.observe.receive import PushedBody, PushedLines, PushedSamples, pack_body
from steward.service.authentication import User
from steward.service.failures import RefusedError
from steward.store.tokens import Role

__all__ = ["PushReceiver", "PushResult", "accept_pushed", "check_may_send", "otlp_reply"]

ANY_NODE = "*"


class PushReceiver(Protocol):
    """Port to the intake: makes a body durable and passes it to the loop."""

    @property
    def budget(self) -> ByteBudget:
        """The memory that all pushed bodies share."""
        ...

    def accept(self, kind: str, body: bytes, *, check: Callable[[Any], None] = ...) -> bool:
        """Make a body durable. `check` is called with its decoded content."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PushResult:
    """How many samples or lines of a body were refused, and why; the others are kept."""

    refused: int
    why: str = ""


def accept_pushed(receiver: PushReceiver, kind: str, pushed: PushedBody) -> PushResult:
    """Make a body durable; raises what the intake raises."""
    seen: list[PushedSamples | PushedLines] = []

    def look(decoded: object) -> None:
        if isinstance(decoded, PushedSamples | PushedLines):
            seen.append(decoded)

    receiver.accept(kind, pack_body(pushed), check=look)
    return PushResult(
        refused=sum(each.refused for each in seen),
        why="; ".join(filter(None, (e.why for e in seen))),
    )


def otlp_reply(
    kind: str, result: PushResult
) -> ExportLogsServiceResponse | ExportMetricsServiceResponse:
    """Return OTLP's answer of success, with what was refused as its partial success."""
    if kind == "otlp-logs":
        logs = ExportLogsServiceResponse()
        if result.refused:
            logs.partial_success.rejected_log_records = result.refused
            logs.partial_success.error_message = result.why
        return logs
    metrics = ExportMetricsServiceResponse()
    if result.refused:
        metrics.partial_success.rejected_data_points = result.refused
        metrics.partial_success.error_message = result.why
    return metrics


def check_may_send(user: User | None) -> str:
    """Return the sender's name, or refuse one who may not report all nodes."""
    if user is not None and user.role is Role.AGENT and user.node == ANY_NODE:
        return user.name
    raise RefusedError(
        403,
        f"{user.name if user else 'an unknown user'} may not send telemetry of all nodes",
        where="Authorization header",
        hint="make a token with `steward token new NAME --role agent --node '*'`",
    )

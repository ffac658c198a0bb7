"""Remote write and OTLP over HTTP. The answers are those that the two specifications ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil

from fastapi import APIRouter, Request, Response
from google.protobuf.json_format import MessageToJson
from starlette.concurrency import run_in_threadpool

from steward.clients.wire.remote_write import field
from steward.errors import StewardError, TemporaryError
from steward.observe.receive import PushedBody
from steward.service.access_middleware import PUSHED
from steward.service.failures import RefusedError
from steward.service.pushed_body import announced_bytes, read_body
from steward.service.wire.pushed import (
    PushReceiver,
    PushResult,
    accept_pushed,
    check_may_send,
    otlp_reply,
)

__all__ = ["wire_routes"]

WRITE, METRICS, LOGS = PUSHED
PROTOBUF, JSON = "application/x-protobuf", "application/json"
WAIT_S = 5


def wire_routes(receiver: PushReceiver) -> APIRouter:
    """Return the routes that other monitoring systems push to."""
    routes = APIRouter(include_in_schema=False)

    @routes.post(WRITE)
    async def write(request: Request) -> Response:
        _check_write(request.headers)
        try:
            taken = await _push(request, receiver, "remote-write", encoding="snappy")
        except TemporaryError as fault:
            return _later(fault, str(fault).encode(), "text/plain")
        except RefusedError:
            raise
        except StewardError as fault:
            return Response(str(fault), 400, media_type="text/plain")
        if taken.refused:
            return Response(taken.why, 400, media_type="text/plain")
        return Response(status_code=204)

    @routes.post(METRICS)
    async def metrics(request: Request) -> Response:
        return await _otlp(request, receiver, "otlp-metrics")

    @routes.post(LOGS)
    async def logs(request: Request) -> Response:
        return await _otlp(request, receiver, "otlp-logs")

    return routes


def _check_write(headers: Mapping[str, str]) -> None:
    """Refuse what is not remote write 1.0 with 415, upon which senders of 2.0 fall back to it."""
    kind, _, rest = headers.get("content-type", PROTOBUF).partition(";")
    proto = rest.partition("proto=")[2].strip() or "prometheus.WriteRequest"
    packed = headers.get("content-encoding", "snappy")
    if kind.strip() != PROTOBUF or proto != "prometheus.WriteRequest" or packed != "snappy":
        raise RefusedError(
            415,
            f"the body is {kind.strip()} ({proto}), packed by {packed}",
            where="Content-Type header",
            hint="steward takes remote write 1.0: prometheus.WriteRequest, packed by snappy",
        )


async def _push(
    request: Request, receiver: PushReceiver, kind: str, *, encoding: str, json: bool = False
) -> PushResult:
    """Read a body and make it durable, within the memory that all requests share."""
    sender = check_may_send(getattr(request.state, "user", None))
    host = request.client.host if request.client else ""
    with receiver.budget.reserve(announced_bytes(request)) as reservation:
        body = await read_body(request, reservation)
        pushed = PushedBody(sender=f"{sender} {host}", encoding=encoding, json=json, body=body)
        return await run_in_threadpool(accept_pushed, receiver, kind, pushed)


async def _otlp(request: Request, receiver: PushReceiver, kind: str) -> Response:
    media = request.headers.get("content-type", PROTOBUF).partition(";")[0].strip()
    packed = request.headers.get("content-encoding", "identity").strip().lower()
    if media not in (PROTOBUF, JSON) or packed not in ("identity", "gzip"):
        raise RefusedError(
            415,
            f"the body is {media}, packed by {packed}",
            where="Content-Type header",
            hint=f"OTLP is {PROTOBUF} or {JSON}, as it is or packed by gzip",
        )
    try:
        taken = await _push(request, receiver, kind, encoding=packed, json=media == JSON)
    except TemporaryError as fault:
        return _later(fault, _status(str(fault), media), media)
    except RefusedError:
        raise
    except StewardError as fault:
        return Response(_status(str(fault), media), 400, media_type=media)
    return Response(_answer(kind, taken, media), 200, media_type=media)


def _later(fault: TemporaryError, body: bytes, media: str) -> Response:
    wait_s = WAIT_S if fault.retry_after_s is None else ceil(fault.retry_after_s)
    return Response(body, 503, media_type=media, headers={"Retry-After": str(wait_s)})


def _status(message: str, media: str) -> bytes:
    """Encode google.rpc.Status, which is what OTLP/HTTP answers with when it refuses."""
    if media == JSON:
        return json.dumps({"message": message}).encode()
    return field(0x12, message.encode())


def _answer(kind: str, taken: PushResult, media: str) -> bytes:
    reply = otlp_reply(kind, taken)
    return str(MessageToJson(reply)).encode() if media == JSON else bytes(reply.SerializeToString())

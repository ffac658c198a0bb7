"""OTLP over gRPC: the same two services, on a port of their own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
from starlette.datastructures import Headers

from steward.clients.otlp import LOGS_METHOD, METRICS_METHOD
from steward.errors import StewardError, TemporaryError
from steward.observe.receive import PushedBody
from steward.service.authentication import Authenticator
from steward.service.wire.pushed import PushReceiver, accept_pushed, check_may_send, otlp_reply

__all__ = ["OtlpServer"]

KINDS = {METRICS_METHOD: "otlp-metrics", LOGS_METHOD: "otlp-logs"}
AT_ONCE = 8


class OtlpServer:
    """A gRPC server for metrics and logs. `port` 0 takes any that is free; see `port` then."""

    def __init__(
        self,
        receiver: PushReceiver,
        access: Authenticator,
        *,
        host: str = "127.0.0.1",
        port: int = 4317,
        most_bytes: int = 32 * 2**20,
        tls: tuple[bytes, bytes] | None = None,
    ) -> None:
        self._server = grpc.server(
            ThreadPoolExecutor(AT_ONCE, thread_name_prefix="otlp"),
            maximum_concurrent_rpcs=2 * AT_ONCE,  # each may hold `most_bytes` while it waits
            options=[
                ("grpc.max_receive_message_length", most_bytes),
                ("grpc.so_reuseport", 0),  # two programs on one port would each get a part
            ],
        )
        self._server.add_generic_rpc_handlers((_Handlers(receiver, access),))
        self.port = self._listen(f"{host}:{port}", tls)

    def _listen(self, address: str, tls: tuple[bytes, bytes] | None) -> int:
        """Bind; `tls` is a private key and a certificate."""
        hint = "choose another port with service.otlp_grpc_port"
        try:
            port = (
                self._server.add_insecure_port(address)
                if tls is None
                else self._server.add_secure_port(address, grpc.ssl_server_credentials([tls]))
            )
        except RuntimeError as fault:
            raise StewardError("cannot listen here for OTLP", where=address, hint=hint) from fault
        if not port:
            raise StewardError("cannot listen here for OTLP", where=address, hint=hint)
        return int(port)

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()

    def stop(self, *, within_s: float = 3.0) -> None:
        """Let calls that are under way end, then close."""
        self._server.stop(within_s).wait()


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    def __init__(self, receiver: PushReceiver, access: Authenticator) -> None:
        self._receiver = receiver
        self._access = access

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        kind = KINDS.get(details.method)
        if kind is None:
            return None
        return grpc.unary_unary_rpc_method_handler(self._taking(kind))

    def _taking(self, kind: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def answer(body: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                given = PushedBody(
                    sender=self._sender(context), encoding="identity", json=False, body=body
                )
                with self._receiver.budget.reserve(len(body)):
                    taken = accept_pushed(self._receiver, kind, given)
            except TemporaryError as fault:
                context.abort(grpc.StatusCode.UNAVAILABLE, str(fault))
            except StewardError as fault:
                context.abort(_code(fault), str(fault))
            return bytes(otlp_reply(kind, taken).SerializeToString())

        return answer

    def _sender(self, context: grpc.ServicerContext) -> str:
        pairs = {
            name: value
            for name, value in context.invocation_metadata()
            if isinstance(value, str) and name == "authorization"
        }
        return f"{check_may_send(self._access.user(Headers(pairs)))} {context.peer()}"


def _code(fault: StewardError) -> grpc.StatusCode:
    denied = getattr(fault, "status", 0) == 403
    return grpc.StatusCode.PERMISSION_DENIED if denied else grpc.StatusCode.INVALID_ARGUMENT

"""The routes of files and batches as the gateway's server takes them in."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

from steward.config.batch_settings import BatchSettings
from steward.errors import StewardError
from steward.service.gateway.batches.batch_routes import BatchHandlers
from steward.service.gateway.batches.file_routes import FileHandlers
from steward.service.gateway.batches.worker import BatchWorker
from steward.service.gateway.call import Caller, Submitter
from steward.service.gateway.openai_errors import GatewayError, error_response
from steward.service.gateway.status import BatchCounts
from steward.store.batches import open_batches

__all__ = ["BatchRoutes", "open_batch_routes"]

Handler = Callable[[web.BaseRequest, Caller, str], Awaitable[web.StreamResponse]]
_ID = "([A-Za-z0-9_-]{1,64})"


class BatchRoutes:
    """`ExtraRoutes` for files and batches of one gateway."""

    def __init__(self, worker: BatchWorker, settings: BatchSettings) -> None:
        self._worker = worker
        files = FileHandlers(worker, settings)
        batches = BatchHandlers(worker, settings)
        self._table: tuple[tuple[str, re.Pattern[str], Handler], ...] = (
            ("POST", re.compile("/v1/files"), files.upload),
            ("GET", re.compile("/v1/files"), files.show_all),
            ("GET", re.compile(f"/v1/files/{_ID}"), files.show),
            ("GET", re.compile(f"/v1/files/{_ID}/content"), files.content),
            ("DELETE", re.compile(f"/v1/files/{_ID}"), files.delete),
            ("POST", re.compile("/v1/batches"), batches.create),
            ("GET", re.compile("/v1/batches"), batches.show_all),
            ("GET", re.compile(f"/v1/batches/{_ID}"), batches.show),
            ("POST", re.compile(f"/v1/batches/{_ID}/cancel"), batches.cancel),
        )

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Return the paths that are answered here, with all below them."""
        return "/v1/files", "/v1/batches"

    async def handle(self, request: web.BaseRequest, caller: Caller) -> web.StreamResponse:
        """Answer one request; what goes wrong is an answer too."""
        try:
            handler, id_ = self._find(request)
            return await handler(request, caller, id_)
        except GatewayError as fault:
            return error_response(fault)
        except StewardError as fault:
            message = f"files and batches cannot be reached now: {fault.problem}"
            return error_response(GatewayError(503, message, code="store_unavailable"))

    async def start(self, queue: Submitter) -> None:
        """Begin to send items through the gateway's queue."""
        await self._worker.start(queue)

    async def stop(self) -> None:
        """Stop sending, and give back what is in flight."""
        await self._worker.stop()

    def counts(self) -> BatchCounts:
        """Return how many batches and items there are, a second old at most."""
        return self._worker.counts

    def _find(self, request: web.BaseRequest) -> tuple[Handler, str]:
        path = request.path.rstrip("/")
        methods = []
        for method, pattern, handler in self._table:
            match = pattern.fullmatch(path)
            if match and method == request.method:
                return handler, match.group(1) if match.groups() else ""
            if match:
                methods.append(method)
        if methods:
            known = ", ".join(methods)
            message = f"{path} does not answer {request.method}, only {known}"
            raise GatewayError(405, message, code="method_not_allowed", headers={"Allow": known})
        raise GatewayError(404, f"there is nothing at {path}", code="not_found")


def open_batch_routes(settings: BatchSettings, folder: Path) -> BatchRoutes:
    """Open the database that the settings name; without one, a SQLite file in `folder`."""
    url = settings.store or f"sqlite:///{folder.absolute() / 'batches.sqlite3'}"
    return BatchRoutes(BatchWorker(open_batches(url), settings), settings)

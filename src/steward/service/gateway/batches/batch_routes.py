"""Batches: create, list, show, cancel."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from aiohttp import web

from steward.config.batch_settings import BatchSettings
from steward.service.gateway.batches.bodies import json_response, page_limit, read_object
from steward.service.gateway.batches.input_lines import ENDPOINTS
from steward.service.gateway.batches.worker import BatchWorker
from steward.service.gateway.call import Caller
from steward.service.gateway.openai_errors import GatewayError
from steward.store.batches import BatchRecord

__all__ = ["BatchHandlers"]

_WINDOW = re.compile(r"([1-9][0-9]{0,6})([smhd])")
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PAGE, _LONGEST_PAGE = 20, 100
_MOST_METADATA, _KEY_CHARACTERS, _VALUE_CHARACTERS = 16, 64, 512
_TIMES = {  # as OpenAI calls them
    "in_progress": "in_progress_at",
    "finalizing": "finalizing_at",
    "completed": "completed_at",
    "failed": "failed_at",
    "expired": "expired_at",
    "cancelling": "cancelling_at",
    "cancelled": "cancelled_at",
}


class BatchHandlers:
    """What clients do with their batches."""

    def __init__(self, worker: BatchWorker, settings: BatchSettings) -> None:
        self._worker = worker
        self._settings = settings

    async def create(self, request: web.BaseRequest, caller: Caller, _id: str) -> web.Response:
        """Accept a batch; its file is read in the background."""
        fields = await read_object(request, self._settings.upload_stall_s)
        endpoint = fields.get("endpoint")
        if endpoint not in ENDPOINTS:
            known = ", ".join(ENDPOINTS)
            raise _wrong(f"`endpoint` is {endpoint!r}; known: {known}", "endpoint")
        window = fields.get("completion_window")
        within_s = self._within_s(window)
        file = fields.get("input_file_id")
        find = partial(self._worker.files.find, str(file), caller.tenant)
        record = await self._worker.run_in_thread(find)
        if record is None:
            message = f"there is no file '{file}'"
            raise GatewayError(404, message, code="file_not_found", param="input_file_id")
        if record.purpose != "batch":
            raise _wrong(f"the purpose of {record.id} is not 'batch'", "input_file_id")
        create = partial(
            self._worker.batches.create,
            tenant=caller.tenant,
            endpoint=str(endpoint),
            input_file=record.id,
            window=str(window),
            within_s=within_s,
            metadata=_metadata(fields.get("metadata")),
        )
        batch = await self._worker.run_in_thread(create)
        self._worker.look()
        return json_response(_shown(batch))

    async def show_all(self, request: web.BaseRequest, caller: Caller, _id: str) -> web.Response:
        """List the tenant's batches, newest first."""
        look = partial(
            self._worker.batches.page_of,
            caller.tenant,
            after=request.query.get("after"),
            limit=page_limit(request, default=_PAGE, most=_LONGEST_PAGE),
        )
        records, more = await self._worker.run_in_thread(look)
        rows = [_shown(each) for each in records]
        ends = {
            "first_id": records[0].id if records else None,
            "last_id": records[-1].id if records else None,
        }
        return json_response({"object": "list", "data": rows, **ends, "has_more": more})

    async def show(self, _request: web.BaseRequest, caller: Caller, id_: str) -> web.Response:
        """Describe one batch."""
        find = partial(self._worker.batches.find, id_, caller.tenant)
        return _answer(await self._worker.run_in_thread(find), id_)

    async def cancel(self, _request: web.BaseRequest, caller: Caller, id_: str) -> web.Response:
        """Stop sending the requests of a batch."""
        cancel = partial(self._worker.batches.cancel, id_, caller.tenant)
        batch = await self._worker.run_in_thread(cancel)
        self._worker.look()
        return _answer(batch, id_)

    def _within_s(self, window: object) -> float:
        match = _WINDOW.fullmatch(window) if isinstance(window, str) else None
        longest_s = self._settings.longest_window_s
        if match is None:
            raise _wrong(
                f"`completion_window` is {window!r}; write it as 24h, 90m, 30s or 7d",
                "completion_window",
            )
        within_s = int(match[1]) * _UNIT_S[match[2]]
        if within_s > longest_s:
            message = f"`completion_window` is {window}, longer than {longest_s:.0f} s"
            raise _wrong(message, "completion_window")
        return within_s


def _answer(batch: BatchRecord | None, id_: str) -> web.Response:
    if batch is None:
        message = f"No batch found with id '{id_}'."
        raise GatewayError(404, message, code="batch_not_found", param="id")
    return json_response(_shown(batch))


def _metadata(given: object) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, dict) or len(given) > _MOST_METADATA:
        raise _wrong(f"`metadata` is no object of at most {_MOST_METADATA} texts", "metadata")
    for key, value in given.items():
        if (
            not isinstance(value, str)
            or len(key) > _KEY_CHARACTERS
            or len(value) > _VALUE_CHARACTERS
        ):
            limits = f"{_KEY_CHARACTERS} and {_VALUE_CHARACTERS} characters"
            raise _wrong(f"keys and values of `metadata` are texts of at most {limits}", "metadata")
    return dict(given)


def _wrong(message: str, param: str) -> GatewayError:
    return GatewayError(400, message, code="invalid_request", param=param)


def _shown(batch: BatchRecord) -> dict[str, Any]:
    faults = [
        {"code": each.code, "line": each.line or None, "message": each.message, "param": each.param}
        for each in batch.errors
    ]
    times = {
        name: None if (t_s := batch.reached_s[status]) is None else int(t_s)
        for status, name in _TIMES.items()
    }
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "errors": {"object": "list", "data": faults} if faults else None,
        "input_file_id": batch.input_file,
        "completion_window": batch.window,
        "status": batch.status,
        "output_file_id": batch.output_file,
        "error_file_id": batch.error_file,
        "created_at": int(batch.created_s),
        "expires_at": int(batch.expires_s),
        **times,
        "request_counts": {
            "total": batch.total,
            "completed": batch.completed,
            "failed": batch.failed,
        },
        "metadata": dict(batch.metadata) or None,
    }

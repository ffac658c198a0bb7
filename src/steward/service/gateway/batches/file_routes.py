"""Files: upload, list, show, content, delete."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from aiohttp import BodyPartReader, MultipartReader, web

from steward.config.batch_settings import BatchSettings
from steward.service.gateway.batches.bodies import arriving, json_response, page_limit
from steward.service.gateway.batches.worker import BatchWorker
from steward.service.gateway.call import Caller
from steward.service.gateway.openai_errors import GatewayError
from steward.store.batches import FileRecord

__all__ = ["FileHandlers"]

_PART_BYTES = 2**20
_UPLOAD_WITHIN_S = 3600.0  # what takes longer is discarded as abandoned
_FIELD_BYTES = 1024
_NAME_CHARACTERS = 255
_MOST_FILES = 10_000  # of one page


class FileHandlers:
    """What clients do with their files."""

    def __init__(self, worker: BatchWorker, settings: BatchSettings) -> None:
        self._worker = worker
        self._files = worker.files
        self._limit_bytes = settings.file_limit_bytes
        self._stall_s = settings.upload_stall_s

    async def upload(self, request: web.BaseRequest, caller: Caller, _id: str) -> web.Response:
        """Store a file, part by part: it is never held as a whole."""
        if not request.content_type.startswith("multipart/"):
            message = "a file is uploaded as multipart/form-data, with the fields purpose and file"
            raise GatewayError(400, message, code="invalid_request")
        begin = partial(self._files.begin, tenant=caller.tenant, purpose="batch")
        file = await self._worker.run_in_thread(begin)
        try:
            sent = _Sent()
            async with arriving(_UPLOAD_WITHIN_S):
                await self._read(request, file, sent)
            sent.check()
            finish = partial(
                self._files.finish, file, filename=sent.filename, size_bytes=sent.size_bytes
            )
            return json_response(_shown(await self._worker.run_in_thread(finish)))
        except BaseException:  # the client has left, or what it sent is no file
            await self._worker.run_in_thread(partial(self._files.discard, file))
            raise

    async def _read(self, request: web.BaseRequest, file: str, sent: _Sent) -> None:
        try:
            reader = await request.multipart()
            while (part := await self._next(reader)) is not None:
                if isinstance(part, MultipartReader):
                    continue
                if part.name == "purpose":
                    async with arriving(self._stall_s):
                        sent.purpose = await _field(part)
                elif part.name == "file" and not sent.size_bytes:
                    sent.filename = _printable(part.filename or "file")[-_NAME_CHARACTERS:]
                    await self._store_parts(part, file, sent)
        except (ValueError, AssertionError) as fault:
            message = f"the upload is no multipart/form-data: {fault}"
            raise GatewayError(400, message, code="invalid_request") from None

    async def _next(self, reader: MultipartReader) -> MultipartReader | BodyPartReader | None:
        async with arriving(self._stall_s):  # also for what is left of the part before
            return await reader.next()

    async def _store_parts(self, part: BodyPartReader, file: str, sent: _Sent) -> None:
        number = 0
        while body := await _filled(part, self._stall_s):
            sent.size_bytes += len(body)
            if sent.size_bytes > self._limit_bytes:
                message = f"the file is larger than {self._limit_bytes} bytes"
                raise GatewayError(413, message, code="file_too_large", param="file")
            await self._worker.run_in_thread(partial(self._files.add_part, file, number, body))
            number += 1

    async def show_all(self, request: web.BaseRequest, caller: Caller, _id: str) -> web.Response:
        """List the tenant's files, newest first."""
        order = request.query.get("order", "desc")
        if order not in ("asc", "desc"):
            message = f"`order` is '{order}', not asc or desc"
            raise GatewayError(400, message, code="invalid_request", param="order")
        look = partial(
            self._files.page_of,
            caller.tenant,
            purpose=request.query.get("purpose"),
            after=request.query.get("after"),
            limit=page_limit(request, default=_MOST_FILES, most=_MOST_FILES),
            newest_first=order == "desc",
        )
        records, more = await self._worker.run_in_thread(look)
        rows = [_shown(each) for each in records]
        ends = {"first_id": records[0].id, "last_id": records[-1].id} if records else {}
        return json_response({"object": "list", "data": rows, **ends, "has_more": more})

    async def show(self, _request: web.BaseRequest, caller: Caller, id_: str) -> web.Response:
        """Describe one file."""
        return json_response(_shown(await self._found(id_, caller)))

    async def content(
        self, request: web.BaseRequest, caller: Caller, id_: str
    ) -> web.StreamResponse:
        """Send a file as it was stored."""
        record = await self._found(id_, caller)
        response = web.StreamResponse()
        response.content_type = "application/octet-stream"
        response.content_length = record.bytes
        await response.prepare(request)
        parts = self._files.parts(record.id)
        while (body := await self._worker.run_in_thread(partial(next, parts, None))) is not None:
            await response.write(body)
        await response.write_eof()
        return response

    async def delete(self, _request: web.BaseRequest, caller: Caller, id_: str) -> web.Response:
        """Delete a file; batches that were begun do not need theirs any more."""
        outcome = await self._worker.run_in_thread(partial(self._files.delete, id_, caller.tenant))
        if outcome == "unknown":
            raise _no_file(id_)
        if outcome == "needed":
            message = f"a batch is just reading {id_}: delete it a moment later"
            raise GatewayError(409, message, code="file_in_use")
        return json_response({"id": id_, "object": "file", "deleted": True})

    async def _found(self, id_: str, caller: Caller) -> FileRecord:
        record = await self._worker.run_in_thread(partial(self._files.find, id_, caller.tenant))
        if record is None:
            raise _no_file(id_)
        return record


@dataclass(slots=True)
class _Sent:
    """What a client uploaded."""

    purpose: str = ""
    filename: str = "file"
    size_bytes: int = 0

    def check(self) -> None:
        """Raise if it is nothing that can be kept."""
        if self.purpose != "batch":
            message = f"`purpose` is '{self.purpose}'; the only one served is 'batch'"
            raise GatewayError(400, message, code="invalid_purpose", param="purpose")
        if not self.size_bytes:
            message = "the field `file` is missing, or empty"
            raise GatewayError(400, message, code="empty_file", param="file")


async def _filled(part: BodyPartReader, stall_s: float) -> bytes:
    """Return the next mebibyte of a part, or what is left of it."""
    held = bytearray()
    while len(held) < _PART_BYTES:
        async with arriving(stall_s):
            chunk = await part.read_chunk(_PART_BYTES - len(held))
        if not chunk:
            break
        held += chunk
    return bytes(held)


def _printable(name: str) -> str:
    """Return a name that every database keeps: without NUL, surrogates and line ends."""
    return "".join(each if each.isprintable() else "�" for each in name)


async def _field(part: BodyPartReader) -> str:
    text = await part.read_chunk(_FIELD_BYTES)
    return bytes(text).decode(errors="replace").strip()


def _shown(record: FileRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "object": "file",
        "bytes": record.bytes,
        "created_at": int(record.created_s),
        "filename": record.filename,
        "purpose": record.purpose,
        "status": "processed",
    }


def _no_file(id_: str) -> GatewayError:
    return GatewayError(404, f"No such File object: {id_}", code="file_not_found", param="id")

"""Parses requests for comparisons: a form with a file, or JSON that names the example."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import Request
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from steward.errors import StewardError
from steward.service.failures import RefusedError
from steward.service.lab.comparison_request import EXAMPLE, ComparisonRequest, shown_name

__all__ = ["UploadedComparison", "request_body", "request_shapes", "uploaded_comparison"]

MOST_FIELDS = 40
FIELD_BYTES = 4096
JSON_BYTES = 65536
CHUNK_BYTES = 1 << 20
FORM, JSON = "multipart/form-data", "application/json"
SHAPES = {FORM: "ComparisonForm", JSON: "ExampleComparison"}
HINT = "send a form with the file as `trace`, or JSON with `trace` = 'example'"


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedComparison:
    """The request. Without `upload`, it is about the example."""

    wanted: ComparisonRequest
    upload: UploadFile | None = None

    @property
    def trace(self) -> str:
        """The name of the trace, to be shown."""
        return shown_name(self.upload.filename or "") if self.upload else EXAMPLE

    def save(self, folder: Path) -> Path | None:
        """Keep the upload under a name of ours: the client's is for showing only."""
        if self.upload is None:
            return None
        file = folder / "trace"
        try:
            with file.open("wb") as stream:
                shutil.copyfileobj(self.upload.file, stream, CHUNK_BYTES)
        except OSError as fault:
            raise _not_kept(fault) from fault
        return file


@asynccontextmanager
async def uploaded_comparison(request: Request) -> AsyncIterator[UploadedComparison]:
    """Read a request. A file that came with it is on disk, and gone after the block."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON:
        yield UploadedComparison(wanted=await _from_json(request))
        return
    if kind != FORM:
        problem = f"the request is '{kind[:60]}', neither a form with a file nor JSON"
        raise RefusedError(415, problem, where="Content-Type header", hint=HINT)
    form = await _form(request)
    try:
        yield _from_form(form)
    finally:
        await form.close()


async def _form(request: Request) -> FormData:
    cut_off: list[Exception] = []

    async def pieces() -> AsyncIterator[bytes]:
        try:
            async for piece in request.stream():
                yield piece
        except Exception as fault:  # the parser tidies up after itself only for its own kind
            cut_off.append(fault)
            raise MultiPartException("cut off") from fault

    parser = MultiPartParser(
        request.headers,
        pieces(),  # type: ignore[arg-type]  # annotated as generator, but an iterator is enough
        max_files=1,
        max_fields=MOST_FIELDS,
        max_part_size=FIELD_BYTES,
    )
    try:
        return await parser.parse()
    except MultiPartException as fault:
        if cut_off:
            raise cut_off[0] from None
        raise RefusedError(400, f"the form cannot be read: {fault.message}", where="body") from None
    except OSError as fault:
        raise _not_kept(fault) from fault


def _not_kept(fault: OSError) -> StewardError:
    problem = f"the trace cannot be kept: {(fault.strerror or str(fault)).lower()}"
    return StewardError(
        problem, where="lab", hint="is there room in the folder for temporary files?"
    )


def _from_form(form: FormData) -> UploadedComparison:
    given: dict[str, Any] = {}
    for name, value in form.multi_items():
        if name == "policies" and isinstance(value, str):
            given.setdefault(name, []).extend(value.split(","))
        elif name in given:
            where = f"form.{name[:60]}"
            raise RefusedError(422, f"{name[:60]} is given more than once", where=where)
        else:
            given[name] = value
    upload = given.pop("trace", None)
    if not isinstance(upload, UploadFile):
        raise RefusedError(422, "there is no trace file", where="trace", hint=HINT)
    return UploadedComparison(wanted=_wanted(given), upload=upload)


async def _from_json(request: Request) -> ComparisonRequest:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > JSON_BYTES:
            raise RefusedError(413, f"the request has more than {JSON_BYTES} bytes of JSON")
    try:
        given = json.loads(body)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as fault:
        raise RefusedError(422, f"the request is no JSON: {fault}", where="body") from None
    if not isinstance(given, dict) or given.pop("trace", None) != EXAMPLE:
        raise RefusedError(422, "JSON can only name the example", where="trace", hint=HINT)
    return _wanted(given)


def _wanted(given: Mapping[str, Any]) -> ComparisonRequest:
    try:
        return ComparisonRequest.model_validate(given)
    except ValidationError as fault:
        wrong = [(".".join(map(str, each["loc"])), each["msg"]) for each in fault.errors()]
        raise RefusedError(
            422,
            "; ".join(f"{where}: {what}" for where, what in wrong),
            where=", ".join(dict.fromkeys(where for where, _ in wrong)),
            hint="GET /api/v1/openapi.json lists what this address takes",
        ) from None


def request_body() -> dict[str, Any]:
    """Describe both request bodies for OpenAPI; FastAPI cannot infer them."""
    content = {
        kind: {"schema": {"$ref": f"#/components/schemas/{name}"}} for kind, name in SHAPES.items()
    }
    return {"required": True, "content": content}


def request_shapes() -> dict[str, dict[str, Any]]:
    """Return the schemas that `request_body` refers to."""
    file = {
        "type": "string",
        "format": "binary",
        "description": "CSV, Parquet, sacct or SWF, also gzip; docs/traces.md",
    }
    example = {"type": "string", "const": EXAMPLE, "description": f"`{EXAMPLE}`: all made up"}
    return {
        SHAPES[FORM]: _shape(file, about="A trace to compare policies on, as a form."),
        SHAPES[JSON]: _shape(example, about="A comparison on the example, as JSON."),
    }


def _shape(trace: dict[str, Any], *, about: str) -> dict[str, Any]:
    fields = ComparisonRequest.model_json_schema()
    properties = {"trace": trace, **fields["properties"]}
    return {**fields, "description": about, "properties": properties, "required": ["trace"]}

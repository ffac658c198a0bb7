"""Error replies of the service: always the same three fields."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from steward.errors import StewardError

__all__ = ["RefusedError", "error_response", "handle_failures"]

HINTS = {
    400: "the body must be JSON in UTF-8, with numbers that a double holds, not nested deeply",
    404: "GET /api/v1/openapi.json lists what there is",
    405: "GET /api/v1/openapi.json lists the methods of each address",
}


class RefusedError(StewardError):
    """A request that is answered with an error. `status` is HTTP's."""

    def __init__(
        self,
        status: int,
        problem: str,
        *,
        where: str = "",
        hint: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(problem, where=where, hint=hint)
        self.status = status
        self.headers = dict(headers or {})


def error_response(fault: StewardError, *, status: int = 503) -> Response:
    """Return the answer for a fault. One that is not about the request is ours: 503."""
    refusal = fault if isinstance(fault, RefusedError) else None
    return JSONResponse(
        {"error": fault.as_record()},
        status_code=refusal.status if refusal else status,
        headers=refusal.headers if refusal else None,
    )


def handle_failures(app: FastAPI) -> None:
    """Make every error of an application come out in our form."""
    app.add_exception_handler(StewardError, _steward_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _ours)


async def _steward_error(_request: Request, fault: Exception) -> Response:
    assert isinstance(fault, StewardError)  # noqa: S101 - that is what it is registered for
    return error_response(fault)


async def _invalid(_request: Request, fault: Exception) -> Response:
    assert isinstance(fault, RequestValidationError)  # noqa: S101
    wrong = [
        (".".join(map(str, each["loc"])), each["msg"].removeprefix("Value error, "))
        for each in fault.errors()
    ]
    problem = "; ".join(f"{where}: {what}" for where, what in wrong)
    where = ", ".join(dict.fromkeys(where for where, _ in wrong))
    hint = "GET /api/v1/openapi.json lists what each address takes"
    return error_response(RefusedError(422, problem, where=where, hint=hint))


async def _http(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)  # noqa: S101
    phrase = HTTPStatus(fault.status_code).phrase.lower()
    where = f"{request.method} {request.url.path}"
    hint = HINTS.get(fault.status_code, "")
    return error_response(
        RefusedError(
            fault.status_code, f"{where}: {phrase}", where=where, hint=hint, headers=fault.headers
        )
    )


async def _ours(request: Request, fault: Exception) -> Response:
    problem = f"{type(fault).__name__} while answering {request.method} {request.url.path}"
    hint = "this is a fault in steward; the log of `steward up` has the details"
    return error_response(RefusedError(500, problem, where="service", hint=hint))

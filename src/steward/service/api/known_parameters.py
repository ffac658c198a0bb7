"""Refuses query parameters that an address does not take: a misspelt filter would be ignored."""

from __future__ import annotations

from fastapi import Request, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute

from steward.errors import did_you_mean
from steward.service.failures import RefusedError

__all__ = ["refuse_unknown_parameters"]


def refuse_unknown_parameters(request: Request) -> None:
    """Raise 422 that names parameters which the address does not take, and the nearest ones."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or not request.query_params:
        return
    taken = get_flat_params(route.dependant)
    known = sorted({each.alias for each in taken if isinstance(each.field_info, params.Query)})
    unknown = sorted(set(request.query_params) - set(known))
    if not unknown:
        return
    named = ", ".join(repr(name[:60]) for name in unknown)
    near = [hint for name in unknown if (hint := did_you_mean(name, known))]
    there_are = f"this address takes {', '.join(known)}" if known else "this address takes none"
    raise RefusedError(
        422,
        f"unknown query parameter{'s' if len(unknown) > 1 else ''} {named}; {there_are}",
        where=", ".join(f"query.{name[:60]}" for name in unknown),
        hint=" ".join(near) or "GET /api/v1/openapi.json lists what each address takes",
    )

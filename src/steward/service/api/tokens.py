"""`/api/v1/tokens`: make, list and revoke access tokens. For administrators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from steward.service.api.replies import Number, Reply, failures
from steward.service.authentication import User
from steward.service.failures import RefusedError
from steward.store.tokens import NameTakenError, Role, Token, Tokens

__all__ = ["token_routes"]

DAY_S = 86400.0
PRINTABLE = r"^[!-~]([ -~]*[!-~])?$"
Name = Annotated[str, Path(max_length=100, pattern=PRINTABLE, description="a token's name")]


class TokenRequest(BaseModel):
    """A token to make."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=100, pattern=PRINTABLE, description="the person or program")
    role: Role = Role.VIEWER
    node: str = Field("", max_length=100, pattern="^[!-~]*$", description="of an agent's token")
    days: float | None = Field(
        None, gt=0, le=36500, strict=True, description="until it expires; null is never"
    )


class TokenReply(Reply):
    """A token without its secret."""

    name: str
    role: Role
    node: str
    made_s: float
    expires_s: Number


class NewTokenReply(TokenReply):
    """A token that was just made. Its secret is shown this once."""

    token: str


class TokenList(Reply):
    """All tokens, oldest first."""

    items: list[TokenReply]


def token_routes(tokens: Tokens) -> APIRouter:
    """Return the routes about tokens."""
    routes = APIRouter(tags=["tokens"])

    @routes.get("/tokens", responses=failures())
    def list_(request: Request) -> TokenList:
        """List tokens; their secrets are not kept."""
        _check_admin(request)
        return TokenList(items=[TokenReply.model_validate(each) for each in tokens.list()])

    @routes.post("/tokens", status_code=201, responses=failures(409))
    def make(request: Request, wanted: TokenRequest) -> NewTokenReply:
        """Make a token and show it, this once."""
        _check_admin(request)
        if wanted.node and wanted.role is not Role.AGENT:
            raise RefusedError(422, "only an agent's token is for a node", where="body.node")
        valid_s = None if wanted.days is None else wanted.days * DAY_S
        try:
            secret = tokens.make(wanted.name, wanted.role, node=wanted.node, valid_s=valid_s)
        except NameTakenError as fault:
            hint = "revoke it first, or choose another name"
            raise RefusedError(409, fault.problem, where="body.name", hint=hint) from fault
        made = _named(tokens, wanted.name)
        return NewTokenReply.model_validate(
            {**TokenReply.model_validate(made).model_dump(), "token": secret}
        )

    @routes.delete("/tokens/{name}", responses=failures(404))
    def revoke(request: Request, name: Name) -> TokenReply:
        """Revoke a token, and with it every session that was opened by it."""
        _check_admin(request)
        found = _named(tokens, name)
        tokens.revoke(name)
        return TokenReply.model_validate(found)

    return routes


def _check_admin(request: Request) -> None:
    user: User = request.state.user
    if not user.role.includes(Role.ADMIN):
        raise RefusedError(
            403,
            f"{user.name} is {user.role.value} and may not manage tokens",
            where="tokens",
            hint="ask an administrator, or use `steward token` as the account that runs steward",
        )


def _named(tokens: Tokens, name: str) -> Token:
    found = next((each for each in tokens.list() if each.name == name), None)
    if found is None:
        raise RefusedError(404, f"there is no token called '{name}'", where="path.name")
    return found

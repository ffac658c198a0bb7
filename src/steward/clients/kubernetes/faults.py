"""What an API server answers when it does not do what was asked, by what a caller does next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from steward.errors import StewardError, TemporaryError

__all__ = [
    "ConflictError",
    "ForbiddenError",
    "GoneError",
    "KubernetesError",
    "MissingError",
    "PressureError",
    "RejectedError",
    "UnauthorizedError",
    "UnreachableError",
    "refused_answer",
    "retryable_faults",
    "unreachable",
]

_HINTS = {
    401: "the token is not accepted (any more): look at the kubeconfig or the service account",
    403: "this account lacks the right: see deploy/kubernetes for the roles",
    409: "it was changed since it was looked at: look again",
}


class KubernetesError(StewardError):
    """The API server did not answer, or refused."""


class GoneError(KubernetesError):
    """The server no longer has that version: everything has to be listed again."""


class ConflictError(KubernetesError):
    """The object has changed since it was read, or exists already."""


class MissingError(KubernetesError):
    """There is no such object."""


class UnauthorizedError(KubernetesError):
    """The server does not accept who we say we are."""


class ForbiddenError(KubernetesError):
    """The account lacks the right."""


class RejectedError(KubernetesError):
    """The server understood and will never accept it: a field is wrong or cannot be changed."""


class UnreachableError(KubernetesError):
    """The server did not answer at all: every other request would wait as long."""


class PressureError(KubernetesError):
    """Not now: too many requests, or a disruption budget that is used up."""

    def __init__(self, problem: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(problem, where=where, hint=hint)
        self.retry_after_s: float | None = None


_KINDS: dict[int, type[KubernetesError]] = {
    400: RejectedError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: MissingError,
    409: ConflictError,
    410: GoneError,
    422: RejectedError,
    429: PressureError,
}


def refused_answer(code: int, message: str, path: str, *, retry_after: str = "") -> KubernetesError:
    """Return the error of an answer that is no success."""
    kind = _KINDS.get(code, KubernetesError)
    problem = f"{path}: {code} {message}".rstrip()
    fault = kind(problem, where="kubernetes", hint=_HINTS.get(code, ""))
    if isinstance(fault, PressureError) and retry_after.isdecimal():
        fault.retry_after_s = float(retry_after)
    return fault


def unreachable(fault: Exception, server: str) -> UnreachableError:
    """Return the error of a server that does not answer."""
    problem = f"{server} does not answer: {fault or type(fault).__name__}"
    hint = "is the API server up, and reachable from here?"
    return UnreachableError(problem, where="kubernetes", hint=hint)


_PERMANENT = (ConflictError, ForbiddenError, MissingError, RejectedError, UnauthorizedError)


@contextmanager
def retryable_faults() -> Iterator[None]:
    """Raise a fault that may be gone at the next try as a TemporaryError."""
    try:
        yield
    except _PERMANENT:
        raise
    except KubernetesError as fault:
        raise TemporaryError(fault.problem, where=fault.where, hint=fault.hint) from fault

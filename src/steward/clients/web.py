"""How steward calls other programs over HTTP: with a token, in time, and never too much at once."""

from __future__ import annotations

import ssl
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steward import __version__
from steward.clients.transport_rule import check_transport
from steward.errors import PermanentError, StewardError, TemporaryError

if TYPE_CHECKING:
    import httpx

__all__ = ["Endpoint", "open_client", "post", "read_up_to", "trusted"]

_AGAIN = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of a server and our credentials. `ca` is a file with the authority it trusts.

    Raises for plain HTTP to another machine unless `plain_http` allows it: see `transport_rule`.
    """

    url: str
    token: str = ""
    user: str = ""
    password: str = ""
    ca: str = ""
    timeout_s: float = 10.0
    plain_http: bool = False

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            problem = f"'{self.url}' is not an address"
            raise StewardError(problem, hint="write https://HOST:PORT or http://HOST:PORT")
        check_transport(self.url, plain_http=self.plain_http)


def open_client(endpoint: Endpoint, *, owner: object) -> httpx.Client:
    """Return a client that keeps its connections open until its owner is gone."""
    import httpx  # noqa: PLC0415 - 7 MB that most agents need not load

    headers = {"User-Agent": f"steward/{__version__}"}
    if endpoint.token:
        headers["Authorization"] = f"Bearer {endpoint.token}"
    client = httpx.Client(
        headers=headers,
        auth=httpx.BasicAuth(endpoint.user, endpoint.password) if endpoint.user else None,
        timeout=httpx.Timeout(endpoint.timeout_s),
        verify=trusted(endpoint.ca),
        follow_redirects=False,
    )
    weakref.finalize(owner, client.close)
    return client


def trusted(ca: str) -> ssl.SSLContext | bool:
    """Return what httpx verifies servers by: this file of certificates, or the usual ones."""
    if not ca:
        return True
    if not Path(ca).is_file():
        raise StewardError("the certificate file is not there", where=ca, hint="name a PEM file")
    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError as fault:
        problem = f"is not a certificate: {fault}"
        raise StewardError(problem, where=ca, hint="name a PEM file") from fault


def read_up_to(
    client: httpx.Client, url: str, *, most_bytes: int, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """Return a response; raise if its decompressed body is too large."""
    import httpx  # noqa: PLC0415 - 7 MB that most agents need not load

    try:
        with client.stream("GET", url, headers=dict(headers or {})) as answer:
            parts, size = [], 0
            for part in answer.iter_bytes():
                parts.append(part)
                size += len(part)
                if size > most_bytes:
                    raise StewardError(f"answers with more than {most_bytes} bytes", where=url)
            whole = httpx.Response(
                answer.status_code,
                headers={"content-type": answer.headers.get("content-type", "")},
                content=b"".join(parts),
            )
    except httpx.HTTPError as fault:
        raise TemporaryError(_error_text(fault), where=url, hint="is it running?") from fault
    if whole.status_code != 200:
        problem = f"answers {whole.status_code}: {whole.text[:200].strip()}"
        raise StewardError(problem, where=url, hint=_hint(whole.status_code))
    return whole


def post(client: httpx.Client, url: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """Send a body. Raises `TemporaryError` where trying again may help, else `PermanentError`."""
    import httpx  # noqa: PLC0415 - 7 MB that most agents need not load

    try:
        answer = client.post(url, content=body, headers=dict(headers))
    except httpx.HTTPError as fault:
        raise TemporaryError(_error_text(fault), where=url) from fault
    if answer.is_success:
        return answer.content
    problem = f"answers {answer.status_code}: {answer.text[:200].strip()}"
    if answer.status_code in _AGAIN:
        wait = answer.headers.get("retry-after", "")
        wait_s = float(wait) if wait.isdecimal() else None  # a date is left alone: few send one
        raise TemporaryError(problem, where=url, retry_after_s=wait_s)
    raise PermanentError(problem, where=url, hint=_hint(answer.status_code))


def _error_text(fault: httpx.HTTPError) -> str:
    return f"cannot be reached: {fault or type(fault).__name__}"


def _hint(status: int) -> str:
    return {
        401: "it needs a token, or another one",
        403: "this token may not do that",
        404: "is the address right, and is the receiver switched on?",
    }.get(status, "")

"""When a connection may go without TLS: one rule for agents, forwards, Prometheus and the CLI.

https is always allowed; plain HTTP stays on this machine unless a setting allows it explicitly.
Telemetry, log lines and answers that rules act on deserve this as much as a token does.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from steward.errors import StewardError

__all__ = ["PLAIN_HTTP_HINT", "check_transport", "is_loopback", "needs_plain_http"]


PLAIN_HTTP_HINT = "use https://, or allow it: plain_http = true, --plain-http on the command line"


def check_transport(url: str, *, plain_http: bool) -> None:
    """Raise unless `url` is https, on this machine, or `plain_http` allows it."""
    if needs_plain_http(url) and not plain_http:
        raise StewardError(
            "plain HTTP to another machine: anyone on the network could read or change it",
            where=url,
            hint=PLAIN_HTTP_HINT,
        )


def needs_plain_http(url: str) -> bool:
    """Return True if `url` is plain HTTP that leaves this machine.

    >>> [needs_plain_http(each) for each in ("https://n1", "http://[::1]:80", "http://n1:8787")]
    [False, False, True]
    """
    parts = urlsplit(url)
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Return True if a host name or address is this machine itself.

    >>> [is_loopback(each) for each in ("localhost", "127.0.0.7", "::1", "0.0.0.0", "n1")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

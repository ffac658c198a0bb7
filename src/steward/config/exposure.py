"""The rule for plain HTTP, applied to the address that the service listens on."""

from __future__ import annotations

from steward.clients.transport_rule import is_loopback
from steward.config.settings import ServiceSettings
from steward.errors import StewardError

__all__ = ["check_exposure"]


def check_exposure(service: ServiceSettings) -> None:
    """Refuse plain HTTP on an address that other machines reach, unless a setting allows it."""
    if not is_loopback(service.host) and not (service.tls_certificate or service.plain_http):
        raise StewardError(
            f"'{service.host}' can be reached from other machines, and there is no certificate: "
            "tokens and cookies would cross the network in the clear",
            where="service.host",
            hint="set service.tls_certificate, put a TLS proxy in front of 127.0.0.1, or allow it: "
            "service.plain_http = true, --plain-http",
        )

"""Opens the port that a server listens on, and checks its certificate before anything starts."""

from __future__ import annotations

import errno
import socket
import ssl

from steward.config.checked_values import shown_host
from steward.errors import StewardError

__all__ = ["check_certificate", "listen"]

_REASONS = {
    errno.EADDRINUSE: "this port is in use by another program",
    errno.EACCES: "this port may only be used by the administrator",
    errno.EADDRNOTAVAIL: "this machine does not have this address",
}


def check_certificate(certificate: str, key: str, section: str) -> None:
    """Raise unless the files of `section.tls_certificate` and `section.tls_key` can be used."""
    if key and not certificate:
        raise StewardError(
            "there is a key, but no certificate",
            where=f"{section}.tls_key",
            hint=f"set {section}.tls_certificate as well",
        )
    if certificate:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key or None)
        except (OSError, ssl.SSLError) as fault:
            raise StewardError(
                f"the certificate cannot be used: {fault.strerror or fault}",
                where=certificate,
                hint="both files are in PEM form, the key has no password and belongs to the "
                "certificate",
            ) from fault


def listen(host: str, port: int, section: str, *, backlog: int = 128) -> socket.socket:
    """Return a socket that listens; `section.host` is where its address was set."""
    where = f"{shown_host(host)}:{port}"
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=backlog)
    except socket.gaierror as fault:
        raise StewardError(
            f"'{host}' is not an address of this machine: {fault.strerror}",
            where=f"{section}.host",
            hint="use 127.0.0.1 for this machine alone, 0.0.0.0 for all its addresses",
        ) from fault
    except OSError as fault:
        raise StewardError(
            _REASONS.get(fault.errno or 0, f"cannot listen here: {fault.strerror}"),
            where=where,
            hint=f"choose another port with --port (0 takes a free one) or set {section}.host",
        ) from fault

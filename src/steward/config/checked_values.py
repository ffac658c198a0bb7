"""Values of a configuration that are more than a type: addresses, folders, names."""

from __future__ import annotations

from collections import Counter
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from pydantic_core import PydanticCustomError

__all__ = [
    "JOURNAL_SCHEMES",
    "MASK",
    "check_folder",
    "check_journal_url",
    "check_named_once",
    "check_network",
    "check_not_blank",
    "check_optional_file",
    "check_optional_receiver_url",
    "check_receiver_url",
    "masked_url",
    "shown_host",
]

JOURNAL_SCHEMES = ("sqlite", "postgresql", "postgresql+psycopg")
MASK = "***"


def masked_url(url: str) -> str:
    """Return a URL that can be printed: its password, if any, is masked.

    >>> masked_url("postgresql://me:secret@db.example.org:5432/steward")
    'postgresql://me:***@db.example.org:5432/steward'
    """
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:  # not a URL at all: show nothing that might be a secret
        return MASK if "@" in url else url
    if password is None:
        return url
    user, _, host = parts.netloc.rpartition("@")
    covered = f"{user.partition(':')[0]}:{MASK}@{host}"
    return urlunsplit((parts.scheme, covered, parts.path, parts.query, parts.fragment))


def shown_host(host: str) -> str:
    """Return a host as it stands before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def _wrong_value(problem: str, hint: str) -> PydanticCustomError:
    """Return the error of a value, with what to write instead."""
    return PydanticCustomError("steward", "{problem}", {"problem": problem, "hint": hint})


def check_named_once(names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a list that names a plug twice."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise _wrong_value(f"names {', '.join(repeated)} more than once", "name each plug once")
    return names


def check_not_blank(text: str) -> str:
    """Refuse a text without a letter in it."""
    if not text.strip():
        raise _wrong_value("is empty", "write a name, or leave the key out for its default")
    return text


def check_folder(text: str) -> str:
    """Refuse a folder below a home that is not known."""
    try:
        Path(check_not_blank(text)).expanduser()
    except RuntimeError:
        raise _wrong_value(
            f"is '{text}', but that home folder is not known", "write an absolute path"
        ) from None
    return text


def check_optional_file(text: str) -> str:
    """Refuse what is neither empty nor a path whose home is known."""
    return check_folder(text) if text else ""


def check_journal_url(url: str) -> str:
    """Refuse the address of a database that no journal can be in."""
    scheme = url.partition("://")[0]
    if url and ("://" not in url or scheme not in JOURNAL_SCHEMES):
        raise _wrong_value(
            f"is '{masked_url(url)}', whose scheme is not one of {', '.join(JOURNAL_SCHEMES)}",
            "leave it empty for SQLite in the store folder, "
            "or write postgresql://USER:PASSWORD@HOST:PORT/DATABASE",
        )
    return url


def check_receiver_url(url: str) -> str:
    """Refuse what is no address over HTTP, or has a password in it."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not host:
        raise _wrong_value(
            f"is '{masked_url(url)}', not an address", "write http://HOST:PORT or https://HOST:PORT"
        )
    if parts.username is not None:
        raise _wrong_value("has a user in it", "set user and password_file instead")
    return url


def check_network(text: str) -> str:
    """Refuse what is neither an address nor a network."""
    try:
        ip_network(text)
    except ValueError:
        raise _wrong_value(
            f"is '{text}', not an address or network", "write 127.0.0.1 or 10.0.0.0/8"
        ) from None
    return text


def check_optional_receiver_url(url: str) -> str:
    """Refuse what is neither empty nor an address over HTTP."""
    return check_receiver_url(url) if url else ""

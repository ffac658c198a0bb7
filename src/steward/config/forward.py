"""The receivers that telemetry is forwarded to: what is wrong with them, and what they become."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from steward.clients.transport_rule import PLAIN_HTTP_HINT, needs_plain_http
from steward.config.mistakes import Wrong, dotted
from steward.config.settings import ForwardFormat, ForwardSettings, Settings
from steward.errors import StewardError, did_you_mean
from steward.model.metrics import METRICS

if TYPE_CHECKING:
    from steward.observe.forwarding import ForwardTarget

__all__ = ["file_there", "secret_in", "targets_of", "wrong_receivers"]


def wrong_receivers(settings: Settings) -> Iterator[Wrong]:
    """Yield conflicts between the keys of each receiver."""
    for name, each in settings.forward.items():
        for key, problem, hint in _wrong(each):
            path = ("forward", name, key)
            yield Wrong(path=path, problem=f"{dotted(path)} {problem}", hint=hint)


def _wrong(each: ForwardSettings) -> Iterator[tuple[str, str, str]]:
    if not each.url:
        yield "url", "is not set", "write where the receiver is: https://HOST:PORT"
    if needs_plain_http(each.url) and not each.plain_http:
        yield "url", "is plain HTTP to another machine", PLAIN_HTTP_HINT
    if each.lines and each.format is ForwardFormat.REMOTE_WRITE:
        yield (
            "lines",
            "is true, but remote write carries no lines",
            "use otlp-http or otlp-grpc",
        )
    if each.token_file and each.user:
        yield "user", "is set together with token_file", "set only one of them"
    if bool(each.user) != bool(each.password_file):
        missing = "password_file" if each.user else "user"
        yield missing, "is not set", "user and password_file belong together"
    for pattern in each.metrics:
        if not any(fnmatchcase(metric.name, pattern) for metric in METRICS):
            near = did_you_mean(pattern, [metric.name for metric in METRICS])
            hint = near or "docs/reference/metrics.md lists all metrics"
            yield "metrics", f"has '{pattern}', which no metric is called", hint


def targets_of(settings: Settings) -> tuple[ForwardTarget, ...]:
    """Return the receivers with their secrets; raises with all files that cannot be read."""
    if not settings.forward:
        return ()
    # Imported here: only a configuration that forwards needs these libraries.
    from steward.clients.web import Endpoint  # noqa: PLC0415
    from steward.observe.forwarding import ForwardTarget  # noqa: PLC0415

    faults: list[str] = []
    targets = [
        ForwardTarget(
            name=name,
            format=each.format.value,
            endpoint=Endpoint(
                url=each.url,
                token=secret_in(f"forward.{name}.token_file", each.token_file, faults),
                user=each.user,
                password=secret_in(f"forward.{name}.password_file", each.password_file, faults),
                ca=file_there(f"forward.{name}.ca_file", each.ca_file, faults),
                plain_http=each.plain_http,
            ),
            metrics=each.metrics,
            lines=each.lines,
        )
        for name, each in settings.forward.items()
    ]
    if faults:
        hint = "name files that the user who runs steward may read"
        raise StewardError("; ".join(faults), where="[forward]", hint=hint)
    return tuple(targets)


def secret_in(key: str, file: str, faults: list[str]) -> str:
    """Return the secret that a file holds; append what is wrong with it to `faults`."""
    if not file:
        return ""
    try:
        secret = Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError, RuntimeError) as fault:
        why = getattr(fault, "strerror", None) or "it is not text"
        faults.append(f"{key}: {file} cannot be read: {why.lower()}")
        return ""
    if not secret or not secret.isprintable():
        faults.append(f"{key}: {file} has to hold one secret and nothing else")
    return secret


def file_there(key: str, file: str, faults: list[str]) -> str:
    """Return the path of a file; append to `faults` if it is not there."""
    path = Path(file).expanduser() if file else None
    if path is not None and not path.is_file():
        faults.append(f"{key}: {file} is not there")
    return str(path) if path else ""

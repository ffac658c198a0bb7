"""`steward observe export`: recorded telemetry for other systems, or as files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_note, print_warnings
from steward.cli.words import number, seconds
from steward.errors import StewardError, unknown_name
from steward.store.atomic import whole_file

if TYPE_CHECKING:
    from steward.clients.web import Endpoint
    from steward.observe.export import ExportSelection
    from steward.store.telemetry import Telemetry

__all__ = ["export"]

FORMATS = (
    "remote-write",
    "otlp-http",
    "otlp-grpc",
    "prometheus",
    "csv",
    "parquet",
    "json-lines",
)

To = Annotated[
    str,
    typer.Option("--to", metavar="URL|FILE", help="An address, a file, or - for standard output."),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help=f"One of {', '.join(FORMATS)}; guessed from a file's name.",
        autocompletion=lambda: list(FORMATS),
    ),
]
Folder = Annotated[Path, typer.Option("--data", metavar="DIR", help="The recording or store.")]
Entities = Annotated[
    list[str] | None,
    typer.Option("--entity", metavar="PATTERN", help="Only these, as `n01/*`; may be repeated."),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metric", metavar="NAME", help="Only these; may be repeated."),
]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only the last 90s, 10min, 2h, 3d.")
]
From = Annotated[
    str | None, typer.Option("--from", metavar="WHEN", help="2026-11-15T14:00, or Unix seconds.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="The same.")]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="Holds a bearer token.")
]
Ca = Annotated[
    Path | None, typer.Option("--ca", metavar="FILE", help="Who signed the receiver's certificate.")
]
PlainHttp = Annotated[
    bool, typer.Option("--plain-http", help="Allow a receiver on another machine without TLS.")
]


def export(  # noqa: PLR0913 - a command's options are its parameters
    *,
    data: Folder,
    to: To = "-",
    format_: Format = None,
    entities: Entities = None,
    metrics: Metrics = None,
    since: Since = None,
    from_: From = None,
    until: Until = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    plain_http: PlainHttp = False,
    as_json: Json = False,
) -> None:
    """Give recorded telemetry away: to Prometheus or OpenTelemetry, or into a file.

    Prometheus takes by remote write only what is about an hour old at most; for older samples write
    `--format prometheus` and let `promtool tsdb create-blocks-from openmetrics` read the file.
    """
    from steward.observe.export import SENT_FORMATS

    chosen = _format(format_, to)
    with _opened(data) as telemetry:
        choice = _choice(telemetry, entities, metrics, (since, from_, until))
        if chosen in SENT_FORMATS:
            endpoint = _endpoint(chosen, to, token_file, ca, plain_http=plain_http)
            _send(telemetry, choice, chosen, endpoint, as_json=as_json)
        else:
            _write(telemetry, choice, chosen, to, as_json=as_json)


def _format(given: str | None, to: str) -> str:
    if given is None:
        endings = {
            ".csv": "csv",
            ".parquet": "parquet",
            ".jsonl": "json-lines",
            ".prom": "prometheus",
        }
        guessed = endings.get(Path(to).suffix)
        if guessed is None:
            problem = f"what should '{to}' be in? known: {', '.join(FORMATS)}"
            raise StewardError(problem, where="--format", hint="add --format")
        return guessed
    if given not in FORMATS:
        raise unknown_name("format", given, FORMATS, where="--format")
    return given


@contextmanager
def _opened(data: Path) -> Iterator[Telemetry]:
    from steward.store.telemetry import Telemetry

    folder = data / "telemetry"
    if not folder.is_dir():
        hint = "name the folder that `steward observe record --out` or `steward up` wrote"
        raise StewardError("there is no telemetry here", where=str(data), hint=hint)
    telemetry = Telemetry(folder, keep_days=None)
    try:
        yield telemetry
        print_warnings(telemetry.damage())
    finally:
        telemetry.close()


def _choice(
    telemetry: Telemetry,
    entities: list[str] | None,
    metrics: list[str] | None,
    times: tuple[str | None, str | None, str | None],
) -> ExportSelection:
    from steward.model.metrics import METRICS
    from steward.observe.export import HOUR_S, ExportSelection

    known = {each.name for each in METRICS}
    for name in metrics or ():
        if name not in known:
            raise unknown_name("metric", name, known, where="--metric")
    since, from_, until = times
    to_s = _when(until, "--until") if until else 1e12
    from_s = _when(from_, "--from") if from_ else 0.0
    if since:
        hours = telemetry.table.partitions.between(0.0, to_s)
        newest = telemetry.read(metrics=(), from_s=hours[-1] * HOUR_S, to_s=to_s) if hours else None
        end_s = float(newest["t_s"].max() or 0.0) if newest is not None else 0.0  # type: ignore[arg-type]
        from_s = max(from_s, end_s - seconds(since, where="--since"))
    return ExportSelection(
        entities=tuple(entities or ()), metrics=tuple(metrics or ()), from_s=from_s, to_s=to_s
    )


def _when(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        said = datetime.fromisoformat(text)
    except ValueError as fault:
        hint = "write 2026-11-15T14:00 (UTC unless it says otherwise), or Unix seconds"
        raise StewardError(f"'{text}' is not a time", where=where, hint=hint) from fault
    return (said if said.tzinfo else said.replace(tzinfo=UTC)).timestamp()


def _endpoint(
    format_: str, to: str, token_file: Path | None, ca: Path | None, *, plain_http: bool
) -> Endpoint:
    from steward.clients.web import Endpoint

    if to == "-":
        raise StewardError(
            f"{format_} goes to an address", where="--to", hint="write --to https://HOST:PORT/PATH"
        )
    token = token_file.read_text(encoding="utf-8").strip() if token_file else ""
    return Endpoint(url=to, token=token, ca=str(ca or ""), plain_http=plain_http)


def _send(
    telemetry: Telemetry,
    choice: ExportSelection,
    format_: str,
    endpoint: Endpoint,
    *,
    as_json: bool,
) -> None:
    from steward.observe.export import export_sent

    with _counting() as progress:
        done = export_sent(
            telemetry,
            choice,
            endpoint=endpoint,
            format_=format_,
            progress=progress,
            trouble=print_note,
        )
    if as_json:
        print_json(done)
    else:
        print_lines(
            [
                f"sent {number(done.sent)} samples to {endpoint.url}",
                f"  refused {number(done.refused)}, given up {number(done.given_up)}",
                *(["  nothing after that was tried"] if done.given_up else []),
                *([f"  last fault: {done.last_fault}"] if done.last_fault else []),
            ]
        )
    if done.refused or done.given_up:
        raise typer.Exit(1)


def _write(
    telemetry: Telemetry, choice: ExportSelection, format_: str, to: str, *, as_json: bool
) -> None:
    from steward.observe.export import export_file

    with _counting() as progress, _file(to) as out:
        samples = export_file(telemetry, choice, out=out, format_=format_, progress=progress)
    if not samples:
        print_note("nothing that was chosen is there: look at --entity, --metric and the times")
    if to == "-":
        return
    if as_json:
        print_json({"samples": samples, "file": to, "format": format_})
    else:
        print_lines([f"wrote {number(samples)} samples to {to}"])


@contextmanager
def _file(to: str) -> Iterator[IO[bytes]]:
    """Open a file that appears whole or not at all."""
    if to == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with whole_file(Path(to)) as file:
            yield file
    except OSError as fault:
        raise StewardError(
            f"cannot be written: {fault.strerror or fault}",
            where=to,
            hint="name a file with --to in a folder that is there, has room, and may be written to",
        ) from fault


@contextmanager
def _counting() -> Iterator[Callable[[int], None]]:
    """Count samples on stderr, where a person sees them."""
    if not sys.stderr.isatty():
        yield lambda _samples: None
        return
    from rich.console import Console

    total = 0
    with Console(stderr=True).status("reading") as status:

        def more(samples: int) -> None:
            nonlocal total
            total += samples
            status.update(f"{total:,} samples")

        yield more
    print_note(f"{total:,} samples read")

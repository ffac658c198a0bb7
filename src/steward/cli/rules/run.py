"""`steward rules run`: run rules over logs and telemetry."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Config, Data, Json
from steward.cli.output import print_error, print_note
from steward.cli.rules.formats import FORMS, ReportFormat, report_format, write
from steward.cli.rules.options import (
    Preq,
    RulePaths,
    Severity,
    Sources,
    Strict,
    choose,
    mode_of,
    severity_of,
    source_patterns,
    store_folder,
)
from steward.cli.rules.progress import print_hits, reading_progress
from steward.cli.words import seconds
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.inspection.feeds import Feed, LogFeed
    from steward.inspection.report import RunReport
    from steward.inspection.runner import Metrics
    from steward.inspection.selection import RuleSelection
    from steward.model.rules import Mode, RuleSeverity

__all__ = ["run"]

STDIN = "-"
_LITTLE_BYTES = 1_000_000
_PACKED = (".gz", ".zst", ".zstd")

Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATH...", help="Logs, packed or not; folders of logs; - is standard input."
    ),
]
Telemetry = Annotated[
    list[Path] | None,
    typer.Option(
        "--telemetry",
        metavar="PATH",
        help="Samples: a file (CSV, Parquet, OpenMetrics), or a folder that steward recorded.",
    ),
]
Prometheus = Annotated[
    str | None,
    typer.Option("--prometheus", metavar="URL", help="Let this Prometheus answer metric terms."),
]
PlainHttp = Annotated[
    bool, typer.Option("--plain-http", help="Allow a Prometheus on another machine without TLS.")
]
Since = Annotated[
    str, typer.Option("--since", metavar="TIME", help="How far back to ask the Prometheus.")
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on reading what is written, until Ctrl-C.")
]
NewOnly = Annotated[
    bool, typer.Option("--new-only", help="With --follow: leave out what is there already.")
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        metavar="N",
        help="Processes that read logs; 1 reads in this one. Default: one per core for large logs.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help=f"One of {', '.join(FORMS)}; guessed from the name of --out.",
        autocompletion=lambda: list(FORMS),
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write there instead of to stdout.")
]


def run(  # noqa: PLR0913 - a command's options are its parameters
    paths: Paths = None,
    *,
    rules: RulePaths = None,
    severity: Severity = None,
    telemetry: Telemetry = None,
    prometheus: Prometheus = None,
    plain_http: PlainHttp = False,
    since: Since = "1h",
    follow: Follow = False,
    new_only: NewOnly = False,
    sources: Sources = None,
    jobs: Jobs = None,
    preq: Preq = False,
    strict: Strict = False,
    format_: Format = None,
    out: Out = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Run rules over logs and telemetry, and print their findings.

    Without --rules these are our packs and what was installed. Exits 1 when something at or above
    --severity was found (without it: when anything was), 0 when not, 2 when some of the input could
    not be read.
    """
    mode, worst = mode_of(preq=preq, strict=strict), severity_of(severity)
    form = report_format(format_, out, as_json=as_json)
    patterns = source_patterns(sources)
    logs = _logs(paths, elsewhere=bool(telemetry or prometheus))
    if not (telemetry or prometheus or follow):
        _stay_plain_for_little(logs)
    metrics = _prometheus_metrics(prometheus, plain_http=plain_http)
    store = store_folder(config, data)
    if follow:
        if telemetry or prometheus:
            hint = "follow logs here; `steward up` watches telemetry"
            raise StewardError("--follow is for logs", hint=hint)
        chosen = choose(rules, store)
        report = _follow(
            chosen, logs, mode, patterns, as_json=form is ReportFormat.JSON, new=new_only
        )
    else:
        found = _find(logs, telemetry or (), patterns)
        feeds = [_prometheus_feed(since), *found.feeds] if prometheus else found.feeds
        if not feeds:
            raise _nothing_to_read(found, logs)
        report = _run(lambda: choose(rules, store), feeds, mode, metrics, jobs)
        report = replace(
            report,
            notes=(*report.notes, *found.notes),
            unreadable=(*found.unreadable, *_without_a_line(report)),
        )
    write(report, form, out, at_least=worst, telemetry=telemetry or (), followed=follow)
    raise typer.Exit(_exit_status(report, worst))


def _exit_status(report: RunReport, worst: RuleSeverity) -> int:
    """Return 2 where input was not read, also where something was found: it is not all."""
    if report.unreadable:
        return 2
    return 1 if report.at_least(worst) else 0


def _logs(paths: Sequence[Path] | None, *, elsewhere: bool) -> list[Path]:
    """Return the logs to read; stdin when none are named and it is a pipe."""
    if paths:
        return list(paths)
    if elsewhere:
        return []
    if sys.stdin is None or sys.stdin.isatty():
        hint = "name logs or folders, pipe a log in, or give --telemetry"
        raise StewardError("there is nothing to look at", hint=hint)
    return [Path(STDIN)]


def _stay_plain_for_little(logs: Sequence[Path]) -> None:
    """Compile nothing for small logs: reading them takes less time than compiling.

    Only in a process that runs just this command: others read more.
    """
    from steward.compiled import is_compiled, stay_plain

    alone = sys.argv[1:3] == ["rules", "run"]
    if alone and _is_little(logs) and not is_compiled("kernel"):
        stay_plain()


def _is_little(logs: Sequence[Path]) -> bool:
    files = [each for path in logs for each in (path.rglob("*") if path.is_dir() else (path,))]
    plain = all(each.suffix not in _PACKED and not each.is_fifo() for each in files)
    known = str(STDIN) not in map(str, logs) and all(each.exists() for each in files)
    return known and plain and sum(each.stat().st_size for each in files) <= _LITTLE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What there is to read, and what is not read."""

    feeds: Sequence[Feed]
    notes: Sequence[str]
    unreadable: Sequence[StewardError]


def _find(logs: Sequence[Path], telemetry: Sequence[Path], patterns: dict[str, str]) -> _Found:
    from steward.inspection.feeds import LogFeed, TelemetryFeed
    from steward.observe.logs import streams_of

    named = [path for path in logs if str(path) != STDIN]
    found = streams_of(named, patterns)
    feeds: list[Feed] = [LogFeed(stream=stream, sources=files) for stream, files in found.streams]
    if len(named) < len(logs):
        feeds.append(_stdin(patterns))
    feeds += [TelemetryFeed(path=path) for path in telemetry]
    notes = _left_out(found.skipped)
    if named and not found.streams:
        notes.append(f"no log was found in {', '.join(str(path) for path in named)}")
    return _Found(feeds=feeds, notes=notes, unreadable=found.unreadable)


def _nothing_to_read(found: _Found, logs: Sequence[Path]) -> StewardError:
    """Return the error to raise, after printing those before it."""
    *others, last = found.unreadable or [
        StewardError(
            "there is no log to look at",
            where=", ".join(map(str, logs)),
            hint="; ".join(found.notes) or "name a log, or a folder that has logs",
        )
    ]
    for each in others:
        print_error(each, as_json=False)
    return last


def _without_a_line(report: RunReport) -> list[StewardError]:
    """Return an error for each stream of which nothing could be read, such as damaged archives."""
    hint = "check the file: nothing of it was searched"
    notes = [note for each in report.streams if each.lines == 0 for note in each.notes]
    parts = [note.partition(": ") for note in notes]  # the file, which may be one of several
    return [StewardError(problem, where=where, hint=hint) for where, _, problem in parts]


def _left_out(skipped: Mapping[str, str]) -> list[str]:
    """Print which files were not read, once for each reason."""
    by_reason: dict[str, list[str]] = {}
    for path, why in skipped.items():
        by_reason.setdefault(why, []).append(path)
    notes = []
    for why, paths in by_reason.items():
        more = f" and {len(paths) - 3:,} more" if len(paths) > 3 else ""
        notes.append(f"not read, since {why}: {', '.join(paths[:3])}{more}")
    return notes


def _stdin(patterns: dict[str, str]) -> LogFeed:
    from steward.inspection.feeds import LogFeed
    from steward.model.rules import Stream

    stream = Stream(name="stdin", source=patterns.get(STDIN, ""))
    return LogFeed(stream=stream, sources=(sys.stdin.buffer,))


def _prometheus_metrics(prometheus: str | None, *, plain_http: bool) -> Metrics | None:
    if prometheus is None:
        return None
    from steward.clients.prometheus import PrometheusServer
    from steward.clients.web import Endpoint
    from steward.inspection.series.prometheus_terms import prometheus_compiler

    server = PrometheusServer(Endpoint(url=prometheus, plain_http=plain_http))
    server.version()  # raises at once on a bad value
    return prometheus_compiler(server)


def _prometheus_feed(since: str) -> Feed:
    from steward.inspection.feeds import PrometheusFeed

    now_s = time.time()
    return PrometheusFeed(from_s=now_s - seconds(since, where="--since"), to_s=now_s)


def _run(
    load: Callable[[], RuleSelection],
    feeds: Sequence[Feed],
    mode: Mode,
    metrics: Metrics | None,
    jobs: int | None,
) -> RunReport:
    from steward.decide.rules.metric import compile_metric
    from steward.inspection.feeds import reader_for
    from steward.inspection.runner import run_rules

    with reader_for(feeds, jobs=jobs) as reader:
        chosen = load()  # while other processes start
        with reading_progress() as listeners:
            return run_rules(
                chosen.rules,
                feeds,
                mode=mode,
                listeners=listeners,
                metrics=metrics or compile_metric,
                reader=reader,
            )


def _follow(
    chosen: RuleSelection,
    logs: Sequence[Path],
    mode: Mode,
    patterns: dict[str, str],
    *,
    as_json: bool,
    new: bool,
) -> RunReport:
    from functools import partial

    from steward.inspection.runner import follow_rules
    from steward.model.rules import Stream
    from steward.observe.logs import Following, Reading, follow, follow_pipe, stream_of

    following = Following(
        reading=Reading(mode=mode),
        from_start=not new,
        stream_of=partial(stream_of, sources=patterns),
    )
    piped = [path for path in logs if str(path) == STDIN]
    if piped and len(logs) > 1:
        raise StewardError("a pipe and files cannot be followed together", hint="follow one")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: following.stop.set())
    for path in (path for path in logs if not piped and not path.exists()):
        print_note(f"there is no {path} yet: waiting for it")
    print_note(f"following with {len(chosen.rules)} rules; Ctrl-C ends it")
    stream = Stream(name="stdin", source=patterns.get(STDIN, ""))
    blocks = follow_pipe(sys.stdin.buffer, stream, following) if piped else follow(logs, following)
    listeners = print_hits(chosen.rules, as_json=as_json)
    return follow_rules(chosen.rules, blocks, mode=mode, following=following, listeners=listeners)

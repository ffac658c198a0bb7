"""`steward serve replay`: a recorded trace at a running server, in real time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_note, print_table, print_warnings
from steward.cli.serve.plan import read_trace
from steward.cli.serve.simulate import (
    BatchS,
    BatchShare,
    BurstCv,
    ClassName,
    EstimatorName,
    ItlS,
    KvTokens,
    PolicyName,
    Profiles,
    Rate,
    Requests,
    Seed,
    Traces,
    TtftS,
    policy_choice,
)
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.clients.request_replay import Replayed, ReplayTarget
    from steward.model.serving.instance_type import InstanceType
    from steward.model.serving.requests import RequestTrace
    from steward.sim.serving.measured import Times
    from steward.sim.serving.plan import PolicyChoice

__all__ = ["replay"]

LATE_S = 0.05  # this program's own lateness at p99 above which figures are doubtful

Url = Annotated[
    str, typer.Option("--url", metavar="URL", help="A gateway or server: http://HOST:PORT.")
]
Speed = Annotated[float, typer.Option("--speed", help="So many times as fast as recorded.")]
Model = Annotated[
    str, typer.Option("--model", metavar="NAME", help="The model [the first that is served].")
]
Completions = Annotated[
    bool, typer.Option("--completions", help="Use /v1/completions, not chat completions.")
]
OwnEnd = Annotated[
    bool,
    typer.Option(
        "--own-end",
        help="Let answers end by themselves: no `ignore_eos`, which some servers refuse.",
    ),
]
Connections = Annotated[
    int, typer.Option("--connections", min=1, max=60_000, help="Requests in flight at most.")
]
TimeoutS = Annotated[
    float | None,
    typer.Option(
        "--timeout-s", min=0.001, help="Give up a request after so long [600, or the promise]."
    ),
]
ApiKeyEnv = Annotated[
    str,
    typer.Option("--api-key-env", metavar="NAME", help="Environment variable with the API key."),
]
PlainHttp = Annotated[
    bool, typer.Option("--plain-http", help="Send the key over plain HTTP to another machine.")
]
Instances = Annotated[
    int, typer.Option("--instances", min=1, max=4096, help="With --profile: servers behind URL.")
]


def replay(  # noqa: PLR0913 - a command's options are its parameters
    traces: Traces,
    *,
    url: Url,
    speed: Speed = 1.0,
    model: Model = "",
    completions: Completions = False,
    own_end: OwnEnd = False,
    connections: Connections = 1024,
    timeout_s: TimeoutS = None,
    api_key_env: ApiKeyEnv = "",
    plain_http: PlainHttp = False,
    profile: Profiles = None,
    instances: Instances = 1,
    policy: PolicyName = "edf",
    estimator: EstimatorName = "none",
    kv_tokens: KvTokens = 524_288,
    requests: Requests = None,
    rate: Rate = None,
    burst_cv: BurstCv = None,
    class_name: ClassName = "",
    batch_share: BatchShare = 0.0,
    ttft_s: TtftS = 10.0,
    itl_s: ItlS = 0.2,
    batch_s: BatchS = 3600.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Send recorded requests to a running server when they are due, and measure its answers.

    Prompts are made-up words of about the recorded length, equal where the trace says that prompts
    are; answers are asked for at the recorded length. The class goes in the header
    x-steward-class. Times count from when a request was due. Ctrl-C ends it with what was measured.

    With --profile, the simulator serves the same requests for comparison. Exit status 1: a request
    failed.
    """
    from steward.clients.request_replay import ReplayTarget
    from steward.sim.serving.measured import measured_times, replay_record
    from steward.sim.serving.resample import grown

    if not 0 < speed < float("inf"):
        raise StewardError(f"{speed:g} is no speed", where="--speed", hint="1 is as recorded")
    trace = read_trace(
        traces,
        {"limit": requests, "rate": rate, "burst_cv": burst_cv, "batch_share": batch_share}
        | {"deadline_class": class_name, "seed": seed},
        (ttft_s, itl_s, batch_s),
    )
    trace = grown(trace, speed)
    target = ReplayTarget(
        url=url,
        model=model,
        api_key=_api_key(api_key_env),
        chat=not completions,
        ignore_eos=not own_end,
        connections=connections,
        timeout_s=timeout_s or _patience_s(trace),
        plain_http=plain_http,
    )
    kinds, policies = _kinds(profile, kv_tokens), policy_choice(policy, estimator)
    found = _sent(trace, target)
    measured = measured_times(trace, found)
    record = {"url": target.base, "speed": speed, **replay_record(trace, found, measured)}
    if kinds:
        record |= _predicted(measured, kinds, instances, policies) | {"policy": policy}
    print_warnings(_doubts(record))
    if as_json:
        print_json(record)
    else:
        _print(record)
    if record["errors"]:
        raise typer.Exit(1)


def _api_key(variable: str) -> str:
    if variable and not os.environ.get(variable):
        hint = f"set it: {variable}=… steward serve replay"
        raise StewardError("the variable is not set", where=f"--api-key-env {variable}", hint=hint)
    return os.environ[variable] if variable else ""


def _patience_s(trace: RequestTrace) -> float:
    """Return how long a request may take: longer than any promise."""
    promised = [each.completion_s or each.ttft_s or 0.0 for each in trace.classes]
    return max(600.0, 1.5 * max(promised))


def _kinds(profile: Any, kv_tokens: int) -> tuple[InstanceType, ...]:  # noqa: ANN401 - paths
    from steward.learn.step_profiles import instance_types
    from steward.model.serving.instance_type import H200_LLAMA_8B

    return instance_types(profile, replace(H200_LLAMA_8B, kv_tokens=kv_tokens)) if profile else ()


def _sent(trace: RequestTrace, target: ReplayTarget) -> Replayed:
    from steward.clients.request_replay import served_models

    models = (target.model,) if target.model else served_models(target)
    if not models:
        hint = "name one: --model NAME"
        raise StewardError("lists no models", where=f"{target.base}/v1/models", hint=hint)
    span_s = float(trace.arrival_s[-1] - trace.arrival_s[0])
    print_note(
        f"sending {len(trace):,} requests in {span_s:,.0f} s to {target.base}, model {models[0]}"
    )
    return asyncio.run(_replay(trace, target, models))


async def _replay(trace: RequestTrace, target: ReplayTarget, models: tuple[str, ...]) -> Replayed:
    from steward.clients.request_replay import replay as send

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError, RuntimeError):  # not in the main thread: Ctrl-C ends it all
        loop.add_signal_handler(signal.SIGINT, stop.set)
    try:
        with _progress(len(trace)) as progress:
            return await send(trace, target, models=models, stop=stop, progress=progress)
    finally:
        with suppress(NotImplementedError, RuntimeError):
            loop.remove_signal_handler(signal.SIGINT)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int, int, int], None]]:
    if not sys.stderr.isatty():
        yield lambda _sent, _open, _failed: None
        return
    from rich.console import Console

    with Console(stderr=True).status("sending") as shown:
        yield lambda sent, open_, failed: shown.update(
            f"{sent:,} of {total:,} sent, {open_:,} in flight, {failed:,} failed"
        )


def _predicted(
    measured: Times, kinds: tuple[InstanceType, ...], instances: int, policies: PolicyChoice
) -> dict[str, Any]:
    from steward.sim.serving.measured import compared, predicted_times

    if not len(measured.trace):
        return {}
    predicted = predicted_times(measured.trace, kinds, instances, policies)
    return {
        "predicted": {
            "type": kinds[0].name,
            "instances": instances,
            "by_class": predicted.by_class(),
        },
        "measured_over_predicted": compared(measured, predicted),
    }


def _doubts(record: dict[str, Any]) -> Iterator[str]:
    late_s = record["client_late_s"]["p99"]
    if late_s is not None and late_s > LATE_S:
        yield (
            f"this program itself sent up to {late_s:.3g} s late (p99): "
            + (
                f"{record['client_held']:,} requests waited for one of --connections"
                if record["client_held"]
                else "the machine is too busy for these times to be the server's"
            )
        )
    for what, name in (("prompt", "prompt_token_ratio"), ("output", "output_token_ratio")):
        ratio = record[name]
        if ratio is not None and not 0.8 <= ratio <= 1.25:
            yield f"{what}s had {ratio:.2f} times the recorded tokens (median)"
    for kind, detail in record["error_examples"].items():
        yield f"{record['errors'][kind]:,} requests failed, {kind}: {detail}"


# -- as text -----------------------------------------------------------------------------------


def _print(record: dict[str, Any]) -> None:
    broken_off = ", broken off" if record["interrupted"] else ""
    sent = f"{record['sent']:,} of {record['requests']:,} requests sent to {record['url']}"
    failed = f"{record['settled']:,} settled, {sum(record['errors'].values()):,} of them failed"
    kept = f"{record['goodput_per_s'] or 0:.3g} requests/s with all promises kept"
    late = {name: _seconds(record["client_late_s"][name]) for name in ("p50", "max")}
    print_lines(
        [
            f"{record['trace']}: {sent}{broken_off}",
            f"  {failed}; {record['tokens_per_s'] or 0:,.0f} output tokens/s, {kept}",
            f"  sent {late['p50']} late (median), at most {late['max']}",
            "",
        ]
    )
    columns = ("class", "requests", "met", "TTFT p50", "p99", "ITL p50", "p99", "E2E p50", "p99")
    rows = [(name, *_cells(row)) for name, row in record["by_class"].items()]
    predicted = record.get("predicted", {}).get("by_class", {})
    rows += [(f"{name}, simulated", *_cells(row)) for name, row in predicted.items()]
    print_table(columns, rows, empty="nothing was measured")


def _cells(row: dict[str, Any]) -> list[str]:
    times = [row[what][level] for what in ("ttft_s", "itl_s", "e2e_s") for level in ("p50", "p99")]
    return [f"{row['requests']:,}", f"{row['attainment']:.1%}", *map(_seconds, times)]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g} s"

"""`steward serve stand-in`: a server without a model that speaks the OpenAI API."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from steward.model.serving.instance_type import InstanceType
    from steward.service.stand_in import FaultShares, StandInSettings

    Announce = Callable[[str, StandInSettings], None]

__all__ = ["stand_in"]


def stand_in(  # noqa: PLR0913 - a command's options
    *,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="0 takes any that is free.")
    ] = 8000,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="What it serves.")] = "",
    profile: Annotated[
        Path | None,
        typer.Option(
            "--profile",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Measured step times (CSV: model,kind,batch,tokens,context,kv_bytes,s); without "
            "it those of an 8B model on one H200.",
        ),
    ] = None,
    step_ms: Annotated[
        float | None,
        typer.Option("--step-ms", min=0.01, help="Let every step take so long, whatever it does."),
    ] = None,
    speed: Annotated[
        float, typer.Option("--speed", min=0.001, max=1e6, help="Times real time.")
    ] = 1.0,
    kv_tokens: Annotated[
        int, typer.Option("--kv-tokens", min=16, help="Tokens that its KV cache holds.")
    ] = 524_288,
    max_sequences: Annotated[
        int, typer.Option("--max-sequences", min=1, max=8192, help="Requests it runs at once.")
    ] = 256,
    max_batched_tokens: Annotated[
        int, typer.Option("--max-batched-tokens", min=2, help="Tokens of one step.")
    ] = 8192,
    max_tokens: Annotated[
        int, typer.Option("--max-model-len", min=16, help="Tokens of a prompt and its answer.")
    ] = 32_768,
    mean_output: Annotated[
        int, typer.Option("--mean-output", min=1, help="Tokens of answers, drawn by seed.")
    ] = 256,
    exact: Annotated[
        bool, typer.Option("--exact", help="Answers have as many tokens as requests allow.")
    ] = False,
    start_s: Annotated[
        float, typer.Option("--start-s", min=0, help="Load the model for so long, at --speed.")
    ] = 0.0,
    wake_s: Annotated[
        float, typer.Option("--wake-s", min=0, help="How long it takes to wake up, at --speed.")
    ] = 2.0,
    adapter: Annotated[
        list[str] | None, typer.Option("--lora", metavar="NAME", help="An adapter it has loaded.")
    ] = None,
    api_key: Annotated[
        str, typer.Option("--api-key", help="What clients must show.", envvar="STAND_IN_API_KEY")
    ] = "",
    metrics: Annotated[
        str, typer.Option("--metrics", help="vllm, vllm-old, sglang or none.")
    ] = "vllm",
    fault: Annotated[
        list[str] | None,
        typer.Option(
            "--fault",
            metavar="KIND=SHARE",
            help="error, garbage, reset, cut or stall; 0.1 is 10 %.",
        ),
    ] = None,
    fail_after: Annotated[
        int | None, typer.Option("--fail-after", min=0, help="Die on the request after so many.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of lengths and faults.")] = 0,
    as_json: Json = False,
) -> None:
    """Serve the OpenAI API and vLLM's metrics without a model, in a real server's time.

    For tests and demonstrations: answers are words without sense. It prints its address when it
    listens, and ends with Ctrl-C.
    """
    from dataclasses import replace

    from steward.errors import unknown_name
    from steward.model.serving.instance_type import H200_LLAMA_8B, StepTimes
    from steward.service.stand_in import StandInSettings
    from steward.service.stand_in.settings import METRIC_DIALECTS

    if metrics not in METRIC_DIALECTS:
        raise unknown_name("dialect of metrics", metrics, METRIC_DIALECTS)
    kind = replace(
        H200_LLAMA_8B,
        kv_tokens=kv_tokens,
        max_sequences=max_sequences,
        max_batched_tokens=max_batched_tokens,
        swap_s=wake_s,
    )
    if profile is not None:
        kind = _profiled(profile, kind, model)
    if step_ms is not None:
        kind = replace(kind, step_times=StepTimes(fixed_s=step_ms / 1000))
    settings = StandInSettings(
        kind=replace(kind, model=model or kind.model),
        speed=speed,
        seed=seed,
        mean_output=mean_output,
        exact=exact,
        most_tokens=min(max_tokens, kv_tokens),
        adapters=tuple(adapter or ()),
        api_key=api_key,
        metrics=metrics,
        faults=_faults(fault or []),
        fail_after=fail_after,
    )
    announce = _print_json if as_json else _print
    _serve(settings, (host, port), announce=announce, start_s=start_s / speed)


def _profiled(file: Path, like: InstanceType, model: str) -> InstanceType:
    """Return the type that a profile tells of `model`, or of the first in it."""
    from steward.learn.step_profiles import instance_types

    found = instance_types([file], like)
    return next((each for each in found if each.model == model), found[0])


def _faults(given: list[str]) -> FaultShares:
    from steward.errors import StewardError, unknown_name
    from steward.service.stand_in import FaultShares

    shares = {}
    known = [each.name for each in fields(FaultShares)]
    for each in given:
        kind, _, share = each.partition("=")
        if kind not in known:
            raise unknown_name("fault", kind, known, where="--fault")
        try:
            shares[kind] = float(share)
        except ValueError:
            problem = f"the share of {kind} is '{share}', not a number from 0 to 1"
            hint = "write it as in --fault reset=0.1"
            raise StewardError(problem, where="--fault", hint=hint) from None
    return FaultShares(**shares)


def _print(url: str, settings: StandInSettings) -> None:
    times = f"{settings.speed:g} times real time"
    print_lines([f"stand-in: {settings.kind.model} at {url}/v1, {times}"])


def _print_json(url: str, settings: StandInSettings) -> None:
    print_json({"url": url, "model": settings.kind.model})


def _serve(
    settings: StandInSettings, place: tuple[str, int], *, announce: Announce, start_s: float
) -> None:
    import uvloop

    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_until_ended(settings, place, announce=announce, start_s=start_s))


async def _until_ended(
    settings: StandInSettings, place: tuple[str, int], *, announce: Announce, start_s: float
) -> None:
    from steward.service.stand_in import stand_in as serve

    ended = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    if start_s > 0:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), start_s)
    if ended.is_set():
        return
    async with serve(settings, host=place[0], port=place[1]) as running:
        announce(running.url, settings)
        sys.stdout.flush()
        await ended.wait()

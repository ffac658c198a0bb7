"""`steward serve plan`: how many of which GPU, at what cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_table, print_warnings, waiting
from steward.cli.serve.simulate import (
    BatchedTokens,
    BatchS,
    BatchShare,
    BurstCv,
    ClassName,
    EstimatorName,
    Gpus,
    ItlS,
    KvTokens,
    PolicyName,
    Profiles,
    Rate,
    Requests,
    Seed,
    Sequences,
    Traces,
    TtftS,
    policy_choice,
)

if TYPE_CHECKING:
    from steward.model.serving.requests import RequestTrace
    from steward.sim.serving.plan import Estimate, PlanOptions, Requirement
    from steward.sim.serving.prices import GpuPrice

__all__ = ["plan", "read_trace"]

Target = Annotated[
    float, typer.Option("--target", help="Share of each class that must get its promises.")
]
Days = Annotated[
    int, typer.Option("--days", min=2, max=1000, help="Resampled days that a count is tried on.")
]
Confidence = Annotated[
    float, typer.Option("--confidence", help="Of the interval around the mean over those days.")
]
Most = Annotated[int, typer.Option("--most", min=1, max=4096, help="Instances tried at most.")]
Scale = Annotated[
    float, typer.Option("--scale", help="Growth: requests arrive so many times as fast.")
]
BlockS = Annotated[
    float | None,
    typer.Option(
        "--block-s", min=0.001, help="Length of the blocks that days are made of [a twelfth]."
    ),
]
BacklogShare = Annotated[
    float,
    typer.Option(
        "--backlog-share", min=0, max=1, help="Requests that may wait when the last one arrives."
    ),
]
MtbfS = Annotated[
    float | None,
    typer.Option("--mtbf-s", min=1, help="Instances fail so far apart on average [never]."),
]
DownS = Annotated[
    float, typer.Option("--down-s", min=0, help="From a failure until the restart begins.")
]
StartS = Annotated[float, typer.Option("--start-s", min=0, help="From a start until it serves.")]
Prices = Annotated[
    list[str] | None,
    typer.Option(
        "--gpu-price",
        metavar="[TYPE=]PRICE",
        help="US dollars per GPU and hour, or an accelerator such as H200: the median of the "
        "on-demand prices in the catalogue. With TYPE= for one instance type.",
    ),
]
Cloud = Annotated[
    str, typer.Option("--cloud", metavar="NAME", help="Only this cloud's prices [all].")
]


def plan(  # noqa: PLR0913 - a command's options are its parameters
    traces: Traces,
    *,
    profile: Profiles = None,
    gpu_price: Prices = None,
    cloud: Cloud = "",
    target: Target = 0.99,
    policy: PolicyName = "edf",
    estimator: EstimatorName = "none",
    scale: Scale = 1.0,
    days: Days = 8,
    confidence: Confidence = 0.95,
    most: Most = 256,
    block_s: BlockS = None,
    backlog_share: BacklogShare = 0.05,
    mtbf_s: MtbfS = None,
    down_s: DownS = 0.0,
    start_s: StartS = 60.0,
    gpus: Gpus = 1,
    kv_tokens: KvTokens = 524_288,
    max_sequences: Sequences = 256,
    max_batched_tokens: BatchedTokens = 8192,
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
    """Find how many instances of each type meet the deadlines, and what they cost.

    Each model of each --profile is an instance type; without one it is an 8B model on one H200. A
    count suffices if every class reaches --target on the trace as recorded and, by the lower end of
    an interval, on --days resampled from it, without a growing backlog.

    The same seed gives the same answer. Exit status 1: no count of any type suffices.
    """
    from steward.learn.step_profiles import instance_types
    from steward.model.serving.instance_type import H200_LLAMA_8B
    from steward.sim.serving.plan import PlanOptions
    from steward.sim.serving.plan import plan as planned
    from steward.sim.serving.simulate import warm_up

    asked = PlanOptions(
        target=target,
        days=days,
        confidence=confidence,
        most=most,
        scale=scale,
        block_s=block_s,
        backlog_share=backlog_share,
        mtbf_s=mtbf_s,
        down_s=down_s,
        seed=seed,
    )
    asked.check()
    policies = policy_choice(policy, estimator)
    trace = read_trace(
        traces,
        {"limit": requests, "rate": rate, "burst_cv": burst_cv, "batch_share": batch_share}
        | {"deadline_class": class_name, "seed": seed},
        (ttft_s, itl_s, batch_s),
    )
    like = replace(
        H200_LLAMA_8B,
        gpus=gpus,
        kv_tokens=kv_tokens,
        max_sequences=max_sequences,
        max_batched_tokens=max_batched_tokens,
        start_s=start_s,
    )
    kinds = instance_types(profile, like) if profile else (like,)
    prices = _prices(gpu_price or [], [each.name for each in kinds], cloud)
    with _progress() as progress:
        warm_up()
        found = planned(trace, kinds, policies, asked, progress=progress)
    if as_json:
        print_json(_record(trace, found, asked, prices, policy))
    else:
        _print(trace, found, asked, prices, policy)
    if all(each.instances is None for each in found):
        raise typer.Exit(1)


def read_trace(
    names: list[str], options: dict[str, Any], promised: tuple[float, float, float]
) -> RequestTrace:
    """Read and mix traces whose classes promise TTFT, ITL and E2E; show what was left out."""
    from steward.errors import unknown_name
    from steward.model.serving.requests import BATCH, INTERACTIVE, merged
    from steward.sim.serving.traces import RequestOptions, read_requests

    ttft_s, itl_s, batch_s = promised
    classes = (
        replace(INTERACTIVE, ttft_s=ttft_s, itl_s=itl_s),
        replace(BATCH, completion_s=batch_s),
    )
    known = [each.name for each in classes]
    if options["deadline_class"] and options["deadline_class"] not in known:
        raise unknown_name("class", options["deadline_class"], known)
    asked = RequestOptions(classes=classes, **options)
    with waiting("reading requests"):
        trace = merged([read_requests(each, asked) for each in names])
    print_warnings(f"{each.reason}: {each.rows}" for each in trace.faults)
    return trace


def _prices(given: Sequence[str], names: list[str], cloud: str) -> dict[str, GpuPrice]:
    """Return the price of each type that has one; a price without a type is that of all others."""
    from steward.errors import unknown_name
    from steward.sim.serving.prices import gpu_price

    found: dict[str, GpuPrice] = {}
    for text in sorted(given, key=lambda each: "=" in each):
        name, _, price = text.rpartition("=")
        if name and name not in names:
            raise unknown_name("instance type", name, names, where=f"--gpu-price {text}")
        figure = gpu_price(price, cloud=cloud)
        found |= dict.fromkeys([name] if name else names, figure)
    return found


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show which count is tried, on a terminal."""
    import sys

    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console

    with Console(stderr=True).status("planning") as shown:
        yield shown.update


# -- as JSON -----------------------------------------------------------------------------------


def _record(
    trace: RequestTrace,
    found: Sequence[Requirement],
    asked: PlanOptions,
    prices: dict[str, GpuPrice],
    policy: str,
) -> dict[str, Any]:
    types = [_type_record(each, prices.get(each.type.name)) for each in found]
    return {
        "trace": trace.name,
        "requests": len(trace),
        "synthetic": trace.synthetic,
        "left_out": [{"reason": each.reason, "rows": each.rows} for each in trace.faults],
        "policy": policy,
        "options": asked,
        "classes": trace.classes,
        "types": types,
        "cheapest": _cheapest(found, prices),
    }


def _type_record(each: Requirement, price: GpuPrice | None) -> dict[str, Any]:
    return {
        "type": each.type.name,
        "model": each.type.model,
        "requests": each.requests,
        "span_s": each.span_s,
        "instances": each.instances,
        "instances_low": each.low,
        "instances_high": each.high,
        "gpus": each.gpus,
        "attainment": each.attainment,
        "ceiling": each.ceiling,
        "goodput_per_s": each.goodput_per_s,
        "good_tokens_per_s": each.good_tokens_per_s,
        "in_flight": each.in_flight,
        "growth": each.growth,
        "growth_capped": each.growth_capped,
        "load_share": each.load_share,
        "monotone": each.monotone,
        "reasons": each.reasons,
        "simulations": each.simulations,
        "price": price,
        "cost": _cost(each, price),
    }


def _cost(each: Requirement, price: GpuPrice | None) -> dict[str, float] | None:
    """Return what the count costs; the range is that of counts and offers together."""
    if price is None or each.instances is None or each.low is None or each.high is None:
        return None
    gpus, per_hour = each.type.gpus, each.instances * each.type.gpus * price.mid
    output, both = each.usd_per_million(per_hour)
    return {
        "usd_per_hour": per_hour,
        "usd_per_hour_low": each.low * gpus * price.low,
        "usd_per_hour_high": each.high * gpus * price.high,
        "usd_per_million_output_tokens": output,
        "usd_per_million_tokens": both,
    }


def _cheapest(found: Sequence[Requirement], prices: dict[str, GpuPrice]) -> str | None:
    """Return the type that costs least, or needs the fewest GPUs where no price is known."""
    able = [each for each in found if each.instances is not None]
    priced = all(each.type.name in prices for each in able)
    if not able or len({each.requests for each in able}) > 1:
        return None  # types that serve different requests are not alternatives

    def cost(each: Requirement) -> float:
        return (each.gpus or 0) * (prices[each.type.name].mid if priced else 1.0)

    return min(able, key=cost).type.name


# -- as text -----------------------------------------------------------------------------------


def _print(
    trace: RequestTrace,
    found: Sequence[Requirement],
    asked: PlanOptions,
    prices: dict[str, GpuPrice],
    policy: str,
) -> None:
    from steward.cli.words import number

    grown = f", {asked.scale:g} times as fast" if asked.scale != 1 else ""
    wanted = f"{asked.target:.4g} of each class under {policy}"
    print_lines(
        [
            f"{trace.name}: {number(len(trace))} requests{grown}; {wanted}",
            *(f"  {each.name}: {_promises(each)}" for each in trace.classes),
            "",
        ]
    )
    columns = ("type", "instances", "days need", "GPUs", "met", "load", "USD/h", "USD/1M output")
    print_table(columns, [_row(each, prices) for each in found], empty="there are no types")
    lines = [line for each in found for line in _notes(each, prices)]
    best = _cheapest(found, prices)
    if best and len(found) > 1:
        lines.append(f"{best} {'costs least' if prices else 'needs the fewest GPUs'}")
    print_lines(["", *lines] if lines else [])


def _promises(each: Any) -> str:  # noqa: ANN401 - a DeadlineClass
    parts = (
        ("first token", each.ttft_s),
        ("between tokens", each.itl_s),
        ("last token", each.completion_s),
    )
    return ", ".join(f"{name} {limit:g} s" for name, limit in parts if limit is not None)


def _row(each: Requirement, prices: dict[str, GpuPrice]) -> tuple[str, ...]:
    if each.instances is None:
        return (each.type.name, "none suffices", *["-"] * 6)
    cost = _cost(each, prices.get(each.type.name))
    met = ", ".join(f"{name} {_share(share)}" for name, share in each.attainment.items())
    spread = f"{each.low}" if each.low == each.high else f"{each.low} to {each.high}"
    return (
        each.type.name,
        f"{each.instances}",
        spread,
        f"{each.gpus}",
        met,
        "-" if each.load_share is None else f"{each.load_share:.0%}",
        "-" if cost is None else f"{cost['usd_per_hour']:.2f}",
        "-" if cost is None else f"{cost['usd_per_million_output_tokens']:.3f}",
    )


def _share(each: Estimate) -> str:
    """Write a mean with its interval."""
    return f"{each.mean:.2%} ({each.low:.2%} to {each.high:.2%})"


def _notes(each: Requirement, prices: dict[str, GpuPrice]) -> Iterator[str]:
    yield from (f"{each.type.name}: {reason}" for reason in each.reasons)
    if each.instances is None:
        return
    more = "at least " if each.growth_capped else ""
    yield (
        f"{each.type.name}: bears {more}{each.growth or 1:g} times these arrivals; "
        f"{each.goodput_per_s or 0:.3g} requests and {each.good_tokens_per_s or 0:,.0f} output "
        f"tokens per second got what they were promised; {each.in_flight or 0:.3g} in flight on "
        "each instance"
    )
    if not each.monotone:
        yield f"  a count near {each.instances} did worse than a smaller one: take the larger"
    price = prices.get(each.type.name)
    cost = _cost(each, price)
    if price is not None and cost is not None:
        spread = f"{cost['usd_per_hour_low']:.2f} to {cost['usd_per_hour_high']:.2f}"
        yield f"  {spread} USD/h over counts and offers; price: {price.origin}"

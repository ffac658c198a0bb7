"""`steward serve simulate`: requests on simulated model servers; `steward serve policies`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_table, print_warnings, waiting

if TYPE_CHECKING:
    from steward.model.serving.instance_type import InstanceType
    from steward.model.serving.requests import RequestTrace
    from steward.sim.serving.plan import PolicyChoice
    from steward.sim.serving.result import ServingRun
    from steward.sim.serving.simulate import Fleet
    from steward.sim.serving.traces import RequestOptions

__all__ = ["EstimatorName", "policies", "policy_choice", "simulate"]

Traces = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE…", help="Files, folders or names of requests; several are mixed."
    ),
]
PolicyName = Annotated[
    str,
    typer.Option("--policy", metavar="NAME", help="`steward serve policies` lists them."),
]
EstimatorName = Annotated[
    str,
    typer.Option("--estimator", metavar="NAME", help="What predicts waits for the policy."),
]
Instances = Annotated[
    int, typer.Option("--instances", min=1, max=4096, help="How many, shared among the models.")
]
ScalerName = Annotated[
    str,
    typer.Option(
        "--scaler",
        metavar="NAME",
        help="Starts and drains instances; `steward serve policies` lists them.",
    ),
]
MaxInstances = Annotated[
    int | None,
    typer.Option(
        "--max-instances",
        min=1,
        max=4096,
        help="How many a scaler may have at once; without it, four times --instances.",
    ),
]
Profiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Measured step times (CSV: model,kind,batch,tokens,context,kv_bytes,s); without it "
        "those of an 8B model on one H200.",
    ),
]
Gpus = Annotated[int, typer.Option("--gpus", min=1, max=1024, help="GPUs of one instance.")]
KvTokens = Annotated[
    int, typer.Option("--kv-tokens", min=16, help="Tokens that an instance's KV cache holds.")
]
Sequences = Annotated[
    int, typer.Option("--max-sequences", min=1, max=65536, help="Requests that one runs at once.")
]
BatchedTokens = Annotated[
    int,
    typer.Option("--max-batched-tokens", min=2, help="Tokens of one step: prompts are cut to it."),
]
Requests = Annotated[
    int | None, typer.Option("--requests", min=1, help="Only so many, from the first on.")
]
Rate = Annotated[
    float | None,
    typer.Option("--rate", min=1e-6, help="Requests a second on average; without it as recorded."),
]
BurstCv = Annotated[
    float | None,
    typer.Option(
        "--burst-cv",
        min=0.01,
        max=100,
        help="Draw arrivals anew; 1 is Poisson, more is burstier. Without it as recorded.",
    ),
]
ClassName = Annotated[
    str,
    typer.Option(
        "--class",
        metavar="NAME",
        help="interactive or batch, for all requests; without it the column `class`, or batch "
        "for files named after arXiv, summaries or batches, else interactive.",
    ),
]
BatchShare = Annotated[
    float,
    typer.Option("--batch-share", min=0, max=1, help="So many of them, drawn by seed, are batch."),
]
TtftS = Annotated[
    float, typer.Option("--ttft-s", min=0, help="Interactive: until the first token.")
]
ItlS = Annotated[
    float, typer.Option("--itl-s", min=0, help="Interactive: between tokens, on average.")
]
BatchS = Annotated[float, typer.Option("--batch-s", min=0, help="Batch: until the last token.")]
MtbfS = Annotated[
    float | None,
    typer.Option(
        "--mtbf-s", min=1, help="Instances fail so far apart on average; without it never."
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of everything that is drawn.")]


def simulate(  # noqa: PLR0913 - a command's options are its parameters
    traces: Traces,
    *,
    policy: PolicyName = "fcfs",
    estimator: EstimatorName = "none",
    instances: Instances = 1,
    scaler: ScalerName = "fixed",
    max_instances: MaxInstances = None,
    profile: Profiles = None,
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
    mtbf_s: MtbfS = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Serve recorded requests on simulated model servers, and judge by their deadlines.

    TRACE is a file or folder, or a name in the data folder: CSV with t_s, input_tokens,
    output_tokens (and client_id, prefix_block_ids, class, model), lengths without times, the own
    formats of Azure, BurstGPT and Mooncake, or a folder of clients as ServeGen describes them.

    The same seed gives the same answer, but for cpu_s and requests_per_cpu_s. Rows that cannot be
    used are counted and shown; requests longer than the KV cache are refused and count as missed.
    """
    from steward.decide.serving import SCALERS
    from steward.errors import unknown_name
    from steward.model.serving.instance_type import H200_LLAMA_8B
    from steward.model.serving.requests import BATCH, INTERACTIVE
    from steward.registry import resolve
    from steward.sim.serving.simulate import simulate as serve
    from steward.sim.serving.simulate import warm_up
    from steward.sim.serving.traces import RequestOptions

    choice = policy_choice(policy, estimator)
    scales = None if scaler == "fixed" else resolve("scaler", scaler, SCALERS)()
    places = _places(instances, max_instances, scales=scales is not None)
    classes = (
        replace(INTERACTIVE, ttft_s=ttft_s, itl_s=itl_s),
        replace(BATCH, completion_s=batch_s),
    )
    names = [each.name for each in classes]
    if class_name and class_name not in names:
        raise unknown_name("class", class_name, names)
    like = replace(
        H200_LLAMA_8B,
        gpus=gpus,
        kv_tokens=kv_tokens,
        max_sequences=max_sequences,
        max_batched_tokens=max_batched_tokens,
    )
    asked = RequestOptions(
        limit=requests,
        rate=rate,
        burst_cv=burst_cv,
        deadline_class=class_name,
        batch_share=batch_share,
        classes=classes,
        seed=seed,
    )
    trace = _read(traces, asked)
    fleet = replace(_fleet(trace, profile or [], like, (instances, mtbf_s, seed)), places=places)
    print_warnings(_told(trace))
    with waiting("serving"):
        warm_up()
        predicts = choice.estimator() if choice.estimator else None
        run = serve(trace, fleet, choice.dispatcher(), scaler=scales, estimator=predicts)
    if as_json:
        about = {
            "instances": instances,
            "scaler": scaler,
            "estimator": estimator,
            "seed": seed,
            "synthetic": trace.synthetic,
        }
        faults = [{"reason": each.reason, "rows": each.rows} for each in trace.faults]
        print_json({**run.as_record(), **about, "left_out": faults})
        return
    _print(run, instances)


def policy_choice(policy: str, estimator: str) -> PolicyChoice:
    """Return the dispatcher and estimator of these names; `none` estimates nothing."""
    from steward.decide.serving import DISPATCHERS
    from steward.learn.estimators.serving import SERVING_ESTIMATORS
    from steward.registry import resolve
    from steward.sim.serving.plan import PolicyChoice

    dispatcher = resolve("dispatcher", policy, DISPATCHERS)
    if estimator in ("", "none"):
        return PolicyChoice(dispatcher=dispatcher)
    chosen = resolve("serving-estimator", estimator, SERVING_ESTIMATORS)
    return PolicyChoice(dispatcher=dispatcher, estimator=chosen)


def policies(*, as_json: Json = False) -> None:
    """List what chooses which request goes to which instance, and how many instances there are."""
    from steward.decide.serving import DISPATCHERS, SCALERS

    rows = [
        (kind, name, (made.__doc__ or "").splitlines()[0])
        for kind, table in (("policy", DISPATCHERS), ("scaler", SCALERS))
        for name, made in table.items()
    ]
    if as_json:
        names = ("kind", "name", "about")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    print_table(("kind", "name", "what it does"), rows, empty="there are no policies")


def _places(instances: int, most: int | None, *, scales: bool) -> int:
    """Return how many instances there may be at once."""
    from steward.errors import StewardError

    if most is None:
        return 4 * instances if scales else instances
    if not scales:
        hint = "name a scaler with --scaler; `steward serve policies` lists them"
        raise StewardError(
            "nothing changes the number of instances", where="--max-instances", hint=hint
        )
    if most < instances:
        hint = f"at least the {instances} of --instances"
        raise StewardError(
            f"{most} are fewer than at the start", where="--max-instances", hint=hint
        )
    return most


def _read(traces: list[str], asked: RequestOptions) -> RequestTrace:
    from steward.model.serving.requests import merged
    from steward.sim.serving.traces import read_requests

    with waiting("reading requests"):
        return merged([read_requests(each, asked) for each in traces])


def _fleet(
    trace: RequestTrace, files: list[Path], like: InstanceType, asked: tuple[int, float | None, int]
) -> Fleet:
    from steward.learn.step_profiles import instance_types
    from steward.sim.serving.simulate import Fleet, draw_failures

    instances, mtbf_s, seed = asked
    types = instance_types(files, like) if files else (like,)
    failures = []
    if mtbf_s is not None:
        until_s = float(trace.arrival_s[-1])
        failures = draw_failures(seed=seed, mtbf_s=mtbf_s, until_s=until_s, instances=instances)
    return Fleet(
        types=types,
        instances=tuple(row % len(types) for row in range(instances)),
        failures=tuple(failures),
    )


def _told(trace: RequestTrace) -> list[str]:
    lines = []
    for each in trace.faults:
        where = f" ({'; '.join(each.examples)})" if each.examples else ""
        lines.append(f"{each.reason}: {each.rows}{where}")
    return lines


def _print(run: ServingRun, instances: int) -> None:
    from steward.cli.words import number

    found = run.as_record()
    made_up = " (partly synthetic)" if run.trace.synthetic else ""
    servers = f"{instances} instance{'s' if instances > 1 else ''}"
    served = f"{number(found['requests'])} requests on {servers} under {run.policy}"
    cost = (
        f"{number(found['gpu_seconds'])} GPU-seconds, {number(found['tokens_per_s'] or 0)} tokens/s"
    )
    stops = f"{found['preemptions']} preemptions, {found['returns']} sent again"
    print_lines(
        [
            f"{run.trace.name}{made_up}: {served}, {number(found['finished'])} finished",
            f"  {cost}, {stops}, {found['reused_token_share']:.0%} of prompt tokens from caches",
            f"  simulated at {number(found['requests_per_cpu_s'])} requests per CPU second",
            "",
        ]
    )
    columns = ("class", "requests", "met", "TTFT p50", "p99", "ITL p50", "p99", "E2E p50", "p99")
    rows = [
        (name, number(row["requests"]), f"{found['attainment'].get(name, 0):.1%}", *_times(row))
        for name, row in found["by_class"].items()
        if row["requests"]
    ]
    print_table(columns, rows, empty="there are no requests")


def _times(row: dict[str, dict[str, float | None]]) -> list[str]:
    cells = []
    for what in ("ttft_s", "itl_s", "e2e_s"):
        for level in ("p50", "p99"):
            value = row[what][level]
            cells.append("-" if value is None else f"{value:.3g} s")
    return cells

"""`steward memory simulate`, `explain` and `policies`: recorded accesses under a page policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_table, print_warnings, waiting

if TYPE_CHECKING:
    from steward.sim.memory.runs import RunOptions

__all__ = ["explain", "policies", "simulate"]

Trace = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        help="A CSV file of accesses, a name in the data folder (cloudphysics, mooncake), or a "
        "pattern that is made up (graph, phases, scan, training, zipf).",
    ),
]
PolicyName = Annotated[
    str, typer.Option("--policy", metavar="NAME", help="`steward memory policies` lists them.")
]
NearShare = Annotated[
    float,
    typer.Option("--near-share", min=0, max=1, help="Of all pages, that the near tier holds."),
]
Load = Annotated[
    float, typer.Option("--load", min=0, help="Mean share of the link that others take.")
]
LinkGbps = Annotated[float, typer.Option("--link-gbps", help="Speed of the link, in Gbit/s.")]
FarNs = Annotated[float, typer.Option("--far-ns", help="Latency of far memory without load.")]
NearNs = Annotated[float, typer.Option("--near-ns", help="Latency of near memory.")]
Accesses = Annotated[
    int, typer.Option("--accesses", min=0, help="At most so many; made-up traces have as many.")
]
Pages = Annotated[int, typer.Option("--pages", min=1, help="Of traces that are made up.")]
PageBytes = Annotated[int, typer.Option("--page-bytes", help="Of recorded traces.")]
EpochAccesses = Annotated[
    int, typer.Option("--epoch", min=1, help="Accesses from one decision to the next.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of everything that is drawn.")]


def simulate(  # noqa: PLR0913 - a command's options are its parameters
    trace: Trace,
    *,
    policy: PolicyName = "indigo",
    near_share: NearShare = 0.25,
    load: Load = 0.0,
    link_gbps: LinkGbps = 100.0,
    far_ns: FarNs = 600.0,
    near_ns: NearNs = 100.0,
    accesses: Accesses = 1_000_000,
    pages: Pages = 20_000,
    page_bytes: PageBytes = 4096,
    epoch: EpochAccesses = 2048,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run a program's accesses with its pages in two tiers, and say how long it waits for memory.

    Far memory is behind a link that others use, too: `--load` draws their flows by seed. The same
    seed gives the same answer, but for cpu_s and accesses_per_s. A page is near when it is first
    touched while there is room.
    """
    from steward.sim.memory.runs import RunOptions

    asked = RunOptions(
        source=trace,
        policy=policy,
        near_share=near_share,
        load=load,
        link_bytes_per_s=link_gbps * 1.25e8,
        far_s=far_ns * 1e-9,
        near_s=near_ns * 1e-9,
        accesses=accesses,
        pages=pages,
        page_bytes=page_bytes,
        epoch_accesses=epoch,
        seed=seed,
    )
    _run(asked, as_json=as_json)


def _run(asked: RunOptions, *, as_json: bool) -> None:
    from steward.sim.memory.runs import run_of, trace_for
    from steward.sim.memory.simulate import warm_up

    with waiting("reading accesses"):
        trace = trace_for(asked)
    if trace.left_out:
        print_warnings([f"rows that could not be used: {trace.left_out}"])
    with waiting("simulating"):
        warm_up()
        run, baseline = run_of(asked, trace)
    found = {**run.as_record(), "none_stall_s": baseline.stall_s, "seed": asked.seed}
    if as_json:
        print_json(found)
        return
    made_up = " (made up)" if trace.synthetic else ""
    saved = 1.0 - run.stall_s / baseline.stall_s if baseline.stall_s > 0 else 0.0
    near = f"{run.near_share:.1%} of accesses near, {run.moved_bytes / 1e6:,.1f} MB moved"
    stall = f"{run.stall_s:.4g} s of stall; {baseline.stall_s:.4g} s if no page is moved"
    about = f"{len(trace):,} accesses to {trace.pages:,} pages, {run.policy}"
    print_lines(
        [
            f"{trace.name}{made_up}: {about}",
            f"  {stall}: {saved:+.1%} against leaving pages where they are",
            f"  {near} ({run.promoted:,} pages nearer, {run.demoted:,} farther)",
            f"  simulated at {found['accesses_per_s']:,.0f} accesses per CPU second",
        ]
    )


def explain(  # noqa: PLR0913 - a command's options are its parameters
    trace: Trace,
    *,
    policy: PolicyName = "indigo",
    at: Annotated[
        int | None, typer.Option("--at", min=0, help="An epoch; without it the last with moves.")
    ] = None,
    near_share: NearShare = 0.25,
    load: Load = 0.0,
    accesses: Accesses = 1_000_000,
    epoch: EpochAccesses = 2048,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Show why a policy moved pages after one epoch: the link, the arms and what each promised."""
    from steward.sim.memory.explanation import explain_epoch
    from steward.sim.memory.runs import RunOptions, trace_for

    asked = RunOptions(
        source=trace,
        policy=policy,
        near_share=near_share,
        load=load,
        accesses=accesses,
        epoch_accesses=epoch,
        seed=seed,
    )
    with waiting("simulating"):
        found = explain_epoch(asked, trace_for(asked), at)
    if as_json:
        print_json(found)
        return
    _print_explanation(found)


def _print_explanation(found: dict[str, Any]) -> None:
    far = f"a far access takes {found['far_access_s'] * 1e9:.0f} ns"
    moved = f"{found['promoted']} nearer, {found['demoted']} farther"
    print_lines(
        [
            f"{found['trace']}, epoch {found['epoch']} of {found['epochs']}: {found['why']}",
            f"  link: {found['load_share']:.0%} taken by others, {far}",
            f"  {found['far_share']:.1%} of accesses were far",
            f"  moved: {moved}, {found['trapped']} at their next access",
            "",
        ]
    )
    rows = [
        (
            each["arm"],
            f"{each['mean']:+.4f}",
            f"{each['deviation']:.4f}",
            f"{each['chance']:.0%}",
            f"{each['seen']:.0f}",
            "chosen" if each["chosen"] else "",
        )
        for each in found["arms"]
    ]
    columns = ("arm", "share of stall saved", "deviation", "better than nothing", "seen", "")
    print_table(columns, rows, empty="this policy has no arms")


def policies(*, as_json: Json = False) -> None:
    """List what chooses which pages move."""
    from steward.decide.memory import PAGE_POLICIES

    rows = [(name, (made.__doc__ or "").splitlines()[0]) for name, made in PAGE_POLICIES.items()]
    rows.append(("oracle", "Moves by cost with the true future of the trace: in `simulate` only."))
    if as_json:
        print_json([{"name": name, "about": about} for name, about in rows])
        return
    print_table(("name", "what it does"), rows, empty="there are no policies")

"""`steward serve demo`: how a batch fills the gaps of chat, on this machine, in a minute."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_note

if TYPE_CHECKING:
    from steward.service.serving_demo import DemoSummary, Moment

__all__ = ["demo"]

_BAR = 32


def demo(
    *,
    seconds: Annotated[
        float, typer.Option("--seconds", min=2, max=3600, help="How long chat goes on.")
    ] = 40.0,
    items: Annotated[
        int, typer.Option("--items", min=1, max=50_000, help="Requests of the batch.")
    ] = 1000,
    policy: Annotated[
        str, typer.Option("--policy", metavar="NAME", help="The gateway's; else its own.")
    ] = "",
    seed: Annotated[int, typer.Option("--seed", help="Of the traffic.")] = 1,
    as_json: Json = False,
) -> None:
    """Start two stand-in servers and the gateway, and send chat in waves beside a batch.

    No GPU is needed; the first time on a machine the simulator is compiled, which takes longer.
    """
    from steward.service.serving_demo import DemoSettings, run_demo

    print_note("starting two stand-in servers and the gateway")
    settings = DemoSettings(seconds=seconds, items=items, policy=policy, seed=seed)
    summary = run_demo(settings, announce=_announce, show=_show)
    if as_json:
        print_json(asdict(summary))
    else:
        _print(summary)


def _announce(url: str) -> None:
    print_note(f"gateway {url}/v1; status while it runs: {url}/steward/v1/status")
    print_note(f"{'':>5}  # chat  = batch  . free (slots of both servers)")


def _show(moment: Moment) -> None:
    width = _BAR / moment.slots
    chat = round(min(moment.chat_running, moment.slots) * width)
    batch = min(_BAR - chat, round(moment.batch_running * width))
    bar = "#" * chat + "=" * batch + "." * (_BAR - chat - batch)
    queued = f", {moment.chat_queued} waiting" if moment.chat_queued else ""
    print_note(
        f"{moment.t_s:4.0f} s [{bar}] chat {moment.chat_running:2}{queued}; "
        f"batch {moment.batch_running:2}, {moment.batch_done} done"
    )


def _print(found: DemoSummary) -> None:
    both = found.chat_slot_share + found.batch_slot_share
    chat = (
        f"chat:  {found.chat_requests} requests, {found.chat_failed} failed; first token after "
        f"{found.ttft_p50_s:.2f} s (median), {found.ttft_p99_s:.2f} s (99 %); "
        f"{found.chat_kept:.1%} within the {found.promise_s:g} s promised"
    )
    batch = (
        f"batch: {found.batch_answered} of {found.batch_items} requests answered once, in "
        f"{found.batch_s:.0f} s of the hour they had"
    )
    slots = (
        f"slots: {found.chat_slot_share:.0%} used by chat, {found.batch_slot_share:.0%} more by "
        f"the batch in its gaps: {both:.0%}"
    )
    print_lines([chat, batch, slots])

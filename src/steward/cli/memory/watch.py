"""`steward memory watch`: the memory of a real process, and moving it under the guard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Config, Data, Json, read_settings
from steward.cli.output import print_json, print_lines, print_note

if TYPE_CHECKING:
    from steward.config.memory_loop import MemoryWatch

__all__ = ["watch"]

STATUS_EVERY_S = 1.0


def watch(  # noqa: PLR0913 - a command's options are its parameters
    pid: Annotated[int, typer.Argument(min=1, metavar="PID", help="The process to watch.")],
    *,
    near_mib: Annotated[
        int | None,
        typer.Option(
            "--near-mib", min=1, help="What it may have in memory; without it all that it has."
        ),
    ] = None,
    policy: Annotated[str, typer.Option("--policy", metavar="NAME", help="Chooses.")] = "indigo",
    move: Annotated[
        bool,
        typer.Option("--move", help="Really move its memory; without it decisions are advice."),
    ] = False,
    far_node: Annotated[
        int | None,
        typer.Option("--far-node", min=1, help="Move between NUMA nodes 0 and this, not to swap."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.1, help="Stop after so long.")
    ] = None,
    every_s: Annotated[
        float, typer.Option("--every-s", min=0.01, help="From one look to the next.")
    ] = 0.1,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Watch which blocks of a process are used and where they are, and decide which should move.

    It ends when the process does. The page /memory of `steward up` shows what it writes to the
    store; `steward decisions` lists what it decided.
    """
    from steward.clock import WallClock
    from steward.config.memory_loop import MemoryWatch, WatchOptions
    from steward.decide.memory import PAGE_POLICIES
    from steward.model.decision import Autonomy
    from steward.registry import resolve

    resolve("page-policy", policy, PAGE_POLICIES)
    settings = read_settings(config, data)
    options = WatchOptions(
        pid=pid,
        near_bytes=(near_mib << 20) if near_mib is not None else 1 << 50,
        policy=policy,
        autonomy=Autonomy.AUTO if move else Autonomy.ADVISE,
        far_node=far_node,
        every_s=every_s,
    )
    found = MemoryWatch(options, settings.store.path, settings.store.journal_url, clock=WallClock())
    try:
        _check_engine(found, move=move)
        status = _follow(found, seconds, as_json=as_json)
    finally:
        found.close()
    if as_json:
        print_json(status)
    raise typer.Exit(1 if status["problem"] and not status["turns"] > 1 else 0)


def _check_engine(found: MemoryWatch, *, move: bool) -> None:
    from steward.errors import StewardError

    can = found.actuator.available()
    if move and can.status == "missing":
        raise StewardError(can.reason, where="--move", hint=can.hint)


def _follow(found: MemoryWatch, seconds: float | None, *, as_json: bool) -> dict[str, Any]:
    """Take turns until the time is over or the process ends; return how it was last."""
    import time

    began_s = shown_s = time.monotonic()
    due_s = began_s
    status: dict[str, Any] = {}
    try:
        while True:
            moment = found.turn()
            now_s = time.monotonic()
            over = moment.unknown != "" or (seconds is not None and now_s - began_s >= seconds)
            if over or not status or now_s - shown_s >= STATUS_EVERY_S:
                status, shown_s = found.write_status(), now_s
                if not as_json:
                    print_lines([_line(status)])
            if over:
                return status
            due_s = max(due_s + found.options.every_s, now_s)
            time.sleep(max(0.0, due_s - time.monotonic()))
    except KeyboardInterrupt:
        print_note("stopped")
        return status or found.write_status()


def _line(status: dict[str, Any]) -> str:
    if status["problem"]:
        return f"{status['name']} ({status['pid']}): {status['problem']}"
    near, far = status["near_bytes"] / 2**20, status["far_bytes"] / 2**20
    return (
        f"{status['name']} ({status['pid']}): {near:,.0f} MiB near, {far:,.0f} MiB far; "
        f"{status['hot_blocks']} of {status['blocks']} blocks used, {status['hot_far_blocks']} of "
        f"these far; moved {status['promoted_blocks']} nearer, {status['demoted_blocks']} farther; "
        f"stall saved {status['estimated_saved_s']:+.3f} s (estimated)"
    )

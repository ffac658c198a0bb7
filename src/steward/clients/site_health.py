"""Asks stewards on this machine how they do, each through its own Unix socket."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from steward.clients.local_service import LocalService
from steward.errors import StewardError
from steward.model.site import SiteHealth, SiteState

__all__ = ["ask_health", "ask_healths"]

ANSWER_S = 5.0  # a steward that is busy for longer counts as failing


def ask_health(name: str, socket: Path, *, timeout_s: float = ANSWER_S) -> SiteHealth:
    """Return how the steward behind a socket does; never raises."""
    try:
        answer = LocalService(socket, timeout_s=timeout_s).get("status")
        if answer is None:
            return SiteHealth(name=name, state=SiteState.STOPPED, text="no steward runs here")
        return _health(name, answer)
    except StewardError as fault:
        return SiteHealth(name=name, state=SiteState.FAILING, text=fault.problem)
    except (TypeError, ValueError, LookupError, AttributeError):
        text = "another version of steward runs there; restart it"
        return SiteHealth(name=name, state=SiteState.FAILING, text=text)


def ask_healths(sockets: Mapping[str, Path]) -> list[SiteHealth]:
    """Return how all of them do: all are asked at once, so that a silent one delays no other."""
    if not sockets:
        return []
    with ThreadPoolExecutor(max_workers=len(sockets)) as pool:
        return list(pool.map(ask_health, sockets.keys(), sockets.values()))


def _health(name: str, answer: Mapping[str, Any]) -> SiteHealth:
    unready, engines, turns = answer["unready"], answer["unreachable"], int(answer["turns"])
    state, text = SiteState.FINE, ""
    if turns == 0:
        state, text = SiteState.STARTING, "it has not made its first turn yet"
    elif unready:
        state, text = SiteState.FAILING, "; ".join(map(str, unready))
    elif engines:
        state = SiteState.UNREACHABLE
        text = "; ".join(f"{each['where']}: {each['problem']}" for each in engines)
    return SiteHealth(
        name=name,
        state=state,
        text=text,
        url=str(answer["url"]),
        turns=turns,
        last_turn_t_s=float(answer["t_s"]) if turns else None,
        since_s=min((float(each["t_s"]) for each in engines), default=None),
        faults=int(answer["faults"]),
    )

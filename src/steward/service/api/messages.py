"""`/api/v1/mutes`, `/api/v1/messages` and `/api/v1/alerts`: what people are told, and what not."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator

from steward.config.messages import open_outbox
from steward.errors import StewardError
from steward.messages.journal_messages import ALERT_EVENTS
from steward.model.event import Event
from steward.model.message import MESSAGE_KINDS, Mute
from steward.service.api.replies import Reply, failures
from steward.service.authentication import User
from steward.service.failures import RefusedError
from steward.service.live_state import LiveState
from steward.store.outbox import Outbox

__all__ = ["ALERTS", "message_routes"]

ALERTS = "/alerts"
LONGEST_MUTE_S = 400 * 86400.0
MOST_ALERTS = 500
MOST_TEXT = 1000
Id = Annotated[str, Path(max_length=100, pattern="^[!-~]+$", description="a mute's id")]


class MuteRequest(BaseModel):
    """Messages that somebody does not want. Without a job and a kind: all that are theirs."""

    model_config = ConfigDict(extra="forbid")
    for_s: float = Field(gt=0, le=LONGEST_MUTE_S, strict=True, description="for so long")
    job: str = Field("", max_length=100, pattern="^[!-~]*$", description="only about this job")
    kind: str = Field("", max_length=20, description=f"only these: {', '.join(MESSAGE_KINDS)}")
    user: str | None = Field(
        None, max_length=100, description="whose messages; operators only, empty: everybody's"
    )

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind and kind not in MESSAGE_KINDS:
            message = f"'{kind}' is no kind of message; known: {', '.join(MESSAGE_KINDS)}"
            raise ValueError(message)
        return kind


class MuteReply(Reply):
    """A mute that holds."""

    id: str
    user: str
    until_s: float
    job: str
    kind: str
    made_by: str


class MuteList(Reply):
    """Mutes, the one that ends first first."""

    items: list[MuteReply]


class QueuedReply(Reply):
    """A message that waits."""

    receiver: str
    title: str
    due_s: float
    attempts: int
    fault: str = Field(description="why it could not be sent so far")


class DroppedReply(Reply):
    """A message that its receiver refused for good."""

    receiver: str
    t_s: float
    fault: str
    title: str


class MessageState(Reply):
    """What waits for receivers, and what was given up."""

    waiting: list[QueuedReply]
    dropped: list[DroppedReply]


class AlertBody(BaseModel):
    """One alert, as Alertmanager's webhooks carry it."""

    model_config = ConfigDict(extra="ignore")
    status: str = Field(max_length=20, pattern="^(firing|resolved)$")
    labels: dict[str, str] = Field(max_length=100)
    annotations: dict[str, str] = Field(default_factory=dict, max_length=100)
    startsAt: str = Field("", max_length=64)  # noqa: N815 - Alertmanager's name
    endsAt: str = Field("", max_length=64)  # noqa: N815 - Alertmanager's name


class AlertGroup(BaseModel):
    """The body of Alertmanager's webhooks, version 4."""

    model_config = ConfigDict(extra="ignore")
    alerts: list[AlertBody] = Field(max_length=MOST_ALERTS)


class AlertsTaken(Reply):
    """How many alerts were written to the journal; steward's own are not."""

    taken: int


def message_routes(live_state: LiveState) -> APIRouter:
    """Return the routes about messages."""
    routes = APIRouter(tags=["messages"])
    outbox = _Opened(live_state)
    _add_mutes(routes, live_state, outbox)

    @routes.get("/messages", responses=failures())
    def state(request: Request) -> MessageState:
        """List what waits to be sent, and what receivers refused. For operators."""
        user: User = request.state.user
        if not user.may_decide:
            problem = f"{user.name} is {user.role.value}: messages are other people's"
            raise RefusedError(403, problem, where="messages", hint="ask an operator")
        opened = outbox.get()
        waiting = [
            QueuedReply(
                receiver=each.receiver,
                title=each.message.title,
                due_s=each.due_s,
                attempts=each.attempts,
                fault=each.fault,
            )
            for each in opened.pending(limit=200)
        ]
        dropped = [DroppedReply.model_validate(each) for each in opened.dropped(limit=200)]
        return MessageState(waiting=waiting, dropped=dropped)

    @routes.post(ALERTS, status_code=202, responses=failures())
    def alerts(group: AlertGroup) -> AlertsTaken:
        """Take alerts of an Alertmanager (`webhook_configs`) into the journal."""
        now_s = live_state.loop.status.t_s
        events = [
            _event_of(each, now_s)
            for each in group.alerts
            if each.labels.get("sender") != "steward"
        ]
        live_state.loop.journal.append(events)
        return AlertsTaken(taken=len(events))

    return routes


class _Opened:
    """The outbox, opened when it is first needed: most sites tell nobody."""

    def __init__(self, live_state: LiveState) -> None:
        self._live_state = live_state
        self._lock = threading.Lock()
        self._outbox: Outbox | None = None

    def get(self) -> Outbox:
        with self._lock:
            if self._outbox is None:
                self._outbox = open_outbox(self._live_state.settings)
            return self._outbox


def _add_mutes(routes: APIRouter, live_state: LiveState, outbox: _Opened) -> None:
    @routes.get("/mutes", responses=failures())
    def list_(request: Request) -> MuteList:
        """List the mutes that hold: one's own, and for operators all."""
        user: User = request.state.user
        found = outbox.get().mutes(_now_s(live_state))
        return MuteList(
            items=[MuteReply.model_validate(each) for each in found if _may_see(user, each)]
        )

    @routes.post("/mutes", status_code=201, responses=failures())
    def mute(request: Request, wanted: MuteRequest) -> MuteReply:
        """Stop messages for a while: one's own, or as an operator anybody's."""
        user: User = request.state.user
        whose = user.name if wanted.user is None else wanted.user
        if whose != user.name and not user.may_decide:
            problem = f"{user.name} may only mute messages to {user.name}"
            raise RefusedError(403, problem, where="body.user", hint="leave `user` out")
        now_s = _now_s(live_state)
        made = outbox.get().mute(
            user=whose,
            until_s=now_s + wanted.for_s,
            job=wanted.job,
            kind=wanted.kind,
            made_by=user.name,
            t_s=now_s,
        )
        return MuteReply.model_validate(made)

    @routes.delete("/mutes/{mute}", responses=failures(404))
    def unmute(request: Request, mute: Id) -> MuteReply:
        """End a mute."""
        user: User = request.state.user
        now_s, opened = _now_s(live_state), outbox.get()
        known = [each for each in opened.mutes(now_s) if each.id == mute]
        if not known or not _may_see(user, known[0]):
            raise RefusedError(404, f"there is no mute '{mute}'", where="path.mute")
        try:
            return MuteReply.model_validate(opened.unmute(mute, now_s))
        except StewardError as fault:
            raise RefusedError(404, fault.problem, where="path.mute") from fault


def _may_see(user: User, mute: Mute) -> bool:
    return user.may_decide or user.name in (mute.made_by, mute.user)


def _now_s(live_state: LiveState) -> float:
    return live_state.loop.status.t_s


def _event_of(alert: AlertBody, now_s: float) -> Event:
    name = alert.labels.get("alertname", "alert")
    text = alert.annotations.get("summary") or alert.annotations.get("description", "")
    when = alert.startsAt if alert.status == "firing" else alert.endsAt
    about = next(
        (alert.labels[each] for each in ("node", "instance") if alert.labels.get(each)), ""
    )
    return Event(
        t_s=_moment(when, now_s),
        kind=ALERT_EVENTS[alert.status == "resolved"],
        subject=_clean(about)[:200] or "cluster",
        text=_clean(f"{name}: {text}" if text else name)[:MOST_TEXT],
        source="alertmanager",
    )


def _moment(text: str, now_s: float) -> float:
    """Return a time; one in the future, without a zone or of another form is no alert's."""
    try:
        when = datetime.fromisoformat(text)
        return now_s if when.tzinfo is None else min(when.timestamp(), now_s)
    except (ValueError, OverflowError):
        return now_s


def _clean(text: Any) -> str:  # noqa: ANN401 - text of others
    return "".join(each if each.isprintable() else " " for each in str(text)).strip()

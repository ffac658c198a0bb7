"""Receivers of messages to people, and what each of them gets."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from steward.config.checked_values import check_optional_receiver_url
from steward.config.section import Section

__all__ = ["MessageForm", "MessageSettings"]


class MessageForm(Enum):
    """What a receiver understands."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    TEAMS = "teams"
    ALERTMANAGER = "alertmanager"
    MAIL = "mail"


class MessageSettings(Section):
    """A receiver of messages: a webhook, a channel, an Alertmanager, or mail."""

    form: MessageForm = Field(
        MessageForm.WEBHOOK,
        strict=False,
        description="what it understands: steward's own JSON, incoming webhooks of Slack (and of "
        "Mattermost), workflows of Teams, Alertmanager, or mail",
    )
    url: Annotated[str, AfterValidator(check_optional_receiver_url)] = Field(
        "", description="where it is; Alertmanager's ends in `/api/v2/alerts`"
    )
    url_file: str = Field(
        "", description="a file that holds the address: that of Slack and of Teams is a secret"
    )
    token_file: str = Field("", description="a file that holds a bearer token and nothing else")
    secret_file: str = Field(
        "", description="a file with the key by which bodies are signed (`X-Steward-Signature`)"
    )
    ca_file: str = Field(
        "", description="certificates to trust, in PEM form; empty means the usual authorities"
    )
    plain_http: bool = Field(
        default=False, description="allow plain HTTP to a receiver on another machine"
    )
    host: str = Field("", description="of the mail server")
    port: int = Field(587, ge=1, le=65535, description="of the mail server")
    tls: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="how the mail server is spoken to; `none` only without a password"
    )
    user: str = Field("", description="who logs in to the mail server; empty: nobody does")
    password_file: str = Field("", description="a file that holds that password and nothing else")
    sender: str = Field("", description="the address that mail comes from")
    to: tuple[str, ...] = Field(
        (), strict=False, description="addresses that get what is not for the owner of a job"
    )
    owners: str = Field(
        "",
        description="the address of the owner of a job, as `{user}@example.org`: what is about "
        "somebody's job goes there, and nowhere else",
    )
    dashboard: Annotated[str, AfterValidator(check_optional_receiver_url)] = Field(
        "", description="where readers find the dashboard, for links: `https://steward.example.org`"
    )
    kinds: tuple[str, ...] = Field(
        (),
        strict=False,
        description="finding, approval, decision, advice, job, alert, steward; empty means all",
    )
    tenants: tuple[str, ...] = Field(
        (), strict=False, description="names, as `bio*`; empty means all, and what is nobody's"
    )
    users: tuple[str, ...] = Field(
        (), strict=False, description="names of owners; empty means all, and what is nobody's"
    )
    least: Literal["note", "waste", "fault"] = Field(
        "note", description="the least severity that is sent"
    )
    quiet: str = Field(
        "", description="hours of the day in which only faults are sent: `22:00-07:00`"
    )
    time_zone: str = Field("UTC", description="of those hours, as `Europe/Berlin`")
    digest_s: float = Field(
        0.0, ge=0, description="messages are collected for so long and sent as one; faults are not"
    )
    repeat_after_s: float = Field(
        3600.0, ge=0, description="the same thing is not sent again before so long has passed"
    )

"""The bodies that receivers over HTTP expect. Text is escaped: a job's name mentions nobody."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from steward.model.finding import Severity
from steward.model.message import Message

__all__ = [
    "FORMS",
    "alertmanager",
    "generic",
    "plain_line",
    "plain_text",
    "slack",
    "subject_of",
    "teams",
]

MOST_CHARACTERS = 2500  # of one message; Slack refuses blocks of more than 3,000
MOST_TOGETHER = 20  # in one body for people; the rest is counted
_COLORS = {Severity.NOTE: "Default", Severity.WASTE: "Warning", Severity.FAULT: "Attention"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~@])")


def plain_line(text: str) -> str:
    """Return text as one line without control characters."""
    return _CONTROL.sub(" ", text).strip()


def subject_of(messages: Sequence[Message]) -> str:
    """Return one line that says what a body is about."""
    first = plain_line(messages[0].title)[:200]
    return first if len(messages) == 1 else f"{len(messages)} messages: {first}"


def plain_text(messages: Sequence[Message], site: str, base_url: str) -> str:
    """Return messages as text for people."""
    parts = []
    for each in messages:
        lines = [f"{plain_line(each.title)} [{each.severity.value}]"]
        lines += [plain_line(each.text)] if each.text else []
        lines += [f"What to do: {plain_line(each.advice)}"] if each.advice else []
        lines += [_when(each)]
        lines += [base_url + each.path] if base_url and each.path else []
        parts.append("\n".join(lines)[:MOST_CHARACTERS])
    return "\n\n".join(parts) + f"\n\n-- steward at {site}\n"


def generic(messages: Sequence[Message], site: str, base_url: str) -> bytes:
    """Return steward's own JSON: all fields, as they are."""
    body = {
        "version": 1,
        "site": site,
        "messages": [
            {
                "key": each.key,
                "time": _iso(each.t_s),
                "kind": each.kind,
                "severity": each.severity.value,
                "title": each.title,
                "text": each.text,
                "advice": each.advice,
                "subject": each.subject,
                "job": each.job,
                "tenant": each.tenant,
                "user": each.user,
                "source": each.source,
                "resolved": each.resolved,
                "url": base_url + each.path if base_url and each.path else None,
            }
            for each in messages
        ],
    }
    return json.dumps(body, ensure_ascii=False).encode()


def slack(messages: Sequence[Message], site: str, base_url: str) -> bytes:
    """Return the form of Slack's incoming webhooks; Mattermost and Rocket.Chat take it too."""
    shown = messages[:MOST_TOGETHER]
    blocks = [_section(_slack_text(each, base_url)) for each in shown]
    more = len(messages) - len(shown)
    footer = f"steward at {_slack(site)}" + (f"; and {more} more" if more else "")
    context = {"type": "context", "elements": [{"type": "mrkdwn", "text": footer}]}
    body = {"text": _slack(subject_of(messages)), "blocks": [*blocks, context]}
    return json.dumps(body, ensure_ascii=False).encode()


def teams(messages: Sequence[Message], site: str, base_url: str) -> bytes:
    """Return an Adaptive Card, as the workflows of Microsoft Teams take it."""
    shown = messages[:MOST_TOGETHER]
    body: list[dict[str, Any]] = []
    for each in shown:
        title = {"weight": "Bolder", "color": _COLORS[each.severity], "separator": True}
        body.append(_block(plain_line(each.title), **title))
        body += [_block(plain_line(text)) for text in (each.text, each.advice) if text]
        body.append(_block(_when(each), isSubtle=True))
    more = len(messages) - len(shown)
    footer = f"steward at {site}" + (f"; and {more} more" if more else "")
    body.append(_block(footer, isSubtle=True, separator=True))
    actions = [
        {
            "type": "Action.OpenUrl",
            "title": plain_line(each.title)[:60],
            "url": base_url + each.path,
        }
        for each in shown[:3]
        if base_url and each.path
    ]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "actions": actions,
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    message = {"type": "message", "attachments": [attachment]}
    return json.dumps(message, ensure_ascii=False).encode()


def alertmanager(messages: Sequence[Message], site: str, base_url: str) -> bytes:
    """Return alerts for `/api/v2/alerts`, labelled as steward's: it ignores those it gets back."""
    return json.dumps([_alert(each, site, base_url) for each in messages]).encode()


FORMS = {"webhook": generic, "slack": slack, "teams": teams, "alertmanager": alertmanager}


def _alert(message: Message, site: str, base_url: str) -> dict[str, Any]:
    labels = {
        "alertname": f"steward_{message.kind}",
        "sender": "steward",
        "site": site,
        "severity": "critical" if message.severity is Severity.FAULT else "warning",
        "subject": message.subject,
        "key": message.key[:500],
        "job_id": str(message.job or ""),
        "tenant": str(message.tenant or ""),
        "user": message.user,
    }
    alert: dict[str, Any] = {
        "labels": {name: plain_line(value) for name, value in labels.items() if value},
        "annotations": {
            "summary": message.title,
            "description": message.text,
            "advice": message.advice,
        },
        "startsAt": _iso(message.t_s),
    }
    if message.resolved:
        alert["endsAt"] = _iso(message.t_s)
    if base_url and message.path:
        alert["generatorURL"] = base_url + message.path
    return alert


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _slack_text(message: Message, base_url: str) -> str:
    title = _slack(plain_line(message.title))
    link = f"<{base_url}{message.path}|{title}>" if base_url and message.path else title
    lines = [f"*{link}* ({message.severity.value})"]
    lines += [_slack(plain_line(message.text))] if message.text else []
    lines += [f"What to do: {_slack(plain_line(message.advice))}"] if message.advice else []
    return "\n".join([*lines, _when(message)])[:MOST_CHARACTERS]


def _slack(text: str) -> str:
    """Escape what Slack takes for mentions and links, and what it would format."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("|", "\u2758").replace("*", "\u2217").replace("`", "'")


def _block(text: str, **more: object) -> dict[str, Any]:
    escaped = _MARKDOWN.sub(r"\\\1", text[:MOST_CHARACTERS])
    return {"type": "TextBlock", "text": escaped, "wrap": True, **more}


def _when(message: Message) -> str:
    about = [
        f"{name} {plain_line(str(value))}"
        for name, value in (("user", message.user), ("tenant", message.tenant))
        if value
    ]
    return ", ".join([_iso(message.t_s), *about])


def _iso(t_s: float) -> str:
    return datetime.fromtimestamp(t_s, tz=UTC).isoformat(timespec="seconds")

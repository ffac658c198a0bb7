"""Each receiver gets its own form; text of others is escaped for its markup."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from message_servers import message
from steward.clients.receivers.forms import (
    FORMS,
    MOST_TOGETHER,
    alertmanager,
    generic,
    plain_text,
    slack,
    teams,
)
from steward.model.finding import Severity

EVIL = "<!channel> *bold* [x](http://evil) `code` |\n@here\u2028"
LINK = "https://steward.example.org"


def test_the_generic_form_has_every_field() -> None:
    sent = message("a", user="ann", job="7", tenant="bio", path="/findings/f-1", advice="look")

    body = json.loads(generic([sent], "lab", LINK))

    assert (body["version"], body["site"]) == (1, "lab")
    (found,) = body["messages"]
    assert found["time"] == "2023-11-14T22:13:20+00:00"
    assert (found["user"], found["job"], found["severity"]) == ("ann", "7", "waste")
    assert found["url"] == f"{LINK}/findings/f-1"


def test_slack_is_not_made_to_mention_anybody() -> None:
    body = json.loads(slack([message(title=EVIL, text=EVIL, path="/x")], EVIL, LINK))

    text = json.dumps(body)
    assert "<!" not in text
    assert "@here" in text  # without brackets it is only text
    title = body["blocks"][0]["text"]["text"]
    assert title.startswith(f"*<{LINK}/x|&lt;!channel&gt;")
    assert "`" not in title


def test_cards_escape_markdown() -> None:
    body = json.loads(teams([message(title=EVIL, path="/x")], "lab", LINK))

    card = body["attachments"][0]["content"]
    assert card["type"] == "AdaptiveCard"
    assert r"\[x\]\(http://evil\)" in card["body"][0]["text"]
    assert card["actions"][0]["url"] == f"{LINK}/x"


def test_alerts_are_labelled_as_stewards_own_and_end_when_it_is_over() -> None:
    firing, over = json.loads(
        alertmanager([message("a"), message("b", resolved=True)], "lab", LINK)
    )

    assert firing["labels"]["sender"] == "steward"
    assert firing["labels"]["severity"] == "warning"
    assert "endsAt" not in firing
    assert over["endsAt"] == over["startsAt"]


@pytest.mark.parametrize("form", sorted(FORMS))
def test_many_messages_stay_within_what_receivers_take(form: str) -> None:
    many = [message(str(number), text="x" * 10_000) for number in range(3 * MOST_TOGETHER)]

    body = json.loads(FORMS[form](many, "lab", ""))

    if form == "slack":
        assert len(body["blocks"]) == MOST_TOGETHER + 1
        assert all(len(str(block)) < 3000 for block in body["blocks"])
        assert f"and {2 * MOST_TOGETHER} more" in str(body["blocks"][-1])
    elif form == "teams":
        assert f"and {2 * MOST_TOGETHER} more" in str(body)
    else:
        assert len(body if form == "alertmanager" else body["messages"]) == len(many)


TEXTS = st.text(max_size=50).filter(lambda text: text.isprintable() or "\n" in text)


@given(TEXTS, TEXTS, st.sampled_from(sorted(FORMS)), st.sampled_from(Severity))
def test_any_text_becomes_valid_json(title: str, text: str, form: str, level: Severity) -> None:
    sent: Any = message(title=title, text=text, severity=level, advice=text)

    assert json.loads(FORMS[form]([sent], "lab", LINK))
    assert "\r" not in plain_text([sent], "lab", LINK)

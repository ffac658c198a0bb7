"""Receivers speak HTTP and SMTP to real servers of this machine."""

from __future__ import annotations

import email
import json
from email.policy import default

import pytest

from message_servers import http_inbox, message, smtp_inbox
from steward.clients.receivers.receivers import HttpReceiver, MailReceiver, MailServer
from steward.clients.signature import signed
from steward.clients.web import Endpoint
from steward.errors import PermanentError, StewardError, TemporaryError


def test_a_body_is_posted_with_its_signature_and_token() -> None:
    with http_inbox() as inbox:
        endpoint = Endpoint(url=inbox.url, token="t0ken")  # noqa: S106
        receiver = HttpReceiver(endpoint, form="webhook", site="lab", secret="geheim")  # noqa: S106
        receiver.send([message("a"), message("b")])

    assert [each["key"] for each in json.loads(inbox.bodies[0])["messages"]] == ["a", "b"]
    assert inbox.headers[0]["X-Steward-Signature"] == signed(inbox.bodies[0], "geheim")
    assert inbox.headers[0]["Authorization"] == "Bearer t0ken"


@pytest.mark.parametrize(("status", "kind"), [(503, TemporaryError), (410, PermanentError)])
def test_answers_say_whether_to_try_again(status: int, kind: type[StewardError]) -> None:
    with http_inbox() as inbox:
        inbox.statuses = [status]
        receiver = HttpReceiver(Endpoint(url=inbox.url), form="slack", site="lab")
        with pytest.raises(kind, match=str(status)):
            receiver.send([message()])


def test_who_does_not_listen_is_tried_again() -> None:
    with http_inbox() as inbox:
        url = inbox.url
    receiver = HttpReceiver(Endpoint(url=url), form="webhook", site="lab")

    with pytest.raises(TemporaryError, match="cannot be reached"):
        receiver.send([message()])


def mail(port: int, **changes: object) -> MailReceiver:
    server = MailServer(host="127.0.0.1", port=port, tls="none", timeout_s=5.0)
    values = {"sender": "steward@lab", "to": ("ops@lab",), "site": "lab", **changes}
    return MailReceiver(server, **values)  # type: ignore[arg-type]


def test_what_is_about_a_job_goes_to_its_owner_and_nobody_else() -> None:
    with smtp_inbox() as inbox:
        receiver = mail(inbox.port, owners="{user}@cs.example.org")
        messages = [message("a", user="ann"), message("b"), message("c", user="ann")]
        for group in receiver.groups(messages):
            receiver.send(group)

    (_, to_ann, first), (_, to_ops, second) = inbox.mails
    assert to_ann == ["TO:<ann@cs.example.org>"]
    assert to_ops == ["TO:<ops@lab>"]
    assert "a is idle" in first
    assert "c is idle" in first
    assert "b is idle" in second
    assert email.message_from_string(first, policy=default)["Subject"].startswith(
        "[steward lab] 2 messages: a is idle"
    )


@pytest.mark.parametrize("user", ["x@evil.org, y", "a b", "a\nBcc: x@y", "<x>", '"q"'])
def test_a_user_that_is_no_account_name_becomes_no_address(user: str) -> None:
    with smtp_inbox() as inbox:
        receiver = mail(inbox.port, owners="{user}@cs.example.org")
        receiver.send([message("a", user=user)])

    assert [readers for _, readers, _ in inbox.mails] == [["TO:<ops@lab>"]]


def test_a_title_cannot_add_headers() -> None:
    with smtp_inbox() as inbox:
        mail(inbox.port).send([message(title="x\r\nBcc: all@example.org\r\n\r\nbody")])

    found = email.message_from_string(inbox.mails[0][2], policy=default)
    assert found["Bcc"] is None
    assert inbox.mails[0][1] == ["TO:<ops@lab>"]


def test_without_readers_nothing_is_sent_and_nothing_fails() -> None:
    receiver = mail(1, to=(), owners="{user}@cs.example.org")

    receiver.send([message()])


@pytest.mark.parametrize(
    ("code", "kind"), [("550 unknown", PermanentError), ("451 later", TemporaryError)]
)
def test_refused_addresses_are_final_or_not_as_the_server_says(
    code: str, kind: type[StewardError]
) -> None:
    with smtp_inbox() as inbox:
        inbox.codes = [code]
        with pytest.raises(kind):
            mail(inbox.port).send([message()])


def test_a_mail_server_that_is_down_is_tried_again() -> None:
    with smtp_inbox() as inbox:
        port = inbox.port

    with pytest.raises(TemporaryError, match="cannot be reached"):
        mail(port).send([message()])


def test_no_password_goes_over_the_network_in_plain_text() -> None:
    with pytest.raises(StewardError, match="plain text"):
        MailServer(host="mail.example.org", port=25, tls="none", user="me", password="x")  # noqa: S106

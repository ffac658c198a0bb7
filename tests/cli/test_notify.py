"""`steward notify`: receivers are tried, and people mute what they do not want."""

from __future__ import annotations

import json
from pathlib import Path

from message_servers import T_S, http_inbox, message, smtp_inbox
from steward.store.outbox import Outbox
from told import steward


def written(folder: Path, text: str) -> Path:
    file = folder / "steward.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_test_reaches_the_receiver(tmp_path: Path) -> None:
    with http_inbox() as inbox:
        (tmp_path / "url").write_text(inbox.url, encoding="utf-8")
        text = f'[messages.ops]\nform = "slack"\nurl_file = "{tmp_path}/url"\nkinds = ["job"]\n'
        answer = steward("notify", "test", "ops", "--config", written(tmp_path, text))

    assert answer.code == 0
    assert "took it" in answer.out
    assert "a test of steward" in json.loads(inbox.bodies[0])["text"]


def test_a_mail_reaches_the_mail_server(tmp_path: Path) -> None:
    with smtp_inbox() as inbox:
        text = (
            f'[messages.m]\nform = "mail"\nhost = "127.0.0.1"\nport = {inbox.port}\n'
            'tls = "none"\nsender = "s@lab"\nto = ["ops@lab"]\n'
        )
        answer = steward("notify", "test", "m", "--config", written(tmp_path, text), "--json")

    assert answer.json["sent"] is True
    assert inbox.mails[0][1] == ["TO:<ops@lab>"]


def test_a_receiver_that_refuses_exits_with_one_and_says_why(tmp_path: Path) -> None:
    with http_inbox() as inbox:
        inbox.statuses = [404]
        file = written(tmp_path, f'[messages.ops]\nurl = "{inbox.url}"\n')
        answer = steward("notify", "test", "ops", "--config", file)

    assert answer.code == 1
    assert "answers 404" in answer.out


def test_an_unknown_receiver_and_no_receivers_are_wrong_use(tmp_path: Path) -> None:
    file = written(tmp_path, '[messages.ops]\nurl = "http://127.0.0.1:1/"\n')

    unknown = steward("notify", "test", "opss", "--config", file)
    nobody = steward("notify", "test", "ops", "--data", tmp_path)

    assert (unknown.code, nobody.code) == (2, 2)
    assert "did you mean 'ops'?" in unknown.err
    assert "has no receivers" in nobody.err


WRONG = """
[messages.a]
form = "slak"
[messages.b]
kinds = ["jobs"]
quiet = "22-7"
[messages.c]
form = "mail"
url = "http://127.0.0.1/"
owners = "ann"
[messages.d]
url = "http://other.example.org/"
host = "x"
"""


def test_all_mistakes_of_all_receivers_come_at_once(tmp_path: Path) -> None:
    answer = steward("notify", "list", "--config", written(tmp_path, WRONG))

    assert answer.code == 2
    for part in (
        "messages.a.form is 'slak'",
        "messages.b.kinds has 'jobs'",
        "messages.b.quiet is wrong",
        "messages.b.url is not set",
        "messages.c.host is not set",
        "messages.c.owners is 'ann'",
        "messages.c.url is set, but form is mail",
        "messages.d.url is plain HTTP to another machine",
        "messages.d.host is set, but form is webhook",
    ):
        assert part in answer.err, part


def test_secrets_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    text = f'[messages.a]\nurl_file = "{tmp_path}/none"\n'

    answer = steward("notify", "test", "a", "--config", written(tmp_path, text))

    assert answer.code == 2
    assert "messages.a.url_file" in answer.err


def test_what_waits_and_what_was_refused_is_listed(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "messages.sqlite3")
    outbox.queue([("ops", T_S, message("a")), ("ops", T_S, message("b"))])
    outbox.postpone(outbox.due("ops", T_S)[:1], T_S, "it is down")
    outbox.drop(outbox.due("ops", T_S)[1:], T_S, "gone")
    outbox.close()
    file = written(tmp_path, '[messages.ops]\nurl = "http://127.0.0.1:1/"\n')

    text = steward("notify", "list", "--config", file, "--data", tmp_path)
    listed = steward("notify", "list", "--config", file, "--data", tmp_path, "--json").json

    assert "it is down" in text.out
    assert "refused by ops: b is idle: gone" in text.out
    assert listed["receivers"]["ops"]["waiting"] == 1
    assert listed["dropped"][0]["fault"] == "gone"


def test_muting_needs_a_running_steward(tmp_path: Path) -> None:
    for command in (("mute",), ("mutes",), ("unmute", "m-1")):
        answer = steward("notify", *command, "--data", tmp_path)

        assert answer.code == 2
        assert "no steward runs here" in answer.err

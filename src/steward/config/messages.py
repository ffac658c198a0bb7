"""The receivers of messages: what is wrong with them, and what they become."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from steward.clients.receivers.receivers import HttpReceiver, MailReceiver, MailServer, Receiver
from steward.clients.transport_rule import PLAIN_HTTP_HINT, needs_plain_http
from steward.clients.web import Endpoint
from steward.clock import Clock
from steward.config.checked_values import check_receiver_url
from steward.config.forward import file_there, secret_in
from steward.config.message_settings import MessageForm, MessageSettings
from steward.config.mistakes import Wrong, dotted
from steward.config.settings import Settings
from steward.errors import StewardError, did_you_mean
from steward.messages.delivery import MessageQueue, MessageRunner, NamedReceiver
from steward.messages.selection import QuietHours, Selection, parse_quiet_hours
from steward.model.finding import Severity
from steward.model.message import MESSAGE_KINDS
from steward.model.view import ClusterView
from steward.store.journal import Journal
from steward.store.outbox import Outbox

__all__ = ["message_runner", "open_outbox", "receivers_of", "wrong_messages"]

OUTBOX = "messages.sqlite3"
_SENT_BY_HTTP = ("url", "url_file", "token_file", "secret_file", "plain_http")
_SENT_BY_MAIL = ("host", "user", "password_file", "sender", "to", "owners")


def wrong_messages(settings: Settings) -> Iterator[Wrong]:
    """Yield conflicts between the keys of each receiver."""
    for name, each in settings.messages.items():
        for key, found in groupby(_wrong(each), key=lambda found: found[0]):
            _, problem, hint = next(found)  # one sentence for each key
            path = ("messages", name, key)
            yield Wrong(path=path, problem=f"{dotted(path)} {problem}", hint=hint)


def _wrong(each: MessageSettings) -> Iterator[tuple[str, str, str]]:
    mail = each.form is MessageForm.MAIL
    yield from _wrong_mail(each) if mail else _wrong_http(each)
    for key in _SENT_BY_HTTP if mail else _SENT_BY_MAIL:
        if getattr(each, key):
            yield key, f"is set, but form is {each.form.value}", "leave it out"
    for kind in each.kinds:
        if kind not in MESSAGE_KINDS:
            hint = did_you_mean(kind, MESSAGE_KINDS) or f"known: {', '.join(MESSAGE_KINDS)}"
            yield "kinds", f"has '{kind}', which no message is", hint
    if each.quiet:
        try:
            parse_quiet_hours(each.quiet, each.time_zone)
        except ValueError as fault:
            yield "quiet", f"is wrong: {fault}", "write hours as 22:00-07:00"


def _wrong_http(each: MessageSettings) -> Iterator[tuple[str, str, str]]:
    if bool(each.url) == bool(each.url_file):
        what = "is set together with url_file" if each.url else "is not set"
        yield "url", what, "set url, or url_file where the address is a secret"
    if needs_plain_http(each.url) and not each.plain_http:
        yield "url", "is plain HTTP to another machine", PLAIN_HTTP_HINT


def _wrong_mail(each: MessageSettings) -> Iterator[tuple[str, str, str]]:
    if not each.host:
        yield "host", "is not set", "name the mail server"
    if "@" not in each.sender:
        yield "sender", "is not an address", "write the address that mail comes from"
    if not each.to and not each.owners:
        yield "to", "is not set", "set `to`, or `owners`, or both"
    if each.owners and (each.owners.count("{user}") != 1 or "@" not in each.owners):
        yield "owners", f"is '{each.owners}'", "write it as {user}@example.org"
    if bool(each.user) != bool(each.password_file):
        missing = "password_file" if each.user else "user"
        yield missing, "is not set", "user and password_file belong together"


def receivers_of(settings: Settings) -> tuple[NamedReceiver, ...]:
    """Return the receivers with their secrets; raises with all files that cannot be read."""
    faults: list[str] = []
    found = []
    for name, each in settings.messages.items():
        build = _mail if each.form is MessageForm.MAIL else _http
        receiver = build(name, each, settings.site.name, faults)
        if receiver is not None:
            found.append(NamedReceiver(name=name, receiver=receiver, selection=_selection(each)))
    if faults:
        hint = "name files that the user who runs steward may read"
        raise StewardError("; ".join(faults), where="[messages]", hint=hint)
    return tuple(found)


def _http(name: str, each: MessageSettings, site: str, faults: list[str]) -> Receiver | None:
    before = len(faults)

    def secret(key: str) -> str:
        return secret_in(f"messages.{name}.{key}", getattr(each, key), faults)

    url = each.url or secret("url_file")
    token, key = secret("token_file"), secret("secret_file")
    ca = file_there(f"messages.{name}.ca_file", each.ca_file, faults)
    if len(faults) > before:
        return None
    try:
        check_receiver_url(url)
    except ValueError as fault:
        faults.append(f"messages.{name}: the address in {each.url_file} {fault}")
        return None
    endpoint = Endpoint(url=url, token=token, ca=ca, plain_http=each.plain_http)
    return HttpReceiver(
        endpoint, form=each.form.value, site=site, base_url=each.dashboard.rstrip("/"), secret=key
    )


def _mail(name: str, each: MessageSettings, site: str, faults: list[str]) -> Receiver | None:
    password = secret_in(f"messages.{name}.password_file", each.password_file, faults)
    ca = file_there(f"messages.{name}.ca_file", each.ca_file, faults)
    server = MailServer(
        host=each.host, port=each.port, tls=each.tls, user=each.user, password=password, ca=ca
    )
    return MailReceiver(
        server,
        sender=each.sender,
        to=each.to,
        owners=each.owners,
        site=site,
        base_url=each.dashboard.rstrip("/"),
    )


def _selection(each: MessageSettings) -> Selection:
    quiet: QuietHours | None = None
    if each.quiet:
        quiet = parse_quiet_hours(each.quiet, each.time_zone)
    return Selection(
        kinds=each.kinds,
        tenants=each.tenants,
        users=each.users,
        least=Severity(each.least),
        quiet=quiet,
        digest_s=each.digest_s,
        repeat_after_s=each.repeat_after_s,
    )


def open_outbox(settings: Settings) -> Outbox:
    """Open what waits to be sent, and what people muted."""
    folder = settings.store.path
    if not folder.is_dir():
        hint = "start steward once, or name its folder with --data"
        raise StewardError("there is no store here", where=str(folder), hint=hint)
    return Outbox(Path(folder) / OUTBOX)


def message_runner(
    settings: Settings,
    journal: Journal,
    view: Callable[[], ClusterView | None],
    clock: Clock,
) -> MessageRunner:
    """Return what tells people while `steward up` runs."""
    receivers = receivers_of(settings)
    outbox = open_outbox(settings)
    queue = MessageQueue(journal, outbox, receivers, view)
    return MessageRunner(queue, outbox, receivers, clock)

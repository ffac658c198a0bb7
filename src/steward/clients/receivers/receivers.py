"""Receivers of messages: one that is spoken to over HTTP, and one over SMTP."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Protocol

from steward.clients.receivers.forms import FORMS, plain_line, plain_text, subject_of
from steward.clients.signature import SIGNATURE, signed
from steward.clients.transport_rule import is_loopback
from steward.clients.web import Endpoint, open_client, post, trusted
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.model.message import Message

__all__ = ["HttpReceiver", "MailReceiver", "MailServer", "Receiver"]


class Receiver(Protocol):
    """Takes messages. Raises `TemporaryError` where trying again may help."""

    @property
    def where(self) -> str: ...

    def send(self, messages: Sequence[Message]) -> None:
        """Hand over messages as one; returns once they were accepted."""
        ...

    def groups(self, messages: Sequence[Message]) -> list[list[Message]]:
        """Return which of these may go together."""
        ...


class HttpReceiver:
    """Posts messages in the form of its kind: `webhook`, `slack`, `teams` or `alertmanager`."""

    def __init__(
        self, endpoint: Endpoint, *, form: str, site: str, base_url: str = "", secret: str = ""
    ) -> None:
        self.where = endpoint.url
        self._endpoint = endpoint
        self._form: Callable[[Sequence[Message], str, str], bytes] = FORMS[form]
        self._site, self._base_url, self._secret = site, base_url, secret
        self._client = open_client(endpoint, owner=self)

    def send(self, messages: Sequence[Message]) -> None:
        """Post messages as one body."""
        body = self._form(messages, self._site, self._base_url)
        headers = {"Content-Type": "application/json"}
        if self._secret:
            headers[SIGNATURE] = signed(body, self._secret)
        post(self._client, self.where, body, headers)

    def groups(self, messages: Sequence[Message]) -> list[list[Message]]:
        """Return all together: it is one channel."""
        return [list(messages)] if messages else []


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """How a mail server is reached. `tls` is `starttls`, `tls` from the start, or `none`."""

    host: str
    port: int
    tls: str = "starttls"
    user: str = ""
    password: str = ""
    ca: str = ""
    timeout_s: float = 20.0

    def __post_init__(self) -> None:
        if self.tls == "none" and self.user and not is_loopback(self.host):
            problem = "a password would be sent in plain text"
            hint = "use tls = 'starttls' or 'tls'"
            raise StewardError(problem, where=f"{self.host}:{self.port}", hint=hint)


class MailReceiver:
    """Sends mail to operators and, where `owners` is set, to whom a message is about."""

    def __init__(
        self,
        server: MailServer,
        *,
        sender: str,
        to: Sequence[str] = (),
        owners: str = "",
        site: str = "",
        base_url: str = "",
    ) -> None:
        self.where = f"{server.host}:{server.port}"
        self._server = server
        self._sender = sender
        self._to = tuple(to)
        self._owners = owners
        self._site, self._base_url = site, base_url

    def groups(self, messages: Sequence[Message]) -> list[list[Message]]:
        """Return messages by who reads them: nobody gets another's."""
        found: dict[tuple[str, ...], list[Message]] = {}
        for each in messages:
            found.setdefault(self._readers(each), []).append(each)
        return list(found.values())

    def send(self, messages: Sequence[Message]) -> None:
        """Send one mail. Messages that nobody would read are accepted and go nowhere."""
        readers = self._readers(messages[0])
        if not readers:
            return
        mail = EmailMessage()
        mail["Subject"] = plain_line(f"[steward {self._site}] {subject_of(messages)}")
        mail["From"] = self._sender
        mail["To"] = ", ".join(readers)
        mail["Date"] = formatdate(localtime=False)
        mail["Message-ID"] = make_msgid(domain="steward.invalid")
        mail["Auto-Submitted"] = "auto-generated"  # answers of absence are not wanted
        mail.set_content(plain_text(messages, self._site, self._base_url))
        try:
            with self._open() as server:
                refused = server.send_message(mail)
        except smtplib.SMTPException as fault:
            raise _as_fault(fault, self.where) from fault
        except (OSError, ssl.SSLError) as fault:
            raise TemporaryError(f"cannot be reached: {fault}", where=self.where) from fault
        if refused:
            names = ", ".join(sorted(refused))
            hint = "the others got it; is `owners` right?"
            raise PermanentError(f"refused mail for {names}", where=self.where, hint=hint)

    def _readers(self, message: Message) -> tuple[str, ...]:
        owner = plain_line(message.user)
        # A user's name is an account's; anything else would be more addresses, or another header.
        if self._owners and owner and not set(owner) & set(" ,;<>@\"'()[]:\\"):
            return (self._owners.format(user=owner),)
        return self._to

    def _open(self) -> smtplib.SMTP:
        known = trusted(self._server.ca)
        context = ssl.create_default_context() if isinstance(known, bool) else known
        host, port, timeout_s = self._server.host, self._server.port, self._server.timeout_s
        if self._server.tls == "tls":
            opened: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=timeout_s, context=context)
        else:
            opened = smtplib.SMTP(host, port, timeout=timeout_s)
        try:
            if self._server.tls == "starttls":
                opened.starttls(context=context)
            if self._server.user:
                opened.login(self._server.user, self._server.password)
        except BaseException:
            opened.close()
            raise
        return opened


def _as_fault(fault: smtplib.SMTPException, where: str) -> StewardError:
    code = getattr(fault, "smtp_code", None)
    if isinstance(fault, smtplib.SMTPRecipientsRefused):
        codes = [code for code, _ in fault.recipients.values()]
        code = min(codes, default=None)
    if isinstance(fault, smtplib.SMTPAuthenticationError):
        hint = "check user and password_file"
        return PermanentError(f"refused the login ({code})", where=where, hint=hint)
    if isinstance(code, int) and 500 <= code < 600:
        return PermanentError(f"refused the mail: {fault}", where=where)
    return TemporaryError(f"could not take the mail: {fault}", where=where)

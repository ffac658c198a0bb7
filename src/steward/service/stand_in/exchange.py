"""Takes the tokens of one request to its client: event by event, or counted until the end."""

from __future__ import annotations

import asyncio

from steward.service.stand_in.answers import Answer

__all__ = ["Collected", "Streamed"]

_GARBAGE = b"\x00\xffdata: {{{\n\n"


class Collected:
    """Counts tokens; `done` gets their number, or stays open when a fault stalls the answer."""

    def __init__(self, *, fault: str, break_at: int) -> None:
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.fault = fault
        self._break_at = break_at

    def push(self, generated: int, *, ended: bool) -> None:
        """Take note of the tokens so far."""
        if self.done.done():
            return
        if self.fault and generated >= self._break_at:
            if self.fault != "stall":
                self.done.set_result(generated)
        elif ended:
            self.done.set_result(generated)


class Streamed:
    """Writes tokens to a connection as they come, past the web framework: many in one step.

    `done` gets the number of tokens, or -1 when a fault broke the answer off.
    """

    def __init__(
        self, answer: Answer, transport: asyncio.Transport, *, fault: str, break_at: int
    ) -> None:
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self._transport = transport
        self._sent = 0
        self._fault = fault
        self._break_at = break_at
        self._broken = False

    def push(self, generated: int, *, ended: bool) -> None:
        """Write the tokens that are new."""
        if self._broken or self.done.done() or self._transport.is_closing():
            return
        if self._fault and generated >= self._break_at:
            self._break()
            return
        if generated > self._sent:
            first = b"" if self._sent else self._answer.first_events()
            self._transport.write(first + self._answer.token_events(self._sent, generated))
            self._sent = generated
        if ended:
            self._transport.write(self._answer.last_events(generated))
            self.done.set_result(generated)

    def _break(self) -> None:
        self._broken = True
        if self._fault == "stall":
            return  # the client has to give up
        if self._fault == "garbage":
            self._transport.write(b"%x\r\n%b\r\n" % (len(_GARBAGE), _GARBAGE))
        if self._fault == "reset":
            self._transport.abort()
        else:
            self._transport.close()
        self.done.set_result(-1)

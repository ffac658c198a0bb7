"""Instances that something else starts: it is told by a signed POST, and asked until it is done.

The body names the decision, what to do, the instance and how many of its type there should be. The
receiver answers 200 with `{"state": "ready", "url": …}` (or `coming`, `leaving`, `gone`, `failed`),
or 202 for "begun". The same body may come any number of times.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, cast

from steward.act.serving.fleet import FleetState, Order
from steward.clients.signature import SIGNATURE, signed
from steward.clients.transport_rule import check_transport
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.model.event import Availability

if TYPE_CHECKING:
    import httpx

__all__ = ["Webhook"]

DELIVERY = "X-Steward-Decision"
_STARTS, _STOPS = ("coming", "ready", "failed"), ("leaving", "gone", "failed")


class Webhook:
    """One receiver. Without a secret, bodies are not signed, and `doctor` says so."""

    name = "webhook"

    def __init__(
        self, url: str, *, secret: str = "", timeout_s: float = 10.0, plain_http: bool = False
    ) -> None:
        if url:
            check_transport(url, plain_http=plain_http)
        self._url = url
        self._secret = secret
        self._timeout_s = timeout_s

    def available(self) -> Availability:
        """Say who is told; nothing is sent to find out."""
        if not self._url:
            hint = "set `instances.NAME.url`"
            return Availability(status="missing", reason="no receiver is named", hint=hint)
        if not self._secret:
            hint = "set `instances.NAME.secret_file`: a receiver cannot tell who calls it"
            reason = f"posts to {self._url}, unsigned"
            return Availability(status="limited", reason=reason, hint=hint)
        return Availability(status="ok", reason=f"posts to {self._url}")

    def start(self, order: Order, t_s: float) -> FleetState:  # noqa: ARG002 - a fleet's form
        """Ask for an instance, or how far it is."""
        return self._posted("start", order, _STARTS)

    def stop(self, order: Order, t_s: float) -> FleetState:  # noqa: ARG002 - a fleet's form
        """Ask for the end of an instance, or how far that is."""
        return self._posted("drain", order, _STOPS)

    def _posted(self, what: str, order: Order, states: tuple[str, ...]) -> FleetState:
        body = {
            "decision": order.decision,
            "action": what,
            "instance": order.instance,
            "type": order.type,
            "model": order.model,
            "gpus": order.gpus,
            "desired": order.count,
            "url": order.url,
        }
        answer = self._sent(json.dumps(body, sort_keys=True).encode(), order.decision)
        if answer.status_code == 202 and not answer.content:
            return FleetState(state=cast("Any", states[0]), text=f"{self._url} has begun")
        return self._read(answer, order, states)

    def _sent(self, body: bytes, decision: str) -> httpx.Response:
        import httpx  # noqa: PLC0415 - only sites with a webhook load it

        headers = {"Content-Type": "application/json", DELIVERY: decision}
        headers |= {SIGNATURE: signed(body, self._secret)} if self._secret else {}
        try:
            answer = httpx.post(
                self._url, content=body, headers=headers, timeout=self._timeout_s, trust_env=False
            )
        except httpx.HTTPError as fault:
            problem = f"it does not answer: {fault or type(fault).__name__}"
            raise TemporaryError(problem, where=self._url) from fault
        if answer.status_code >= 400:
            raise _refused(answer, self._url)
        return answer

    def _read(self, answer: httpx.Response, order: Order, states: tuple[str, ...]) -> FleetState:
        try:
            found = answer.json()
            state, url = str(found["state"]), str(found.get("url") or "")
            text = str(found.get("text") or "") or f"{self._url} says {state}"
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            hint = f"answer 202, or JSON with `state`: {', '.join(states)}"
            raise PermanentError("its answer has no state", where=self._url, hint=hint) from fault
        if state not in states or (state == "ready" and not url):
            problem = f"it says '{state}' of {order.instance}" + (" without a url" * (not url))
            hint = f"possible: {', '.join(states)}; `ready` needs `url`"
            raise PermanentError(problem, where=self._url, hint=hint)
        known = cast("Literal['coming', 'ready', 'leaving', 'gone', 'failed']", state)
        return FleetState(state=known, text=text, url=url)


def _refused(answer: httpx.Response, where: str) -> StewardError:
    problem = f"it answered {answer.status_code}: {answer.text[:200]}"
    if answer.status_code in (408, 425, 429) or answer.status_code >= 500:
        return TemporaryError(problem, where=where)
    return PermanentError(problem, where=where, hint="the decision is given up")

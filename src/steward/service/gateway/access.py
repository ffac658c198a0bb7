"""Who may send requests, and how many: API keys and their budgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steward.service.gateway.call import Caller
from steward.service.gateway.openai_errors import GatewayError
from steward.store.api_keys import ApiKey, ApiKeys

__all__ = ["Access", "Budget"]

_MINUTE_S, _DAY_S = 60.0, 86_400.0
_ANYBODY = Caller(admin=True)  # without keys; listening beyond this machine then needs a setting


class Budget:
    """A bucket that refills steadily. It goes below zero where a cost is known only afterwards."""

    def __init__(self, size: float, per_s: float, t_s: float) -> None:
        self.size = size
        self._per_s = per_s
        self._left = size
        self._then_s = t_s

    def wait_s(self, amount: float, t_s: float) -> float:
        """Return how long until there is `amount`, or 0."""
        self._left = min(self.size, self._left + max(0.0, t_s - self._then_s) * self._per_s)
        self._then_s = t_s
        lacking = min(amount, self.size) - self._left
        return 0.0 if lacking <= 0 else lacking / self._per_s

    def take(self, amount: float) -> None:
        """Take so much out."""
        self._left -= amount


class _Budgets:
    """The budgets of one key: requests are taken when they come, tokens when they are known."""

    def __init__(self, key: ApiKey, t_s: float) -> None:
        self.key = key
        self.requests = _bucket(key.requests_per_minute, _MINUTE_S, t_s)
        self.tokens = [
            each
            for each in (
                _bucket(key.tokens_per_minute, _MINUTE_S, t_s),
                _bucket(key.tokens_per_day, _DAY_S, t_s),
            )
            if each is not None
        ]


class Access:
    """Finds the caller of a request by its key. Without a file of keys, everybody may come."""

    def __init__(self, keys: ApiKeys | None, clock_s: Callable[[], float]) -> None:
        self._keys = keys
        self._clock_s = clock_s
        self._budgets: dict[str, _Budgets] = {}
        if keys is not None:
            keys.read()

    @property
    def open(self) -> bool:
        """Return whether there are no keys at all."""
        return self._keys is None

    def reload(self) -> None:
        """Read the keys again if they have changed; budgets of keys that stay go on."""
        if self._keys is not None:
            self._keys.read()
            there = {each.name for each in self._keys.list()}
            self._budgets = {n: each for n, each in self._budgets.items() if n in there}

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Return who sends a request, or raise that nobody is known by that key."""
        if self._keys is None:
            return _ANYBODY
        kind, _, secret = headers.get("Authorization", "").partition(" ")
        key = self._keys.find(secret.strip()) if kind.lower() == "bearer" else None
        if key is None:
            raise GatewayError(
                401,
                "this needs a valid API key: send `Authorization: Bearer KEY`",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        self._known(key)
        return Caller(
            name=key.name,
            tenant=key.tenant or key.name,
            deadline_class=key.deadline_class,
            admin=key.admin,
        )

    def admit(self, caller: Caller, tokens: float) -> None:
        """Take a request out of the caller's budgets, or raise when there will be enough."""
        budgets = self._budgets.get(caller.name)
        if budgets is None:
            return
        now_s = self._clock_s()
        if budgets.requests is not None:
            wait_s = budgets.requests.wait_s(1, now_s)
            if wait_s:
                raise _exhausted("requests_per_minute", caller, wait_s)
        for each in budgets.tokens:
            wait_s = each.wait_s(tokens, now_s)
            if wait_s:
                raise _exhausted("tokens", caller, wait_s)
        if budgets.requests is not None:
            budgets.requests.take(1)

    def spend(self, caller: Caller, tokens: float) -> None:
        """Take the tokens of an answer out of the caller's budgets."""
        budgets = self._budgets.get(caller.name)
        for each in budgets.tokens if budgets is not None else ():
            each.take(tokens)

    def admit_tenant(self, tenant: str) -> None:
        """Raise if no key of a tenant has tokens left for an item of its batches."""
        if self._keys is None or not tenant:  # "" uploaded while there were no keys
            return
        waits_s = []
        for key in self._keys.of_tenant(tenant):
            buckets = self._known(key).tokens
            waits_s.append(max((each.wait_s(1, self._clock_s()) for each in buckets), default=0.0))
        if not waits_s:
            raise GatewayError(
                429, f"'{tenant}' has no valid API key any more", code="invalid_api_key"
            )
        if min(waits_s):
            raise _exhausted("tokens", Caller(name=tenant), min(waits_s))

    def spend_tenant(self, tenant: str, tokens: float) -> None:
        """Take the tokens of a batch's item out of the budgets of all keys of its tenant."""
        for key in self._keys.of_tenant(tenant) if self._keys is not None else ():
            for each in self._known(key).tokens:
                each.take(tokens)

    def _known(self, key: ApiKey) -> _Budgets:
        found = self._budgets.get(key.name)
        if found is None or found.key != key:
            found = self._budgets[key.name] = _Budgets(key, self._clock_s())
        return found


def _bucket(amount: int | None, every_s: float, t_s: float) -> Budget | None:
    return None if amount is None else Budget(amount, amount / every_s, t_s)


def _exhausted(what: str, caller: Caller, wait_s: float) -> GatewayError:
    seconds = max(1, -int(-wait_s // 1))
    named = "requests a minute" if what == "requests_per_minute" else "tokens"
    return GatewayError(
        429,
        f"the budget of {named} of key '{caller.name}' is used up; try again in {seconds} s",
        code="rate_limit_exceeded",
        headers={"Retry-After": str(seconds)},
    )

"""A circuit breaker per upstream: after failures in a row, no requests for a while."""

from __future__ import annotations

from steward.config.gateway_settings import GatewaySettings

__all__ = ["CLOSED", "HALF_OPEN", "OPEN", "Breaker"]

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half-open"
_LONGEST_REST_S = 60.0


class Breaker:
    """Opens after failures in a row; a passed health check lets one request try."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._rest_s = settings.breaker_rest_s
        self.state = CLOSED
        self.failures = 0  # in a row
        self.until_s = 0.0

    def fail(self, t_s: float) -> bool:
        """Count a failure; return True if it opened the breaker."""
        self.failures += 1
        if self.state == HALF_OPEN:
            self._rest_s = min(_LONGEST_REST_S, 2 * self._rest_s)
        elif self.state == OPEN or self.failures < self._settings.breaker_failures:
            return False
        self.state = OPEN
        self.until_s = t_s + self._rest_s
        return True

    def succeed(self) -> bool:
        """Count an answer; return True if it closed the breaker."""
        self.failures = 0
        if self.state != HALF_OPEN:
            return False
        self.state = CLOSED
        self._rest_s = self._settings.breaker_rest_s
        return True

    def try_again(self, t_s: float) -> bool:
        """Return True if a passed health check, now, lets one request try."""
        if self.state != OPEN or t_s < self.until_s:
            return False
        self.state = HALF_OPEN
        return True

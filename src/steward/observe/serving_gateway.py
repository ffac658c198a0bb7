"""Looks at a gateway in front of model servers: its queues, its instances, its deadlines."""

from __future__ import annotations

from steward.clients.gateway import GatewayClient
from steward.errors import StewardError
from steward.model.event import Availability, Observation

__all__ = ["ServingGateway"]


class ServingGateway:
    """One gateway's status, read every turn. It is the collector of the serving domain's loop."""

    name = "gateway"
    vocabulary = "canonical"

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        self._answered = False

    def available(self) -> Availability:
        """Say whether the gateway answers."""
        try:
            snapshot = self._client.snapshot(0.0)
        except StewardError as fault:
            return Availability(status="missing", reason=str(fault), hint=fault.hint)
        instances = len(snapshot.servers)
        return Availability(status="ok", reason=f"{self._client.url}: {instances} instances")

    def collect(self, t_s: float) -> Observation:
        """Return the status of now."""
        observation = Observation(serving=self._client.snapshot(t_s))
        self._answered = True
        return observation

    def has_listed(self) -> bool:
        """Return whether the gateway has answered: its status names all instances."""
        return self._answered

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

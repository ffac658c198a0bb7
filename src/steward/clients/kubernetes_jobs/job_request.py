"""One request to the API server that changes a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steward.clients.kubernetes.api import Api

__all__ = ["JobRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """One request, and how a person types the same."""

    verb: str
    path: str
    body: Mapping[str, Any]
    typed: str

    def send(self, api: Api) -> None:
        """Make the request."""
        (api.delete if self.verb == "delete" else api.patch)(self.path, self.body)

"""`/v1/files` and `/v1/batches`: files of requests that have hours to be answered."""

from __future__ import annotations

from steward.service.gateway.batches.routes import BatchRoutes, open_batch_routes

__all__ = ["BatchRoutes", "open_batch_routes"]

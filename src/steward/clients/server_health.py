"""Asks a model server whether it serves."""

from __future__ import annotations

__all__ = ["answers"]


def answers(url: str, *, timeout_s: float = 2.0) -> bool:
    """Return whether a server answers with success: refused, slow and 5xx are all "not yet"."""
    import httpx  # noqa: PLC0415 - only sites with model servers load it

    try:
        return httpx.get(url, timeout=timeout_s, trust_env=False).status_code < 400
    except httpx.HTTPError:
        return False

"""How bodies that steward posts are signed, so that a receiver can tell who sent them."""

from __future__ import annotations

import hashlib
import hmac

__all__ = ["SIGNATURE", "signed"]

SIGNATURE = "X-Steward-Signature"


def signed(body: bytes, secret: str) -> str:
    """Return what a receiver compares: HMAC-SHA256 of the body, in hexadecimal."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()

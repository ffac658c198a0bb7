"""Sends bodies to those who take them, again and again where that may help, and counts.

Belongs here: queues, tries and pauses, and small senders. Does not: what is in a body (`wire`).
"""

from __future__ import annotations

from steward.clients.sending.delivery import Delivery, Sender, SenderStats

__all__ = ["Delivery", "Sender", "SenderStats"]

"""`/memory`: processes whose memory is watched: tiers, hot set, moves and stall saved."""

from steward.service.pages.memory.page import memory_page

__all__ = ["memory_page"]

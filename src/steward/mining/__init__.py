"""What recorded telemetry shows, as one summary and one page.

Belongs here: what commands and pages on mined patterns have in common, above mining (`learn`) and
drawing (`documents`). Does not: mining itself.
"""

from __future__ import annotations

from steward.mining.page import page, write_page
from steward.mining.summary import Summary, summarise

__all__ = ["Summary", "page", "summarise", "write_page"]

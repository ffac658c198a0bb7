"""`/lab`: compare policies on a trace of one's own. Belongs here: how that looks."""

from __future__ import annotations

from steward.service.pages.lab.page import lab_page

__all__ = ["lab_page"]

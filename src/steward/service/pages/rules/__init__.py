"""The pages of rules and of their findings."""

from __future__ import annotations

from steward.service.pages.rules.finding import finding_page
from steward.service.pages.rules.listing import rules_page
from steward.service.pages.rules.page import rule_page

__all__ = ["finding_page", "rule_page", "rules_page"]

"""What a rule waits for, and why it fires on a log or does not: for those who write rules.

Belongs here: words for rules, and trying a rule with one demand less. Does not: matching, and how
it is shown.
"""

from __future__ import annotations

from steward.inspection.explaining.trying import Explanation, Reason, Sighting, explain
from steward.inspection.explaining.wording import lasting, rule_words

__all__ = ["Explanation", "Reason", "Sighting", "explain", "lasting", "rule_words"]

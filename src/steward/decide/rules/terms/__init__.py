"""Terms: tests of one log entry, run one by one or over a whole block.

Belongs here: substrings, RE2 and jq as tests, what their matches must contain, and the search for
that. Does not: what several matching entries mean together (`matching`), or conditions on series
(`metric`).
"""

from __future__ import annotations

from steward.decide.rules.terms.prefilter import Prefilter, TermHits
from steward.decide.rules.terms.term import Test, compile_extract, compile_term

__all__ = ["Prefilter", "TermHits", "Test", "compile_extract", "compile_term"]

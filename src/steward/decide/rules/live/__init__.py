"""Rules in the loop: observations go through the engine, and matches become findings.

Belongs here: how observations are given to the engine, and which matches are one finding. Does
not: matching (`decide.rules.engine`), where rules come from (`store.rules`), what is done about
findings (`decide.treating`).
"""

from __future__ import annotations

from steward.decide.rules.live.recogniser import RuleRecogniser

__all__ = ["RuleRecogniser"]

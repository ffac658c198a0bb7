"""Rules in the loop: feed observations to the engine, and turn matches into findings.

Belongs here: conversion of observations for the engine, and grouping of matches into findings. Does
not: matching (`decide.rules.engine`), where rules come from (`store.rules`), what is done about
findings (`decide.treating`).
"""

from __future__ import annotations

from steward.decide.rules.live.recogniser import RuleRecogniser

__all__ = ["RuleRecogniser"]

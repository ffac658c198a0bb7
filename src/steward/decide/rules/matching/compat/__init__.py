"""Matchers that do what preq does, with its quirks (`docs/rules/matching.md` has the list).

Belongs here: what the public corpus relies on. Does not: what the language means (`strict`).
"""

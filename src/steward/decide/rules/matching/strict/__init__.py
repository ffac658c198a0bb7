"""Matchers that do what the language means (`docs/rules/matching.md` says what that is).

Belongs here: windows that hold everywhere, order of all slots, guards that deny whatever came
first. Does not: what the public corpus relies on beyond that (`compat`).
"""

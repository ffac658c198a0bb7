"""The shared words: frozen values and columnar views. No I/O, no clock, no randomness.

Belongs here: what two rooms have to agree on. Does not: how anything is fetched, kept or shown.
"""

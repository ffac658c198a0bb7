"""Reads what programs and the kernel write: files, containers, the journal, the ring buffer.

Belongs here: getting lines whole, once, in order, with where they came from and when. Does not:
what a line means (`observe.lines`).
"""

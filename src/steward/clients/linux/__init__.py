"""Reads /proc and /sys often and cheaply, in the kernel's names and units.

Belongs here: one file per part of a machine, each a `Reader`. Does not: names and units of ours.
Files stay open and are read from their start; where a number stands is found out once.
"""

"""Sources of lines: files, containers, the journal and the kernel, each a collector.

All have `positions()` and `resume(positions)`: one that saves the first once lines are durable, and
gives it back before the first look, loses no line and gets none twice.
"""

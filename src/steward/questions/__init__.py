"""Questions in words, answered from what steward knows, with a source for each fact.

Belongs here: the read-only tools, the grammar that finds which of them a question is about, the
planner and writer that a language model may be, and the checker that refuses what no fact holds.
Does not: HTTP, pages, the protocols of models and assistants. Nothing here changes anything.
"""

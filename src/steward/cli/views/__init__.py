"""How the larger answers look: a decision's story, what was saved, and the report as a page.

Belongs here: words, rows, lines and markup. Does not: any judgement about the cluster.
"""

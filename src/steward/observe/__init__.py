"""What is happening? Collectors look; names and units are normalised once, here.

Belongs here: reading sources and translating their metrics. Does not: what it means (`learn`).
"""

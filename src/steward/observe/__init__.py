"""What is happening? Collectors look; names and units are normalised once, here.

Belongs here: reading sources and making their words ours. Does not: what it means (`learn`).
"""

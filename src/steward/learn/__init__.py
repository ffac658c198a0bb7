"""What does it mean, what comes next? Patterns, and estimators that learn from outcomes.

Belongs here: beliefs. Does not: what to do about them (`decide`).
"""

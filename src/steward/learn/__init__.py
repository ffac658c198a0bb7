"""Learning: patterns, and estimators that learn from outcomes.

Belongs here: estimates. Does not: decisions based on them (`decide`).
"""

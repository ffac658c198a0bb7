"""The part of PromQL that can be evaluated over our frames: reading, checking, evaluating.

Belongs here: the language, and arithmetic on series at many times at once. Does not: which samples
are kept, when they are looked at, or what it means that a condition holds.
"""

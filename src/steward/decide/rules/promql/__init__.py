"""The subset of PromQL that is evaluated over our frames: parser, type check, evaluator.

Belongs here: the language, and arithmetic on series at many times at once. Does not: storage of
samples, evaluation times, or hold state of conditions.
"""

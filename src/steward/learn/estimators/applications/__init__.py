"""What an application needs, learnt from its runs: most of them scaled down, a few at full scale.

Belongs here: features of a run's parameters, the pool of models, conformal limits, the choice of
the next run, and the campaign that carries runs out. Does not: engines (`clients`, `cli/jobs`), and
models that have a graph (`model_graphs`).
"""

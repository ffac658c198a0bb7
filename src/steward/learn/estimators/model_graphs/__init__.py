"""What a model needs by its graph: memory, step time and energy before it runs.

Belongs here: closed forms from a configuration, traces on meta tensors (in a worker process, which
alone imports torch), the allocator model and the calibrated limits. Does not: history of jobs.
"""

"""The compiled inner part of rank-based scheduling: which jobs should run now?

A kernel reads a `QueueState` (which jobs wait and run, in order, and what is free) and writes two
lists: jobs to start and jobs to stop. The lab's engine and the live loop call the same kernels.
Belongs here: choosing. Does not: where a job goes (`decide/placement`) and when to look (the
engine).
"""

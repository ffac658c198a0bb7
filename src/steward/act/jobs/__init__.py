"""The life cycle of jobs that steward runs, the same on every engine.

Belongs here: what becomes of a job, and when. Does not: processes (`clients/local_jobs`), what is
remembered (`store/jobs.py`), or which job should run (`decide`).
"""

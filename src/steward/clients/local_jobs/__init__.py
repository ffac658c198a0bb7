"""Starts, signals, finds and measures the processes of jobs on this machine.

Belongs here: processes, control groups, and the files of an attempt. Does not: when a job may
start or what becomes of it (`act/jobs`), or what is remembered of it (`store/jobs.py`).
"""

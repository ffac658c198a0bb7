"""Replays of jobs that keep their size: an exact, compiled event loop around the policies' passes.

Belongs here: time, arrivals, completions, stops and starts, machines that come and go, and the
record of who ran when. Does not: who should run (`decide/scheduling/kernels`) or where
(`decide/placement`).
"""

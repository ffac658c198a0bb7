"""How decisions become Slurm's commands: pure, from what Slurm lists to what has to be run next.

Belongs here: which commands carry out an action, and when they may not be run. Does not: running
them (`clients/slurm`), nor the port (`act/actuators/slurm.py`).
"""

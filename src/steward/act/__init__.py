"""Do it, carefully: the desk, the guard, the actuators, and the check of what came of it.

Belongs here: carrying out and measuring. Does not: choosing what (`decide`).
"""

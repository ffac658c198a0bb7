"""Worlds that are not there: each is a collector and an actuator, so that live code runs on it.

Belongs here: a simulated cluster with its clockwork (`events`, `cluster`, `engine`), what runs on
it (`workload`, `program`, `shapes`) and its exact account of itself (`meter`). Does not belong
here: any decision. What is synthetic is called so where it is made.
"""

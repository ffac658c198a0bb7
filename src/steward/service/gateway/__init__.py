"""The gateway in front of model servers: one queue, deadlines, dispatching, and its HTTP side.

Belongs here: reading requests, holding them until a dispatcher sends them, relaying answers,
watching upstreams. Does not: choosing the order or the place (`decide/serving`) or estimating
(`learn/estimators`).
"""

"""Engines that start and stop model servers, and what binds them to a gateway.

Belongs here: one file per kind of fleet, each idempotent by decision id, and the actuator that
registers and drains their instances at the gateway. Does not: deciding how many there are
(`decide/serving`), or sending requests (`service/gateway`).
"""

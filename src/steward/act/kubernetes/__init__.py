"""How decisions become requests to Kubernetes: pure, from what it lists to what is sent next.

Belongs here: which changes carry out an action, and when they may not be made. Does not: making
them (`clients/kubernetes`), nor the port (`act/actuators/kubernetes.py`).
"""

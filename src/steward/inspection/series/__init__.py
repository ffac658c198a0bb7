"""Series for rules: from files, from a Prometheus, and from the store.

Belongs here: sources of telemetry for metric terms, and curves for findings. Does not:
the terms themselves (`decide.rules.metric`).
"""

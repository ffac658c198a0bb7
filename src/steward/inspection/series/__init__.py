"""Series for rules: read from files, asked of a Prometheus, measured, and drawn.

Belongs here: what brings telemetry to metric terms, and what shows it beside a finding. Does not:
the terms themselves (`decide.rules.metric`).
"""

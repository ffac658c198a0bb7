"""The bytes that monitoring systems exchange: Prometheus' and OpenTelemetry's, in both directions.

Belongs here: bytes to arrays of series and samples, arrays to bytes, and the limits that keep
untrusted bytes harmless. Does not: what a series means (`observe/translate`) or its transport
(`clients/prometheus.py`, `clients/otlp.py`, `service/wire`).
"""

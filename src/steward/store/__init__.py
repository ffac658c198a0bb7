"""The only place that remembers: the journal, telemetry files, and who may come in.

Belongs here: what must outlive a process, and reading it back. Does not: deciding what any of it
means, or fetching it from somewhere else.
"""

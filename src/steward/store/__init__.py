"""All that is kept on disk: the journal, telemetry files, learned state, access tokens.

Belongs here: what must outlive a process, and reading it back. Does not: deciding what any of it
means, or fetching it from somewhere else.
"""

"""Where a job should run, and what it costs there, before it runs. Pure."""

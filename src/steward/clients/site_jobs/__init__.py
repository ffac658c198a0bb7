"""Jobs at a site, whatever engine it has: submit once, look, save, release, end.

What an engine answers stays in its own client; here it becomes what following a job needs.
"""

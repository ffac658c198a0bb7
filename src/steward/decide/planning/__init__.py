"""Where a job should run, when, and what it costs there, before it runs.

Belongs here: arithmetic on a catalogue, an outlook and a request, all of them values. Does not:
where run times come from (`learn`), reading catalogues (`store`), scripts and pages.
"""

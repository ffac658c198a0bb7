"""Plans put together: run times from estimators, scripts that are ready to run, the plan as a page.

Belongs here: what connects a catalogue, estimators and `decide.planning`, for the command line and
the service alike. Does not: which plan is good (`decide`), or how a terminal shows it (`cli`).
"""

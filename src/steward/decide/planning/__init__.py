"""Where, when and how a job should run: what sites allow and charge, hours, spot capacity, plans.

Belongs here: arithmetic on catalogues, forecasts and requests, all of them values. Does not: where
run times come from (`learn`), reading catalogues (`store`), scripts and pages (`planning`).
"""

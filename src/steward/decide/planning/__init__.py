"""Where, when and how a job should run: what sites allow and charge, hours, spot capacity, plans.

Pure: catalogues, forecasts and the present time come in as values.
"""

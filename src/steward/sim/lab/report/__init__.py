"""A comparison as one HTML file that needs nothing from elsewhere: words, tables and pictures.

Belongs here: how results look. Does not: any figure that a comparison does not hold already.
"""

from __future__ import annotations

from steward.sim.lab.report.page import page, write_report

__all__ = ["page", "write_report"]

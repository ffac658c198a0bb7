"""Self-contained HTML documents: nothing is loaded from anywhere, light and dark.

Belongs here: what all reports share (escaping, the page, its style, tables, axes, SVG). Does not:
what a report is about.
"""

from __future__ import annotations

from steward.documents.axes import Axis, axis_of
from steward.documents.html import document, escaped, table, write_document

__all__ = ["Axis", "axis_of", "document", "escaped", "table", "write_document"]

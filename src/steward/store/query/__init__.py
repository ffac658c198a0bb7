"""Asks questions of a store folder: SQL, a small form of its own, and what is new.

Belongs here: reading what lies there. Does not: writing any of it, or how answers are shown.
"""

from __future__ import annotations

from steward.store.query.expression import Expression, is_sql, parse
from steward.store.query.session import Query, QueryLimits, QueryResult
from steward.store.query.tail import Tail

__all__ = ["Expression", "Query", "QueryLimits", "QueryResult", "Tail", "is_sql", "parse"]

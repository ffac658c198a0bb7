"""Queries a store folder: SQL, a short expression language, and a tail of new rows.

Belongs here: reading the folder. Does not: writing to it, or formatting results.
"""

from __future__ import annotations

from steward.store.query.expression import Expression, is_sql, parse
from steward.store.query.session import Query, QueryLimits, QueryResult
from steward.store.query.tail import Tail

__all__ = ["Expression", "Query", "QueryLimits", "QueryResult", "Tail", "is_sql", "parse"]

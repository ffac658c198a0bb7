"""Looks for jobs by state, user and words: a page of them, and how many there are."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from steward.model.managed_job import LifeState

__all__ = ["INDEX", "JobQuery", "count_states", "find_ids", "list_users"]

_WORDS = "{0}.id, json_extract({0}.spec, '$.user'), {0}.id" + "".join(
    f" || char(10) || json_extract({{0}}.spec, '$.{name}')" for name in ("user", "name", "tenant")
)
# Beside the jobs themselves: their specs have scripts and environments, too much to read each time.
INDEX = f"""
CREATE TABLE IF NOT EXISTS job_words (id TEXT PRIMARY KEY, user TEXT NOT NULL, words TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS job_user ON job_words (user);
CREATE TRIGGER IF NOT EXISTS job_added AFTER INSERT ON job BEGIN
  INSERT OR REPLACE INTO job_words SELECT {_WORDS.format("new")}; END;
INSERT OR IGNORE INTO job_words SELECT {_WORDS.format("job")} FROM job
  WHERE id NOT IN (SELECT id FROM job_words);
"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """Which jobs: in one of `states` (empty: in any), of `user`, with `text` in what names them.

    Those of `first_uid` come first, then the newest.
    """

    states: tuple[LifeState, ...] = ()
    user: str = ""
    text: str = ""
    first_uid: int | None = None
    offset: int = 0
    limit: int = 100


def find_ids(database: sqlite3.Connection, query: JobQuery) -> tuple[list[str], int]:
    """Return the ids of one page, and how many jobs match in all."""
    where, values = _where(query)
    total = database.execute(f"SELECT count(*) FROM job{where}", values).fetchone()[0]  # noqa: S608
    own = -1 if query.first_uid is None else query.first_uid
    rows = database.execute(
        f"SELECT id FROM job{where} ORDER BY uid = ? DESC, number DESC LIMIT ? OFFSET ?",  # noqa: S608
        (*values, own, query.limit, query.offset),
    ).fetchall()
    return [row[0] for row in rows], int(total)


def count_states(database: sqlite3.Connection) -> dict[LifeState, int]:
    """Return how many jobs are in each state."""
    rows = database.execute("SELECT state, count(*) FROM job GROUP BY state").fetchall()
    return {LifeState(state): count for state, count in rows}


def list_users(database: sqlite3.Connection) -> list[str]:
    """Return who has or had jobs, by name."""
    rows = database.execute("SELECT DISTINCT user FROM job_words ORDER BY user").fetchall()
    return [row[0] for row in rows]


def _where(query: JobQuery) -> tuple[str, tuple[str, ...]]:
    parts: list[str] = []
    values: list[str] = []
    if query.states:
        parts.append(f"state IN ({','.join('?' * len(query.states))})")
        values += [each.value for each in query.states]
    if query.user:
        parts.append("id IN (SELECT id FROM job_words WHERE user = ?)")
        values.append(query.user)
    for word in query.text.split():
        escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        parts.append("id IN (SELECT id FROM job_words WHERE words LIKE ? ESCAPE '\\')")
        values.append(f"%{escaped}%")
    return (f" WHERE {' AND '.join(parts)}" if parts else ""), tuple(values)

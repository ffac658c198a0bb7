"""Host names in syslog lines: files of a central log server hold lines of many hosts."""

from __future__ import annotations

import re

__all__ = ["syslog_host"]

_HEAD_BYTES = 256
_TIME = rb"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*)"
_HOST = rb"(?P<host>[A-Za-z0-9][\w.-]*)"
_TAG = rb"(?:[\w./@()-]+(?:\[\d+\])?: ?|last message repeated |message repeated )"
_LINE = re.compile(rb"(?:<\d{1,3}>)?(?:\d )?" + _TIME + rb" " + _HOST + rb" " + _TAG)
# Where the reader has removed the time, only a tag that no other program writes is trusted.
_REST = re.compile(_HOST + rb" (?:kernel|[\w./@()-]+\[\d+\]): ")
_LEVELS = frozenset(
    b"TRACE DEBUG INFO NOTICE WARN WARNING ERR ERROR CRIT CRITICAL ALERT EMERG FATAL PANIC".split()
)


def syslog_host(line: bytes, *, time_removed: bool = False) -> str:
    """Return the host that a syslog line names; empty where the line is not one.

    >>> syslog_host(b"Jun  1 00:00:01 gpu-7 kernel: NVRM: Xid")
    'gpu-7'
    >>> syslog_host(b"2025-06-01T00:00:01Z ERROR worker: it failed")
    ''
    """
    head = line[:_HEAD_BYTES]
    found = _LINE.match(head) or (_REST.match(head) if time_removed else None)
    if found is None or found["host"].upper() in _LEVELS:
        return ""
    return found["host"].decode("ascii", "replace")

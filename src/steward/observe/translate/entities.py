"""Nodes by the names that exporters have for them, and entities of unknown metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping

from steward.clients.wire.label_escapes import escape_label

__all__ = ["node_name", "with_rest"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def node_name(text: str) -> str:
    """Return the node that an address or host name is of, safe to be part of an entity.

    >>> node_name("n01:9100"), node_name("http://n02.site:80/metrics"), node_name("[fe80::1]:9400")
    ('n01', 'n02.site', 'fe80__1')
    """
    host = text.partition("://")[2] or text
    host = host.partition("/")[0]
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    return _UNSAFE.sub("_", host)


def with_rest(node: str, labels: Mapping[str, str], *, without: frozenset[str]) -> str:
    """Return the entity of a metric without a canonical name: the node and all other labels.

    >>> with_rest("n01", {"model": "x", "engine": "0", "job": "vllm"}, without=frozenset({"job"}))
    'n01{engine="0",model="x"}'
    """
    rest = sorted(name for name in labels if name not in without and not name.startswith("__"))
    inside = ",".join(f'{name}="{escape_label(labels[name])}"' for name in rest)
    return f"{node}{{{inside}}}" if inside else node

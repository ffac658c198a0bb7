"""What `lldpctl -f json` or `lldpctl -f keyvalue` says: the neighbour of each interface of a host.

It is told by one end: whether the other end sees the same is known when its own is read, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from steward.errors import StewardError
from steward.model.fabric.builder import TopologyBuilder
from steward.model.fabric.topology import ETHERNET, NODE, SWITCH, FabricTopology
from steward.observe.fabric.documents import json_of, mapping

__all__ = ["read_lldp"]


def read_lldp(text: str, where: str = "") -> FabricTopology:
    """Read the neighbours of one host, which is called as the file is: `n1.json` is n1."""
    host = PurePath(where).stem or "this-host"
    found = _of_json(text, where) if text.lstrip().startswith("{") else _of_lines(text)
    if not found:
        raise StewardError("no interface has a neighbour", where=where)
    builder = TopologyBuilder(where or "lldp")
    builder.vertex(host, NODE)
    for rail, (interface, (name, port)) in enumerate(sorted(found.items())):
        builder.vertex(name, SWITCH)
        builder.cable(
            host,
            name,
            kind=ETHERNET,
            rail=rail if len(found) > 1 else -1,
            ports=(interface, port),
            told_by=[host],
        )
    return builder.build()


def _of_json(text: str, where: str) -> dict[str, tuple[str, str]]:
    """Return (neighbour, its port) by interface. One interface is an object, several are a list."""
    whole = mapping(mapping(json_of(text, where), "the file", where).get("lldp"), "lldp", where)
    listed = whole.get("interface") or []
    found = {}
    for each in listed if isinstance(listed, list) else [listed]:
        for interface, about in mapping(each, "an interface", where).items():
            name = _chassis(mapping(about, interface, where).get("chassis"), where)
            port = mapping(mapping(about, interface, where).get("port"), "port", where)
            if name:
                found[interface] = (name, _value(port.get("id")))
    return found


def _chassis(chassis: Any, where: str) -> str:  # noqa: ANN401 - a part of a document
    """Return the name of a chassis: the key before its fields, or its identity if it has none."""
    fields = mapping(chassis, "chassis", where)
    if "id" in fields and ("type" in mapping(fields["id"], "id", where)):
        return _value(fields.get("name")) or _value(fields["id"])
    return next(iter(fields), "")


def _value(field: Any) -> str:  # noqa: ANN401 - a text, or an object with its value
    if isinstance(field, Mapping):
        return str(field.get("value", ""))
    return "" if field is None else str(field)


def _of_lines(text: str) -> dict[str, tuple[str, str]]:
    """Return the same of lines such as `lldp.eth0.chassis.name=leaf1`; names may have dots."""
    names: dict[str, str] = {}
    ids: dict[str, str] = {}
    ports: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if not equals or not key.startswith("lldp."):
            continue
        inner = key.removeprefix("lldp.")
        for ending, into in (
            (".chassis.name", names),
            (".chassis.mac", ids),
            (".port.ifname", ports),
            (".port.local", ports),
            (".port.descr", ports),
        ):
            if inner.endswith(ending):
                into.setdefault(inner.removesuffix(ending), value)
    return {each: (names.get(each) or ids[each], ports.get(each, "")) for each in {**ids, **names}}
